//! Going back: timeouts, sequence NAKs, implied NAKs, RNR NAKs.

use uroce_wire::{DropReason, Psn, ack_timeout_ns, rnr_timer_us};

use crate::cause::Cause;
use crate::context::Context;
use crate::mutation::mutated;
use crate::qp::config::QpConfig;
use crate::qp::requester::Requester;
use crate::retransmission::Retransmission;
use crate::time::Instant;
use crate::wc::WcStatus;

/// rnr_retry with this value waits for ever (R76, B16).
const RNR_RETRY_FOR_EVER: u8 = 7;

/// The local ACK timeout doubles this often: up to four times the one that was asked for (R75),
const MAX_BACKOFF: u8 = 2;

/// and no further than this (ns): whoever chose a longer one gets what it says.
const LONGEST_BACKOFF_NS: u64 = 300_000_000;

impl Requester {
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
        self.cursor = self.index_of(psn).unwrap_or_else(behind_all);
        self.psn = psn;
    }

    /// Sends again from `psn` on (go-back-N).
    pub(crate) fn go_back_to(&mut self, psn: Psn, cx: &mut Context<'_>) {
        if self.index_of(psn).is_none() {
            return;
        }
        let answered = self.selective_repeat.responses.answered();
        let psn = match answered.filter(|end| end.since(psn) > 0) {
            // Of what was answered, only missing responses are asked for again.
            Some(end) => {
                self.ask_again();
                end
            }
            None => psn,
        };
        self.point_at(if mutated("go-back-late") { psn.add(1) } else { psn });
        self.since_ack_request = 0;
        if psn == self.una {
            self.ack_deadline = None;
        }
        self.tail_probe.note_rewind();
        self.selective_repeat.forget();
        self.forget_reads_from(psn);
        cx.counters.completer_retry_err += 1;
        self.wake();
    }

    /// R71: the responder misses `psn`.
    pub(crate) fn handle_sequence_nak(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        cx: &mut Context<'_>,
    ) {
        cx.counters.rcvd_seq_err += 1;
        // B15: a sequence NAK during an RNR wait must not shorten it.
        if self.rnr_until.is_some() {
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let copy = psn == self.una && self.selective_repeat.was_asked_for(psn);
        if self.psn == psn || copy {
            return;
        }
        if self.retries_left == 0 {
            let peer = config.peer();
            let retries = self.retry_cnt;
            let cause = Cause::TooManySequenceNaks { peer, psn, retries };
            cx.counters.retry_exceeded_err += 1;
            return self.fail_oldest_send(config, WcStatus::RetryExcErr, cause, cx);
        }
        self.retries_left -= 1;
        if self.repair(now, psn) {
            return self.note_single_loss();
        }
        self.note_loss();
        self.retransmission = Retransmission::SequenceNak;
        self.go_back_to(psn, cx);
    }

    /// R76: no receive was posted; wait, then send from `psn` on again.
    pub(crate) fn handle_rnr_nak(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        timer: u8,
        cx: &mut Context<'_>,
    ) {
        cx.counters.rcvd_rnr_err += 1;
        self.rcvd_rnr_naks += 1;
        if self.rnr_until.is_some() && self.rnr_psn == psn {
            // Nothing was sent since the last one: a copy of it, which costs no retry.
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let wait_us = if mutated("rnr-at-once") { 0 } else { rnr_timer_us(timer) };
        if self.rnr_retry != RNR_RETRY_FOR_EVER {
            if self.rnr_retries_left == 0 {
                let peer = config.peer();
                let retries = self.rnr_retry;
                let cause = Cause::NeverReady { peer, psn, retries, wait_us };
                cx.counters.retry_rnr_exceeded_err += 1;
                return self.fail_oldest_send(config, WcStatus::RnrRetryExcErr, cause, cx);
            }
            self.rnr_retries_left -= 1;
        }
        self.retransmission = Retransmission::RnrNak;
        self.go_back_to(psn, cx);
        // It arrived; it is the receive that was missing.
        self.doubts.forget();
        self.rnr_psn = psn;
        self.rnr_until = Some(now.add_ns(u64::from(wait_us) * 1_000));
    }

    /// Runs the timers that are due.
    pub(crate) fn run_timers(&mut self, config: &QpConfig, now: Instant, cx: &mut Context<'_>) {
        if let Some(until) = self.rnr_until {
            if now >= until {
                self.rnr_until = None;
                // R76: the wait is no timeout; each try has its full time from its sending on.
                self.ack_deadline = None;
                if self.outstanding() > 0 {
                    self.ask_again();
                }
                self.wake();
            }
            return;
        }
        self.run_tail_probe(config, now);
        if self.ack_deadline.is_some_and(|deadline| now >= deadline) {
            self.ack_deadline = None;
            if self.in_flight() {
                self.handle_ack_timeout(config, cx);
            }
        }
    }

    fn handle_ack_timeout(&mut self, config: &QpConfig, cx: &mut Context<'_>) {
        cx.counters.ack_timeout += 1;
        if self.retries_left == 0 {
            let cause = Cause::NoAnswer {
                peer: config.peer(),
                psn: self.una,
                retries: self.retry_cnt,
                timeout_ns: ack_timeout_ns(config.attr.timeout).unwrap_or(0),
                heard: self.any_response,
            };
            cx.counters.retry_exceeded_err += 1;
            return self.fail_oldest_send(config, WcStatus::RetryExcErr, cause, cx);
        }
        self.retries_left -= 1;
        self.note_silence_behind_train();
        self.note_silence();
        self.retransmission = Retransmission::AckTimeout;
        self.go_back_to(self.una, cx);
    }

    /// Starts the local ACK timer if it does not run.
    pub(crate) fn arm_ack_timer(&mut self, config: &QpConfig, now: Instant) {
        self.arm_tail_probe(config, now);
        if self.ack_deadline.is_none() {
            self.restart_ack_timer(config, now);
        }
    }

    /// Starts the local ACK timer anew, or stops it when nothing is in flight. A try waits T, the
    /// next 2T, the others 4T, which is what the specification leaves room for (R75), as long as that is not
    /// long: a peer that stalls for a moment is not buried under repetitions. A longer T is waited for as it is: a
    /// dead peer is noticed after T for each try.
    pub(crate) fn restart_ack_timer(&mut self, config: &QpConfig, now: Instant) {
        let timeout = ack_timeout_ns(config.attr.timeout);
        let used = self.retry_cnt.saturating_sub(self.retries_left);
        let timeout = match used {
            0 => timeout,
            _ => timeout.map(|ns| ns.max(LONGEST_BACKOFF_NS.min(ns << used.min(MAX_BACKOFF)))),
        };
        self.ack_deadline = match timeout {
            Some(ns) if config.init.qp_type.is_reliable() && self.in_flight() => {
                Some(now.add_ns(ns))
            }
            _ => None,
        };
    }

    /// Nothing was heard of what was sent last, which was a train unless it was one packet or the request of a READ.
    pub(crate) fn note_silence_behind_train(&mut self) {
        if self.outstanding() > 1 && self.reads.is_empty() {
            self.doubts.note_silence();
        }
    }
}
