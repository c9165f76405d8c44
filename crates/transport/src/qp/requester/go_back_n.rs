//! Going back to a PSN (go-back-N): after sequence NAKs, RNR NAKs and timeouts; the timers that lead there.

use uroce_memory::mutation::mutated;
use uroce_wire::{DropReason, Psn, ack_timeout_ns, rnr_timer_us};

use super::Requester;
use super::selective_repeat::{GapList, note_executed};
use super::send_queue::SendQueue;
use super::timers::TailProbeDue;
use crate::cause::Cause;
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::retransmission::Retransmission;
use crate::time::Instant;
use crate::wc_status::WcStatus;

impl Requester {
    /// Sends again from `psn` on (go-back-N).
    pub(crate) fn go_back_to(&mut self, now: Instant, psn: Psn, cx: &mut Context<'_>) {
        if self.send_queue.index_of(psn).is_none() {
            return;
        }
        let answered = self.selective_repeat.responses.answered();
        let psn = match answered.filter(|end| end.since(psn) > 0) {
            // Of what was answered, only missing responses are asked for again.
            Some(end) => {
                self.selective_repeat.ask_again(self.psns.una());
                note_executed(self, end)
            }
            None => psn,
        };
        let from = if mutated("go-back-late") { psn.add(1) } else { psn };
        self.send_queue.point_at(from);
        self.psns.send_from(from);
        self.ack_requests.reset();
        self.tail_probe.note_rewind(now);
        self.selective_repeat.forget();
        self.selective_repeat.note_going_back(None);
        self.window.end_repair();
        while self.reads.back().is_some_and(|read| read.last.since(psn) >= 0) {
            // It will be asked for again.
            self.reads.pop_back();
        }
        cx.counters.completer_retry_err += 1;
        self.wake();
    }

