//! Going back to a PSN (go-back-N), and the NAKs that lead there.

use uroce_memory::mutation::mutated;
use uroce_wire::{DropReason, Psn, rnr_timer_us};

use super::Requester;
use crate::cause::Cause;
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::retransmission::Retransmission;
use crate::time::Instant;
use crate::wc_status::WcStatus;

impl Requester {
    /// Sends again from `psn` on (go-back-N).
    pub(crate) fn go_back_to(&mut self, psn: Psn, cx: &mut Context<'_>) {
        if self.send_queue.index_of(psn).is_none() {
            return;
        }
        let answered = self.selective_repeat.responses.answered();
        let psn = match answered.filter(|end| end.since(psn) > 0) {
            // Of what was answered, only missing responses are asked for again.
            Some(end) => {
                self.selective_repeat.ask_again(self.psns.una());
                end
            }
            None => psn,
        };
        let from = if mutated("go-back-late") { psn.add(1) } else { psn };
        self.send_queue.point_at(from);
        self.psns.send_from(from);
        self.ack_requests.reset();
        if psn == self.psns.una() {
            self.ack_timer.stop();
        }
        self.tail_probe.note_rewind();
        self.selective_repeat.forget();
        while self.reads.back().is_some_and(|read| read.last.since(psn) >= 0) {
            // It will be asked for again.
            self.reads.pop_back();
        }
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
        if self.rnr_wait.is_on() {
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let copy = psn == self.psns.una() && self.selective_repeat.was_asked_for(psn);
        if self.psns.next() == psn || copy {
            return;
        }
        if !self.ack_timer.spend_retry() {
            let peer = config.peer();
            let retries = self.ack_timer.retries();
            let cause = Cause::TooManySequenceNaks { peer, psn, retries };
            cx.counters.retry_exceeded_err += 1;
            return self.fail_oldest_send(config, WcStatus::RetryExcErr, cause, cx);
        }
        let alone = psn == self.psns.una() && self.send_queue.oldest_may_be_reordered();
        let run = if alone { self.selective_repeat.length_for(psn, now) } else { None };
        if let Some(run) = run {
            self.retransmit_oldest(run, true);
            return self.window.note_single_loss();
        }
        self.window.note_loss();
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
        if self.rnr_wait.is_for(psn) {
            // Nothing was sent since the last one: a copy of it, which costs no retry.
            cx.counters.drop(DropReason::RnrPending);
            return;
        }
        let wait_us = if mutated("rnr-at-once") { 0 } else { rnr_timer_us(timer) };
        if !self.rnr_wait.spend_retry() {
            let peer = config.peer();
            let retries = self.rnr_wait.retries();
            let cause = Cause::NeverReady { peer, psn, retries, wait_us };
            cx.counters.retry_rnr_exceeded_err += 1;
            return self.fail_oldest_send(config, WcStatus::RnrRetryExcErr, cause, cx);
        }
        self.retransmission = Retransmission::RnrNak;
        self.go_back_to(psn, cx);
        // It arrived; it is the receive that was missing.
        self.doubts.forget();
        self.rnr_wait.begin(psn, now.add_ns(u64::from(wait_us) * 1_000));
    }
}
