//! Going back: timeouts, sequence NAKs, implied NAKs, RNR NAKs.

use uroce_wire::{DropReason, Psn, ack_timeout_ns, rnr_timer_us};

use crate::cause::Cause;
use crate::context::Context;
use crate::mutation::mutated;
use crate::qp::QueuePair;
use crate::retransmission::Retransmission;
use crate::time::Instant;
use crate::wc::WcStatus;

/// rnr_retry with this value waits for ever (R76, B16).
const RNR_RETRY_FOR_EVER: u8 = 7;

/// The local ACK timeout doubles this often: up to four times the one that was asked for (R75),
const MAX_BACKOFF: u8 = 2;

/// and no further than this (ns): whoever chose a longer one gets what it says.
const LONGEST_BACKOFF_NS: u64 = 300_000_000;

impl QueuePair {
    /// Index of the request that owns `psn`.
    pub(crate) fn index_of(&self, psn: Psn) -> Option<usize> {
        (0..self.send_queue.len()).find(|index| {
            self.send_queue.get(*index).is_some_and(|wqe| {
                wqe.numbered && psn.since(wqe.first_psn) >= 0 && psn.since(wqe.last_psn()) <= 0
            })
        })
    }

    /// The packet with this PSN goes out next.
    pub(crate) fn point_at(&mut self, psn: Psn) {
        let behind_all = || self.index_of(psn.sub(1)).map_or(0, |last| last + 1);
        self.requester.cursor = self.index_of(psn).unwrap_or_else(behind_all);
        self.requester.psn = psn;
    }

    /// Sends again from `psn` on (go-back-N).
    pub(crate) fn go_back_to(&mut self, psn: Psn, cx: &mut Context<'_>) {
        if self.index_of(psn).is_none() {
            return;
        }
        let answered = self.requester.selective_repeat.responses.answered();
        let psn = match answered.filter(|end| end.since(psn) > 0) {
            // Of what was answered, only missing responses are asked for again.
            Some(end) => {
                self.ask_again();
                end
            }
            None => psn,
        };
        self.point_at(if mutated("go-back-late") { psn.add(1) } else { psn });
        self.requester.since_ack_request = 0;
        if psn == self.requester.una {
            self.requester.ack_deadline = None;
        }
        self.requester.tail_probe.note_rewind();
        self.requester.selective_repeat.forget();
        self.requester.forget_reads_from(psn);
        cx.counters.completer_retry_err += 1;
        self.wake();
    }

