//! The completer: responses and acknowledgements come in, work requests complete.

use uroce_wire::{DropReason, NakCode, Operation, Packet, Psn, SyndromeKind};

use super::Requester;
use super::placement::{Misplaced, Responded};
use super::send_queue::Retired;
use crate::cause::{Cause, FlushReason};
use crate::completion_counter::CountedOps;
use crate::context::Context;
use crate::qp::completion;
use crate::qp::config::QpConfig;
use crate::time::Instant;
use crate::wc::Wc;
use crate::wc_status::WcStatus;

impl Requester {
    /// Takes in a response of the peer.
    pub(crate) fn handle_response(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        if !self.psns.is_outstanding(psn) {
            return drop_outside_window(self.psns.una(), packet, cx);
        }
        self.any_response = true;
        match packet.info.operation {
            Operation::ReadResponse => {
                self.selective_repeat.responses.note_reserved(packet.bth.reserved7);
                self.take_response(config, now, packet, cx);
            }
            // B22: some responders send a NAK to an atomic under this opcode.
            Operation::AtomicAcknowledge if is_ack(packet) => {
                self.take_response(config, now, packet, cx);
            }
            _ => self.handle_acknowledge(config, now, packet, cx),
        }
        if self.selective_repeat.is_under_way() {
            self.settle_early(config, now, cx);
        }
        if self.psns.in_flight() && !self.rnr_wait.is_on() {
            // Going back has stopped the probe, and with a closed window nothing is sent that would start it.
            self.tail_probe.arm(now, &self.selective_repeat, config.attr.timeout);
        }
        self.wake();
    }

    fn handle_acknowledge(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        let Some(kind) = packet.aeth().map(|aeth| aeth.syndrome.kind()) else { return };
        if matches!(kind, SyndromeKind::Rnr { .. } | SyndromeKind::Nak(NakCode::PsnSequence))
            && psn != self.psns.una()
            && self.acknowledge(config, now, psn.sub(1), cx).is_some()
        {
            // It acknowledges what lies before it, of which a response is missing.
            self.handle_implied_nak(config, now, psn);
        }
        match kind {
            SyndromeKind::Ack { .. } => match self.acknowledge(config, now, psn, cx) {
                // A peer may answer ATOMIC WRITE and FLUSH with a plain ACK.
                Some(missing) if missing == psn && self.send_queue.oldest_is_placement() => {
                    self.finish_responses(config, now, psn, cx);
                }
                Some(_) => self.handle_implied_nak(config, now, psn.add(1)),
                None if self.selective_repeat.is_under_way() => {
                    self.check_selective_repeat(config, now, cx)
                }
                None => {}
            },
            SyndromeKind::Rnr { timer } => self.handle_rnr_nak(config, now, psn, timer, cx),
            SyndromeKind::Nak(NakCode::PsnSequence) => {
                self.handle_sequence_nak(config, now, psn, packet.payload(), cx);
            }
            SyndromeKind::Nak(code) => self.handle_fatal_nak(config, now, psn, code, cx),
            // R51, R74: reserved codes are ignored and counted.
            SyndromeKind::ReservedNak(_) | SyndromeKind::Reserved(_) => {
                cx.counters.drop(DropReason::ReservedSyndrome);
            }
        }
    }

    /// R46, R68: completes SENDs and WRITEs up to `upto`. Stops at a READ or atomic whose response
    /// has not arrived, and returns the PSN that is missing.
    pub(crate) fn acknowledge(
        &mut self,
        config: &QpConfig,
        now: Instant,
        upto: Psn,
        cx: &mut Context<'_>,
    ) -> Option<Psn> {
        let start = self.psns.una();
        retire_silent(self, config, upto, cx);
        let mut missing = None;
        // Each round finishes one work request or reaches `upto`.
        while upto.since(self.psns.una()) >= 0 {
            let Some(wqe) = self.send_queue.front() else {
                break;
            };
            debug_assert!(wqe.numbered, "only what was sent is acknowledged");
            if wqe.needs_response() {
                missing = Some(self.psns.una());
                break;
            }
            let last = wqe.last_psn();
            if upto.since(last) < 0 {
                self.psns.acknowledge(upto);
                break;
            }
            self.psns.acknowledge(last);
            self.retire(config, cx);
        }
        self.note_acknowledged(config, now, start);
        missing
    }

