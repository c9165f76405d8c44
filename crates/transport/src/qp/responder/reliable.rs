//! RC and XRC: PSN window, NAKs and acknowledgements.

use uroce_wire::{DropReason, NakCode, Operation, Packet, Syndrome};

use crate::attr::QpState;
use crate::cause::FlushReason;
use crate::context::Context;
use crate::event::AsyncEvent;
use crate::mutation::mutated;
use crate::qp::config::QpConfig;
use crate::qp::responder::Responder;
use crate::time::Instant;

use super::checks::Refusal;
use super::response::Response;

impl Responder {
    /// R16: expected, duplicate, or out of sequence.
    pub(super) fn handle_reliable(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        match packet.bth.psn.since(self.expected) {
            0 => self.handle_expected(config, now, packet, cx),
            behind if behind < 0 => self.handle_duplicate(config, now, packet, cx),
            _ => self.handle_gap(config, now, packet, cx),
        }
    }

    #[inline(never)]
    fn handle_gap(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        if self.silent && !mutated("nak-again") {
            self.reorder(packet, DropReason::PsnNakPending, cx);
        } else if self.report_gap(now, cx) {
            self.take_reorder_buffer(config, cx);
            self.reorder(packet, DropReason::PsnOutOfSequence, cx);
        } else {
            cx.counters.drop(DropReason::ReplyBudget);
        }
    }

    fn handle_expected(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        self.take_in(config, now, packet, cx);
        if self.reorder_buffer.is_some() {
            self.run_reordered(config, now, cx);
        }
    }

    /// Executes the request with the expected PSN, or says why not. Inline: it is the way of each packet.
    #[inline(always)]
    pub(super) fn take_in(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        self.silent = false;
        self.retract_nak();
        match self.aim(config, packet, cx).and_then(|()| self.run_request(config, packet, cx)) {
            Ok(()) => {
                let plain = matches!(packet.info.operation, Operation::Send | Operation::Write);
                if plain && packet.bth.ack_req {
                    self.acknowledge_request(cx);
                }
            }
            Err(Refusal::NotReady) => self.answer_not_ready(config, now, packet, cx),
            Err(refusal) => self.refuse(config, packet, refusal, cx),
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
        let msn = self.msn;
        self.queue_ack(Response::Ack { psn, syndrome, msn })
    }

    /// R37: RNR NAK, then silence until the request returns (R56), and everything behind it with it.
    fn answer_not_ready(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        self.silent = true;
        self.drop_reorder_buffer(cx);
        if !self.spend_reply(now) {
            cx.counters.drop(DropReason::ReplyBudget);
            return;
        }
        cx.counters.send_rnr_err += 1;
        cx.counters.drop(DropReason::RnrPending);
        self.answer_now(packet.bth.psn, Syndrome::rnr(config.attr.min_rnr_timer));
    }

    /// R63: NAK once, error completion or affiliated event, error state.
    fn refuse(
        &mut self,
        config: &QpConfig,
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
        if let Some(wr_id) = self.report_failed_receive(config, status, cause, cx) {
            reason = FlushReason::RecvFailed { wr_id, status };
        } else {
            cx.events.push(self.violation(config, code));
        }
        if config.state != QpState::Err {
            self.fail(reason, cx);
        }
    }

    /// B25: the application learns of a violation that used up no receive.
    fn violation(&self, config: &QpConfig, code: NakCode) -> AsyncEvent {
        let qpn = config.init.qpn;
        match code {
            NakCode::RemoteAccess => AsyncEvent::QpAccessErr(qpn),
            NakCode::RemoteOperational => AsyncEvent::QpFatal(qpn),
            NakCode::PsnSequence | NakCode::InvalidRequest | NakCode::InvalidRdRequest => {
                AsyncEvent::QpReqErr(qpn)
            }
        }
    }

    /// B12: a READ that was granted lost its memory while its response was being sent.
    pub(super) fn fail_read(
        &mut self,
        config: &QpConfig,
        psn: uroce_wire::Psn,
        cx: &mut Context<'_>,
    ) {
        let code = NakCode::RemoteAccess;
        self.forget_answers();
        cx.counters.sent_nak += 1;
        self.answer_now(psn, Syndrome::nak(code));
        // A later request may have failed the QP while this one was being answered.
        if config.state != QpState::Err {
            cx.events.push(AsyncEvent::QpAccessErr(config.init.qpn));
            self.fail(FlushReason::PeerViolation { psn, code }, cx);
        }
    }
}