    /// R71: the responder misses `psn`.
    pub(crate) fn handle_sequence_nak(&mut self, now: Instant, psn: Psn, cx: &mut Context<'_>) {
        cx.counters.rcvd_seq_err += 1;
        // B15: a sequence NAK during an RNR wait must not shorten it.
        if self.requester.rnr_until.is_some() {
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let copy = psn == self.requester.una && self.requester.selective_repeat.was_asked_for(psn);
        if self.requester.psn == psn || copy {
            return;
        }
        if self.requester.retries_left == 0 {
            let peer = self.peer();
            let retries = self.requester.retry_cnt;
            let cause = Cause::TooManySequenceNaks { peer, psn, retries };
            cx.counters.retry_exceeded_err += 1;
            return self.fail_oldest_send(now, WcStatus::RetryExcErr, cause, cx);
        }
        self.requester.retries_left -= 1;
        if self.repair(now, psn) {
            return self.requester.note_single_loss();
        }
        self.requester.note_loss();
        self.requester.retransmission = Retransmission::SequenceNak;
        self.go_back_to(psn, cx);
    }

    /// R76: no receive was posted; wait, then send from `psn` on again.
    pub(crate) fn handle_rnr_nak(
        &mut self,
        now: Instant,
        psn: Psn,
        timer: u8,
        cx: &mut Context<'_>,
    ) {
        cx.counters.rcvd_rnr_err += 1;
        self.traffic.rcvd_rnr_naks += 1;
        if self.requester.rnr_until.is_some() && self.requester.rnr_psn == psn {
            // Nothing was sent since the last one: a copy of it, which costs no retry.
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let wait_us = if mutated("rnr-at-once") { 0 } else { rnr_timer_us(timer) };
        if self.requester.rnr_retry != RNR_RETRY_FOR_EVER {
            if self.requester.rnr_retries_left == 0 {
                let peer = self.peer();
                let retries = self.requester.rnr_retry;
                let cause = Cause::NeverReady { peer, psn, retries, wait_us };
                cx.counters.retry_rnr_exceeded_err += 1;
                return self.fail_oldest_send(now, WcStatus::RnrRetryExcErr, cause, cx);
            }
            self.requester.rnr_retries_left -= 1;
        }
        self.requester.retransmission = Retransmission::RnrNak;
        self.go_back_to(psn, cx);
        // It arrived; it is the receive that was missing.
        self.requester.doubts.forget();
        self.requester.rnr_psn = psn;
        self.requester.rnr_until = Some(now.add_ns(u64::from(wait_us) * 1_000));
    }

    /// Runs the timers that are due.
    pub(crate) fn run_timers(&mut self, now: Instant, cx: &mut Context<'_>) {
        if let Some(until) = self.requester.rnr_until {
            if now >= until {
                self.requester.rnr_until = None;
                // R76: the wait is no timeout; each try has its full time from its sending on.
                self.requester.ack_deadline = None;
                if self.requester.outstanding() > 0 {
                    self.ask_again();
                }
                self.wake();
            }
            return;
        }
        self.run_tail_probe(now);
        if self.requester.ack_deadline.is_some_and(|deadline| now >= deadline) {
            self.requester.ack_deadline = None;
            if self.requester.in_flight() {
                self.handle_ack_timeout(now, cx);
            }
        }
    }

    fn handle_ack_timeout(&mut self, now: Instant, cx: &mut Context<'_>) {
        cx.counters.ack_timeout += 1;
        if self.requester.retries_left == 0 {
            let cause = Cause::NoAnswer {
                peer: self.peer(),
                psn: self.requester.una,
                retries: self.requester.retry_cnt,
                timeout_ns: ack_timeout_ns(self.attr.timeout).unwrap_or(0),
                heard: self.requester.any_response,
            };
            cx.counters.retry_exceeded_err += 1;
            return self.fail_oldest_send(now, WcStatus::RetryExcErr, cause, cx);
        }
        self.requester.retries_left -= 1;
        self.note_silence_behind_train();
        self.requester.note_silence();
        self.requester.retransmission = Retransmission::AckTimeout;
        self.go_back_to(self.requester.una, cx);
    }

    /// Starts the local ACK timer if it does not run.
    pub(crate) fn arm_ack_timer(&mut self, now: Instant) {
        self.arm_tail_probe(now);
        if self.requester.ack_deadline.is_none() {
            self.restart_ack_timer(now);
        }
    }

    /// Starts the local ACK timer anew, or stops it when nothing is in flight. A try waits T, the
    /// next 2T, the others 4T, which is what the specification leaves room for (R75), as long as that is not
    /// long: a peer that stalls for a moment is not buried under repetitions. A longer T is waited for as it is: a
    /// dead peer is noticed after T for each try.
    pub(crate) fn restart_ack_timer(&mut self, now: Instant) {
        let timeout = ack_timeout_ns(self.attr.timeout);
        let used = self.requester.retry_cnt.saturating_sub(self.requester.retries_left);
        let timeout = match used {
            0 => timeout,
            _ => timeout.map(|ns| ns.max(LONGEST_BACKOFF_NS.min(ns << used.min(MAX_BACKOFF)))),
        };
        self.requester.ack_deadline = match timeout {
            Some(ns) if self.init.qp_type.is_reliable() && self.requester.in_flight() => {
                Some(now.add_ns(ns))
            }
            _ => None,
        };
    }
}