    /// Bookkeeping when the oldest unacknowledged PSN may have moved on from `start`.
    fn note_acknowledged(&mut self, config: &QpConfig, now: Instant, start: Psn) {
        let count = self.psns.una().since(start).max(0) as u32;
        if count == 0 {
            return;
        }
        self.doubts.note_progress(self.psns.una(), count, self.psns.next_new(), now);
        // R75: progress refills the retry counters.
        self.ack_timer.note_progress();
        self.rnr_wait.note_progress();
        let in_order = !self.selective_repeat.is_under_way();
        self.window.note_progress(count, now, in_order, config.mtu_shift());
        self.selective_repeat.note_progress(self.psns.una(), now);
        if !self.selective_repeat.is_under_way() {
            self.window.end_repair();
        }
        if let Some(sample) = self.tail_probe.note_progress(self.psns.una(), now) {
            self.window.note_round_trip(sample, now, config.mtu_shift());
        }
        if self.psns.next().since(self.psns.una()) < 0 {
            // What was about to be sent again has been acknowledged meanwhile.
            self.send_queue.point_at(self.psns.una());
            self.psns.send_from(self.psns.una());
        }
        self.restart_ack_timer(config, now);
        if self.psns.in_flight() {
            self.tail_probe.arm(now, &self.selective_repeat, config.attr.timeout);
        } else {
            self.tail_probe.wait_anew();
        }
    }

    /// A response that brings something: it is taken in if it is the oldest one that is missing, and
    /// placed if it comes before that.
    fn take_response(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        if psn != self.psns.una() && self.acknowledge(config, now, psn.sub(1), cx).is_some() {
            return self.take_early(config, now, packet, cx);
        }
        let Some(wqe) = self.send_queue.front() else {
            return;
        };
        let missing = &self.selective_repeat.responses;
        let request = Responded { config, queue: &self.send_queue, wqe, missing };
        match request.place(packet, cx.mem) {
            Ok(()) => self.finish_responses(config, now, psn, cx),
            Err(Misplaced::Unexpected) => cx.counters.drop(DropReason::UnexpectedResponse),
            Err(Misplaced::Bad(what)) => {
                let cause = Cause::BadResponse { psn, what };
                self.fail_oldest_send(config, WcStatus::BadRespErr, cause, cx);
            }
            Err(Misplaced::Local((status, cause))) => {
                self.fail_oldest_send(config, status, cause, cx)
            }
        }
    }

    /// The oldest outstanding responses up to `psn` have been taken in, all of one request.
    pub(crate) fn finish_responses(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        cx: &mut Context<'_>,
    ) {
        let start = self.psns.una();
        self.psns.acknowledge(psn);
        while self.reads.front().is_some_and(|read| psn.since(read.last) >= 0) {
            self.reads.pop_front();
        }
        if self.send_queue.front().is_some_and(|wqe| wqe.last_psn() == psn) {
            self.retire(config, cx);
        }
        self.note_acknowledged(config, now, start);
    }

    /// R73: the request with this PSN failed for good.
    fn handle_fatal_nak(
        &mut self,
        config: &QpConfig,
        now: Instant,
        psn: Psn,
        code: NakCode,
        cx: &mut Context<'_>,
    ) {
        if psn != self.psns.una() && self.acknowledge(config, now, psn.sub(1), cx).is_some() {
            let oldest = self.send_queue.front();
            if oldest.is_none_or(|wqe| wqe.last_psn().since(psn) < 0) {
                return self.handle_implied_nak(config, now, psn);
            }
        }
        cx.counters.rcvd_fatal_nak += 1;
        let status = match code {
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => WcStatus::RemInvReqErr,
            NakCode::RemoteAccess => WcStatus::RemAccessErr,
            NakCode::RemoteOperational | NakCode::PsnSequence => WcStatus::RemOpErr,
        };
        let peer = config.peer();
        self.fail_oldest_send(config, status, Cause::Refused { peer, psn, code }, cx);
    }

    /// R67: the oldest request is done, and leaves its queue with those behind it that were done before.
    #[inline]
    pub(super) fn retire(&mut self, config: &QpConfig, cx: &mut Context<'_>) {
        while let Some(wqe) = self.send_queue.front() {
            self.sent_messages += 1;
            let counters = &config.completion_counters;
            counters.note(CountedOps::of_send(&wqe.op), true, wqe.length);
            if !config.is_signaled(wqe.flags) {
                self.send_queue.drop_front();
            } else if let Some(sent) = self.send_queue.pop() {
                self.complete_send(config, &sent, WcStatus::Success, (), cx);
            }
            if !self.send_queue.oldest_is_done() {
                break;
            }
        }
        self.wake();
    }

