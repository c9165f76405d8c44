//! RC and XRC: PSN window, NAKs and acknowledgements.

use uroce_wire::{DropReason, NakCode, Operation, Packet, Syndrome};

use crate::attr::QpState;
use crate::cause::FlushReason;
use crate::context::Context;
use crate::event::AsyncEvent;
use crate::mutation::mutated;
use crate::qp::QueuePair;
use crate::time::Instant;

use super::checks::Refusal;
use super::response::Response;

impl QueuePair {
    /// R16: expected, duplicate, or out of sequence.
    pub(super) fn handle_reliable(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        match packet.bth.psn.since(self.responder.expected) {
            0 => self.handle_expected(now, packet, cx),
            behind if behind < 0 => self.handle_duplicate(now, packet, cx),
            _ => self.handle_gap(now, packet, cx),
        }
    }

    #[inline(never)]
    fn handle_gap(&mut self, now: Instant, packet: &Packet<'_>, cx: &mut Context<'_>) {
        if self.responder.silent && !mutated("nak-again") {
            self.reorder(packet, DropReason::PsnNakPending, cx);
        } else if self.report_gap(now, cx) {
            self.take_reorder_buffer(cx);
            self.reorder(packet, DropReason::PsnOutOfSequence, cx);
        } else {
            cx.counters.drop(DropReason::ReplyBudget);
        }
    }

    fn handle_expected(&mut self, now: Instant, packet: &Packet<'_>, cx: &mut Context<'_>) {
        self.take_in(now, packet, cx);
        if self.responder.reorder_buffer.is_some() {
            self.run_reordered(now, cx);
        }
    }

    /// Executes the request with the expected PSN, or says why not. Inline: it is the way of each packet.
    #[inline(always)]
    pub(super) fn take_in(&mut self, now: Instant, packet: &Packet<'_>, cx: &mut Context<'_>) {
        self.responder.silent = false;
        self.responder.retract_nak();
        match self.aim(packet, cx).and_then(|()| self.run_request(packet, cx)) {
            Ok(()) => {
                let plain = matches!(packet.info.operation, Operation::Send | Operation::Write);
                if plain && packet.bth.ack_req {
                    self.acknowledge_request(cx);
                }
            }
            Err(Refusal::NotReady) => self.answer_not_ready(now, packet, cx),
            Err(refusal) => self.refuse(now, packet, refusal, cx),
        }
    }

    /// R44, R45: acknowledges everything executed so far.
    pub(super) fn acknowledge_request(&mut self, cx: &mut Context<'_>) {
        let psn = self.last_executed();
        let syndrome = Syndrome::ack(Syndrome::ACK_UNLIMITED);
        if self.answer_now(psn, syndrome) {
            cx.counters.ack_deferred += 1;
        }
    }

    /// Queues an AETH with the current MSN; true if it took the place of an older ACK.
    pub(super) fn answer_now(&mut self, psn: uroce_wire::Psn, syndrome: Syndrome) -> bool {
        let msn = self.responder.msn;
        self.responder.queue_ack(Response::Ack { psn, syndrome, msn })
    }

    /// R37: RNR NAK, then silence until the request returns (R56), and everything behind it with it.
    fn answer_not_ready(&mut self, now: Instant, packet: &Packet<'_>, cx: &mut Context<'_>) {
        self.responder.silent = true;
        self.drop_reorder_buffer(cx);
        if !self.responder.spend_reply(now) {
            cx.counters.drop(DropReason::ReplyBudget);
            return;
        }
        cx.counters.send_rnr_err += 1;
        cx.counters.drop(DropReason::RnrPending);
        self.answer_now(packet.bth.psn, Syndrome::rnr(self.attr.min_rnr_timer));
    }

    /// R63: NAK once, error completion or affiliated event, error state.
    fn refuse(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        refusal: Refusal,
        cx: &mut Context<'_>,
    ) {
        let Refusal::Nak { code, status, cause } = refusal else {
            return;
        };
        let psn = packet.bth.psn;
        cx.counters.sent_nak += 1;
        self.answer_now(psn, Syndrome::nak(code));
        let mut reason = FlushReason::PeerViolation { psn, code };
        if let Some(wr_id) = self.report_failed_receive(status, cause, cx) {
            reason = FlushReason::RecvFailed { wr_id, status };
        } else {
            cx.events.push(self.violation(code));
        }
        if self.state != QpState::Err {
            self.fail_queue_pair(now, reason, cx);
        }
    }

    /// B25: the application learns of a violation that used up no receive.
    fn violation(&self, code: NakCode) -> AsyncEvent {
        let qpn = self.init.qpn;
        match code {
            NakCode::RemoteAccess => AsyncEvent::QpAccessErr(qpn),
            NakCode::RemoteOperational => AsyncEvent::QpFatal(qpn),
            NakCode::PsnSequence | NakCode::InvalidRequest | NakCode::InvalidRdRequest => {
                AsyncEvent::QpReqErr(qpn)
            }
        }
    }

    /// B12: a READ that was granted lost its memory while its response was being sent.
    pub(super) fn fail_read(&mut self, now: Instant, psn: uroce_wire::Psn, cx: &mut Context<'_>) {
        let code = NakCode::RemoteAccess;
        self.responder.forget_answers();
        cx.counters.sent_nak += 1;
        self.answer_now(psn, Syndrome::nak(code));
        // A later request may have failed the QP while this one was being answered.
        if self.state != QpState::Err {
            cx.events.push(AsyncEvent::QpAccessErr(self.init.qpn));
            self.fail_queue_pair(now, FlushReason::PeerViolation { psn, code }, cx);
        }
    }
}