    /// R71: the responder misses `psn`, and perhaps more, of which `list` tells (ADR 33).
    pub(crate) fn handle_sequence_nak(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        list: &[u8],
        cx: &mut Context<'_>,
    ) {
        cx.counters.rcvd_seq_err += 1;
        // B15: a sequence NAK during an RNR wait must not shorten it.
        if self.rnr_wait.is_on() {
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let (next, next_new) = (self.psns.next(), self.psns.next_new());
        let list = GapList { psn, bytes: list, next, next_new };
        let asked_for = psn == self.psns.una() && self.selective_repeat.was_asked_for(psn);
        let lost_again = asked_for && self.selective_repeat.was_lost_again(list)
            || self.selective_repeat.has_gone_back_in_vain_for(list);
        if asked_for && !lost_again {
            note_list(self, config, 0, list);
            return self.wake();
        }
        if self.psns.next() == psn {
            // Nothing had been sent behind what was sent again.
            self.selective_repeat.forget();
            return self.wake();
        }
        let too_early = psn == self.psns.una() && self.tail_probe.is_too_early(now);
        if (too_early || self.selective_repeat.has_gone_back_for(list)) && !lost_again {
            // It goes out again already.
            return;
        }
        // A copy of a later request, a tail probe for example, may be the first that a responder sees after it has ignored
        // what followed a request that it was not ready for (R56): no packet was lost.
        // What is lost again and again is ended by the timeout of the first time, which goes on.
        let excused = self.rnr_wait.excuses(psn) || self.tail_probe.excuses() || lost_again;
        if !excused && !self.ack_timer.spend_retry() {
            return fail_with_too_many_naks(self, config, psn, cx);
        }
        if psn == self.psns.una() && !lost_again {
            self.ack_timer.stop();
        }
        if repairs_alone(self, config, now, list) {
            return;
        }
        match self.send_queue.oldest_may_be_reordered() {
            true => self.window.note_going_back(config.mtu_shift()),
            // To ask for READs once more costs a packet each.
            false => self.window.note_loss(),
        }
        self.retransmission = Retransmission::SequenceNak;
        self.go_back_to(now, psn, cx);
        self.selective_repeat.note_going_back(Some((psn, next_new)));
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
        if self.rnr_wait.is_for(psn) {
            // Nothing was sent since the last one: a copy of it, which costs no retry.
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let wait_us = if mutated("rnr-at-once") { 0 } else { rnr_timer_us(timer) };
        if !self.rnr_wait.spend_retry() {
            let oldest = self.send_queue.front();
            if oldest.is_none_or(|oldest| oldest.last_psn().since(psn) >= 0) {
                let peer = config.peer();
                let retries = self.rnr_wait.retries();
                let cause = Cause::NeverReady { peer, psn, retries, wait_us };
                cx.counters.retry_rnr_exceeded_err += 1;
                return self.fail_oldest_send(config, WcStatus::RnrRetryExcErr, cause, cx);
            }
            // The oldest request has met no RNR NAK: its response was lost, and to ask for it again costs one of its own
            // retries. Once it has come, the request at `psn` meets another RNR NAK.
            if !self.ack_timer.spend_retry() {
                let cause = no_answer(config, self);
                cx.counters.retry_exceeded_err += 1;
                return self.fail_oldest_send(config, WcStatus::RetryExcErr, cause, cx);
            }
        }
        self.retransmission = Retransmission::RnrNak;
        let end = self.psns.next_new();
        self.go_back_to(now, psn, cx);
        // It arrived; it is the receive that was missing.
        self.doubts.forget();
        self.rnr_wait.begin(psn, end, now.add_ns(u64::from(wait_us) * 1_000));
    }

    /// Runs the timers that are due.
    pub(crate) fn run_timers(&mut self, config: &QpConfig, now: Instant, cx: &mut Context<'_>) {
        if let Some(until) = self.rnr_wait.until() {
            if now >= until {
                self.rnr_wait.end();
                // R76: the wait is no timeout; each try has its full time from its sending on.
                self.ack_timer.stop();
                if self.psns.outstanding() > 0 {
                    self.selective_repeat.ask_again(self.psns.una());
                }
                self.wake();
            }
            return;
        }
        self.run_tail_probe(config, now);
        if mutated("probe-acknowledges") && self.retransmission == Retransmission::TailProbe {
            self.acknowledge(config, now, self.psns.next_new().sub(1), cx);
        }
        if !self.ack_timer.take_due(now) || !self.psns.in_flight() {
            return;
        }
        cx.counters.ack_timeout += 1;
        if !self.ack_timer.spend_retry() {
            let cause = no_answer(config, self);
            cx.counters.retry_exceeded_err += 1;
            return self.fail_oldest_send(config, WcStatus::RetryExcErr, cause, cx);
        }
        self.doubts.note_silence(self.psns.outstanding(), self.reads.is_empty());
        self.window.note_silence(config.mtu_shift());
        self.retransmission = Retransmission::AckTimeout;
        self.go_back_to(now, self.psns.una(), cx);
        if let Some(end) = end_of_responses(&self.send_queue) {
            self.psns.resend_to(end);
        }
    }

    /// Sends something again if the time has come: what is missing, as far as that is known; else the last
    /// packet, once; else the oldest one. Where a READ or an atomic is behind that, they take turns: a peer that
    /// has executed it answers nothing before it (R57), and one that misses something answers the oldest packet. Never more
    /// than that: a peer that stands still finds one window of packets, not several.
    fn run_tail_probe(&mut self, config: &QpConfig, now: Instant) {
        let in_flight = self.psns.in_flight();
        let probe = &mut self.tail_probe;
        let Some(TailProbeDue { sent, rewound }) =
            probe.take_due(now, in_flight, &self.selective_repeat, config.attr.timeout)
        else {
            return;
        };
        self.retransmission = Retransmission::TailProbe;
        // Everything was sent again, and not a packet of it has arrived; or no more than one of a list.
        if self.selective_repeat.give_up_list(self.psns.una())
            || rewound && !self.selective_repeat.is_under_way()
        {
            self.doubts.note_silence(self.psns.outstanding(), self.reads.is_empty());
        }
        let read = self.selective_repeat.responses.awaits_response(&self.psns, &self.send_queue);
        if self.selective_repeat.responses.answered().is_some()
            || !self.send_queue.oldest_may_be_reordered()
            || read && sent.is_multiple_of(2)
        {
            self.selective_repeat.ask_again(self.psns.una());
            self.wake();
        } else if sent > 0 || rewound || read || !may_repeat_last(self) {
            self.retransmit_oldest(now, 1, false);
        } else {
            let last = self.psns.next_new().sub(1);
            self.send_queue.point_at(last);
            self.psns.send_from(last);
            self.ack_requests.demand();
            self.wake();
        }
    }
}

/// Only what is missing goes out again, if the peer may keep the rest; false if it does not, or misses a READ or an atomic.
fn repairs_alone(
    requester: &mut Requester,
    config: &QpConfig,
    now: Instant,
    list: GapList<'_>,
) -> bool {
    let oldest = list.psn == requester.psns.una();
    let told = requester.selective_repeat.first_gap(list);
    let run = match told {
        _ if !oldest || !requester.send_queue.oldest_may_be_reordered() => None,
        Some(packets) => Some(packets),
        None => requester.selective_repeat.length_for(list.psn, now),
    };
    let Some(run) = run else { return false };
    requester.retransmit_oldest(now, run, true);
    if requester.selective_repeat.peer_reorders() {
        requester.window.note_repair(config.mtu_shift());
    }
    note_list(requester, config, 1, list);
    true
}

/// Losses that a NAK told of by itself, the further gaps of its list, and what the list says that the peer keeps.
fn note_list(requester: &mut Requester, config: &QpConfig, losses: u32, list: GapList<'_>) {
    let Requester { window, selective_repeat, .. } = requester;
    window.note_single_losses(losses + selective_repeat.add_gaps(list));
    window.note_kept(selective_repeat.kept(list), config.mtu_shift());
}

/// True if the last packet can go out again as a probe: it was sent last, and the window has not become smaller since. A peer
/// with a reorder buffer is asked by the oldest packet at once, since it misses that if it misses anything.
fn may_repeat_last(requester: &Requester) -> bool {
    let Requester { psns, window, selective_repeat, .. } = requester;
    let before = psns.outstanding().saturating_sub(1);
    psns.sends_new() && window.has_room(before, 1) && !selective_repeat.peer_reorders()
}

/// One past the last PSN of the newest READ or atomic that was begun.
fn end_of_responses(queue: &SendQueue) -> Option<Psn> {
    let newest_first = (0..queue.len()).rev().filter_map(|index| queue.get(index));
    let mut answered = newest_first.filter(|wqe| wqe.numbered && wqe.needs_response());
    answered.next().map(|wqe| wqe.last_psn().add(1))
}

/// R71: `psn` is reported missing again, and no retry is left for it.
fn fail_with_too_many_naks(
    requester: &mut Requester,
    config: &QpConfig,
    psn: Psn,
    cx: &mut Context<'_>,
) {
    let (peer, retries) = (config.peer(), requester.ack_timer.retries());
    cx.counters.retry_exceeded_err += 1;
    let cause = Cause::TooManySequenceNaks { peer, psn, retries };
    requester.fail_oldest_send(config, WcStatus::RetryExcErr, cause, cx);
}

/// R75: the oldest request has no answer, and no retry is left for it.
fn no_answer(config: &QpConfig, requester: &Requester) -> Cause {
    Cause::NoAnswer {
        peer: config.peer(),
        psn: requester.psns.una(),
        retries: requester.ack_timer.retries(),
        timeout_ns: ack_timeout_ns(config.attr.timeout).unwrap_or(0),
        heard: requester.any_response,
    }
}