    #[inline]
    fn complete_send<C: Copy + Default + Into<Cause>>(
        &mut self,
        config: &QpConfig,
        sent: &Retired,
        status: WcStatus,
        cause: C,
        cx: &mut Context<'_>,
    ) {
        let wc = Wc {
            wr_id: sent.wr_id,
            status,
            opcode: sent.opcode,
            vendor_err: cause.into().code(),
            byte_len: sent.length.min(u64::from(u32::MAX)) as u32,
            qpn: config.init.qpn.get(),
            cause,
            ..Wc::default()
        };
        let stored = completion::report(config.init.send_cq, wc, false, cx);
        // A failure of a reliable QP is the stronger reason: it has taken the QP down already.
        if !stored && (self.failure.is_none() || !config.init.qp_type.is_reliable()) {
            self.failure = Some(FlushReason::CqOverflow);
        }
    }

    /// The oldest send work request fails. RC and XRC go to ERR (R73, R83), UC and UD go to SQE.
    pub(crate) fn fail_oldest_send(
        &mut self,
        config: &QpConfig,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let Some(wqe) = self.send_queue.front() else { return };
        config.completion_counters.note(CountedOps::of_send(&wqe.op), false, wqe.length);
        let Some(failed) = self.send_queue.pop() else { return };
        self.complete_send(config, &failed, status, cause, cx);
        let reason = FlushReason::SendFailed { wr_id: failed.wr_id, status };
        if config.init.qp_type.is_reliable() || self.failure.is_none() {
            self.failure = Some(reason);
        }
        self.flush(config, reason, cx);
    }

    /// R87, R88: every send that waits completes with a flush error, signalled or not, also a
    /// window that was bound ahead of its turn: after the first failure nothing succeeds.
    pub(crate) fn flush(&mut self, config: &QpConfig, reason: FlushReason, cx: &mut Context<'_>) {
        let cause = Cause::Flushed(reason);
        self.ack_timer.stop();
        self.rnr_wait.end();
        while let Some(wqe) = self.send_queue.front() {
            config.completion_counters.note(CountedOps::of_send(&wqe.op), false, wqe.length);
            let Some(flushed) = self.send_queue.pop() else { break };
            self.complete_send(config, &flushed, WcStatus::WrFlushErr, cause, cx);
        }
        self.send_queue.clear();
        let next = self.psns.next_new();
        self.start(next);
    }
}

/// Retires SENDs and WRITEs in front that nobody hears of, all up to `upto` in one go.
fn retire_silent(requester: &mut Requester, config: &QpConfig, upto: Psn, cx: &mut Context<'_>) {
    let signaled = |flags| config.is_signaled(flags);
    let heard = requester.send_queue.front().is_none_or(|wqe| signaled(wqe.flags));
    if heard || !config.completion_counters.is_empty() {
        return;
    }
    let Some((count, last)) = requester.send_queue.silent_until(upto, signaled) else { return };
    requester.psns.acknowledge(last);
    requester.sent_messages += count as u64;
    requester.send_queue.drop_silent(count);
    requester.wake();
    if requester.send_queue.oldest_is_done() {
        requester.retire(config, cx);
    }
}

/// R70, R72, A13: a response to nothing that is outstanding changes nothing.
fn drop_outside_window(una: Psn, packet: &Packet<'_>, cx: &mut Context<'_>) {
    let late = packet.bth.psn.since(una) < 0;
    let kind = packet.aeth().map(|aeth| aeth.syndrome.kind());
    cx.counters.drop(match (packet.info.operation, kind) {
        (Operation::Acknowledge, Some(SyndromeKind::Nak(_) | SyndromeKind::Rnr { .. })) => {
            DropReason::NakOutsideWindow
        }
        (Operation::Acknowledge, _) if late => DropReason::GhostAck,
        (Operation::ReadResponse | Operation::AtomicAcknowledge, _) if late => {
            DropReason::StaleResponse
        }
        _ => DropReason::UnexpectedResponse,
    });
}

fn is_ack(packet: &Packet<'_>) -> bool {
    let kind = packet.aeth().map(|aeth| aeth.syndrome.kind());
    matches!(kind, Some(SyndromeKind::Ack { .. }))
}
