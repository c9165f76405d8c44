//! RC and XRC: the PSN window, acknowledgements and NAKs, duplicates, and requests behind a PSN gap.
//!
//! The last are the responder's side of selective repeat: they wait in a reorder buffer and are executed when the missing
//! one has come (ADR 17). R55 holds: a request in the buffer has no effect until its PSN is the expected one, and then
//! takes all the steps of a request that arrives at that moment. A requester that goes back and sends everything again
//! (go-back-N) loses nothing: what was executed meanwhile is a duplicate.

use uroce_memory::mutation::mutated;
use uroce_wire::{
    ANY_PART, DropReason, NakCode, Operation, Packet, Psn, Syndrome, TAKES_GAP_LISTS,
};

use super::Responder;
use super::checks::{Refusal, check_enabled, check_rkey};
use super::execute::{is_remembered, remote_op};
use super::message::psns_of_request;
use super::replay::{Saved, SavedKind};
use super::responses::Response;
use crate::cause::FlushReason;
use crate::context::Context;
use crate::event::AsyncEvent;
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp_state::QpState;
use crate::reorder_buffer::ReorderBuffer;
use crate::time::Instant;

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
            tell_again(self, now, packet);
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
        if let Some(buffer) = &mut self.reorder_buffer
            && self.silent
            && !self.responses.nak_waits(self.expected)
        {
            buffer.note_nak_sent();
        }
        self.take_in(config, now, packet, cx);
        if let Some(buffer) = &self.reorder_buffer {
            self.peer_takes_gap_lists |= takes_gap_lists(packet);
            let sends_all_again = buffer.nak_was_sent() && !self.peer_takes_gap_lists;
            self.run_reordered(config, now, !sends_all_again || wants_ack(packet), cx);
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
        self.responses.retract_nak(self.expected, &self.replay);
        match self
            .receives
            .aim(config, self.message.is_some(), packet, cx)
            .and_then(|()| self.run_request(config, packet, cx))
        {
            Ok(()) => {
                if !is_remembered(packet) && packet.bth.ack_req {
                    self.acknowledge_request(cx);
                }
            }
            Err(Refusal::NotReady) => self.answer_not_ready(config, now, packet, cx),
            Err(refusal) => self.refuse(config, packet, refusal, cx),
        }
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
        if !self.reply_budget.spend(now) {
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
        if let Some(op) = remote_op(packet) {
            config.completion_counters.note(op, false, 0);
        }
        cx.counters.sent_nak += 1;
        self.answer_now(psn, Syndrome::nak(code));
        let mut reason = FlushReason::PeerViolation { psn, code };
        if let Some(wr_id) = self.report_failed_receive(config, status, cause, cx) {
            reason = FlushReason::RecvFailed { wr_id, status };
        } else {
            cx.events.push(violation(config, code));
        }
        if config.state != QpState::Err {
            self.fail(reason, cx);
        }
    }

    /// B12: a READ that was granted lost its memory while its response was being sent.
    pub(super) fn fail_read(&mut self, config: &QpConfig, psn: Psn, cx: &mut Context<'_>) {
        let code = NakCode::RemoteAccess;
        self.responses.clear();
        cx.counters.sent_nak += 1;
        self.answer_now(psn, Syndrome::nak(code));
        // A later request may have failed the QP while this one was being answered.
        if config.state != QpState::Err {
            cx.events.push(AsyncEvent::QpAccessErr(config.init.qpn));
            self.fail(FlushReason::PeerViolation { psn, code }, cx);
        }
    }

    /// R57 to R62. Nothing here changes memory or the QP's state; what cannot be answered is
    /// dropped, never NAKed (R60).
    pub(super) fn handle_duplicate(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        cx.counters.duplicate_request += 1;
        if let Some(buffer) = &mut self.reorder_buffer {
            buffer.forget_told(self.expected);
        }
        match packet.info.operation {
            Operation::Send if mutated("duplicate-executed") => {
                self.take_in(config, now, packet, cx)
            }
            Operation::Send | Operation::Write => acknowledge_duplicate(self, now, packet, cx),
            _ if !self.reply_budget.spend(now) => cx.counters.drop(DropReason::ReplyBudget),
            Operation::ReadRequest => self.repeat_read(config, now, packet, cx),
            _ if mutated("atomic-again") => self.take_in(config, now, packet, cx),
            _ => self.repeat_saved(packet, cx),
        }
    }

    /// R58: the READ must be a part of the one that is remembered, under the same key, and still be
    /// allowed.
    fn repeat_read(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        let saved = self.replay.find(psn);
        let mtu = config.attr.path_mtu.bytes();
        let part = saved.and_then(|saved| Some((saved, saved.length_of_part(packet, mtu)?)));
        let allowed = |saved: &Saved| match saved.kind {
            SavedKind::Read { pd, .. } => {
                let by = config.requirer(pd);
                check_enabled(config, packet).is_ok() && check_rkey(packet, by, cx.mem).is_ok()
            }
            SavedKind::Atomic { .. } | SavedKind::Placement => false,
        };
        let Some((saved, length)) = part.filter(|(saved, _)| allowed(saved)) else {
            return cx.counters.drop(DropReason::DuplicateReadInvalid);
        };
        cx.counters.drop(DropReason::DuplicateRequest);
        let count = psns_of_request(packet, mtu);
        self.repeats.note(psn, count, now);
        // What the requester asks by that bit is answered by the same one.
        let reserved7 = packet.bth.reserved7 & ANY_PART;
        self.responses.queue_part(&saved, (psn, psn.add(count - 1)), length, reserved7);
    }

    /// R59: the stored result, once more.
    fn repeat_saved(&mut self, packet: &Packet<'_>, cx: &mut Context<'_>) {
        let psn = packet.bth.psn;
        let same = |saved: &Saved| match saved.kind {
            SavedKind::Atomic { opcode, .. } => opcode == packet.bth.opcode,
            SavedKind::Placement => {
                matches!(packet.info.operation, Operation::Flush | Operation::AtomicWrite)
            }
            SavedKind::Read { .. } => false,
        };
        match self.replay.find(psn).filter(same) {
            Some(saved) => {
                cx.counters.drop(DropReason::DuplicateRequest);
                self.responses.queue_saved(&saved);
            }
            None => cx.counters.drop(DropReason::DuplicateAtomicUnknown),
        }
    }

    /// Puts `packet`, which came behind a gap, into the reorder buffer; a packet that does not fit is dropped for `reason`.
    #[inline(never)]
    pub(super) fn reorder(
        &mut self,
        packet: &Packet<'_>,
        reason: DropReason,
        cx: &mut Context<'_>,
    ) {
        let (psn, expected) = (packet.bth.psn, self.expected);
        let taken = match &mut self.reorder_buffer {
            Some(buffer) => {
                let reached = buffer.note(expected, psn);
                let kept = reached
                    && !is_remembered(packet)
                    && buffer.put(psn, packet.bytes(), cx.reorder_buffers);
                if reached && !kept {
                    buffer.note_dropped(psn);
                }
                kept
            }
            None => false,
        };
        if taken {
            cx.counters.kept_request += 1;
        } else {
            cx.counters.drop(reason);
        }
    }

    /// Borrows a reorder buffer for what comes behind the gap that was found just now.
    pub(super) fn take_reorder_buffer(&mut self, config: &QpConfig, cx: &mut Context<'_>) {
        if self.reorders && self.reorder_buffer.is_none() {
            self.reorder_buffer = cx.reorder_buffers.lend(config.attr.path_mtu, self.expected);
        }
    }

    /// Gives the reorder buffer back with all that is in it.
    pub(crate) fn drop_reorder_buffer(&mut self, cx: &mut Context<'_>) {
        if let Some(buffer) = self.reorder_buffer.take() {
            discard(buffer, self.expected, cx);
        }
    }

    /// The expected request has come: executes what waits behind it in the reorder buffer, up to the next gap. `acks`: says so
    /// at once. A requester that goes back to the gap sends all of it again, and gets its ACK then.
    #[inline(never)]
    pub(super) fn run_reordered(
        &mut self,
        config: &QpConfig,
        now: Instant,
        acks: bool,
        cx: &mut Context<'_>,
    ) {
        let Some(mut buffer) = self.reorder_buffer.take() else {
            return;
        };
        let first = self.expected;
        for _ in 0..limits::MAX_WINDOW {
            let next = buffer.get(self.expected);
            let skips = || buffer.get(self.expected.add(1)).filter(|_| mutated("reorder-skips"));
            let next = next.or_else(skips);
            let next = next.and_then(|bytes| Packet::parse(bytes).ok());
            let Some(mut packet) = next.filter(|_| !self.has_stopped()) else {
                break;
            };
            packet.bth.ack_req &= acks;
            if !self.take_usual(config, &packet, cx) {
                self.take_in(config, now, &packet, cx);
            }
        }
        if buffer.reaches(self.expected) && !self.has_stopped() {
            buffer.pass(self.expected, cx.reorder_buffers);
            let told = self.expected != first && buffer.was_told(self.expected);
            self.reorder_buffer = Some(buffer);
            if told {
                // The missing packet is on its way already.
                self.silent = true;
                self.acknowledge_request(cx);
            } else if !self.report_gap(now, cx) {
                self.delayed_ack.start(now, limits::DELAYED_ACK_NS);
            }
            return;
        }
        if self.has_stopped() {
            // The request that stopped it was answered.
            return discard(buffer, self.expected.add(1), cx);
        }
        let sent_again = buffer.sent_again();
        cx.reorder_buffers.give_back(buffer);
        if acks {
            // The requester that sent the missing packet waits to hear that nothing else is missing.
            acknowledge_again(self, cx);
        } else {
            acknowledge_kept(self, now, sent_again, cx);
        }
    }

    /// No receive was there, or the queue pair has failed.
    fn has_stopped(&self) -> bool {
        self.silent || self.failure.is_some()
    }

    /// R53: one NAK per gap, then silence. It is sent when the batch of packets has been taken in,
    /// and taken back if the missing packet was only late (R54). False if there is no budget for it.
    pub(super) fn report_gap(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        cx.counters.out_of_seq_request += 1;
        if !self.reply_budget.spend(now) {
            return false;
        }
        self.silent = true;
        let syndrome = Syndrome::nak(NakCode::PsnSequence);
        self.answer_now(self.expected, syndrome);
        true
    }
}

/// ADR 33: a requester that takes gap lists is told again of what is missing when it asks for that behind what it has sent again, and
/// when it asks for an ACK far behind what it was told of last, since the NAK may have been lost.
fn tell_again(responder: &mut Responder, now: Instant, packet: &Packet<'_>) {
    let takes_lists = responder.peer_takes_gap_lists;
    let Some(buffer) = responder.reorder_buffer.as_deref().filter(|_| takes_lists) else { return };
    let Some(news) = buffer.news_since_told(packet.bth.psn) else { return };
    let asks = !is_remembered(packet) && takes_gap_lists(packet);
    let may_miss = packet.bth.ack_req && news >= limits::PSNS_UNTIL_TOLD_AGAIN;
    if (asks || may_miss) && responder.reply_budget.spend(now) {
        responder.answer_now(responder.expected, Syndrome::nak(NakCode::PsnSequence));
    }
}

/// ADR 33: the requester takes gap lists, and sends again no more than they name.
fn takes_gap_lists(packet: &Packet<'_>) -> bool {
    packet.bth.reserved7 & TAKES_GAP_LISTS != 0
}

/// Gives a reorder buffer back. What is in it from `expected` on is not executed any more.
fn discard(buffer: Box<ReorderBuffer>, expected: Psn, cx: &mut Context<'_>) {
    cx.counters.drop_earlier(DropReason::KeptDiscarded, buffer.kept_from(expected));
    cx.reorder_buffers.give_back(buffer);
}

/// B25: the application learns of a violation that used up no receive.
fn violation(config: &QpConfig, code: NakCode) -> AsyncEvent {
    let qpn = config.init.qpn;
    match code {
        NakCode::RemoteAccess => AsyncEvent::QpAccessErr(qpn),
        NakCode::RemoteOperational => AsyncEvent::QpFatal(qpn),
        NakCode::PsnSequence | NakCode::InvalidRequest | NakCode::InvalidRdRequest => {
            AsyncEvent::QpReqErr(qpn)
        }
    }
}

/// True if what is sent again is to be acknowledged at once, and not with the end of its message, which comes behind it: an ACK of
/// the end that arrives before rxe has sent the end again stops its timer, and if the end is then lost, the message never completes.
fn wants_ack(packet: &Packet<'_>) -> bool {
    packet.bth.ack_req || packet.info.ends()
}

/// R57: what was executed is acknowledged again, where the rest of the message does not draw the ACK. A duplicate SEND or WRITE that
/// draws none uses up no budget.
fn acknowledge_duplicate(
    responder: &mut Responder,
    now: Instant,
    packet: &Packet<'_>,
    cx: &mut Context<'_>,
) {
    let (psn, newest) = (packet.bth.psn, responder.expected.sub(1));
    let asks = psn == newest || wants_ack(packet);
    if !asks && responder.delayed_ack.start_behind(now, psn) {
        return cx.counters.drop(DropReason::DuplicateRequest);
    }
    if !responder.reply_budget.spend(now) {
        return cx.counters.drop(DropReason::ReplyBudget);
    }
    cx.counters.drop(DropReason::DuplicateRequest);
    if psn == newest {
        // It is not behind the answer to the newest request: a requester with nothing in flight asks whether anybody is there (R112).
        responder.acknowledge_request(cx);
    } else if asks && !takes_gap_lists(packet) {
        acknowledge_unless_unsaid(responder, now, limits::DELAYED_ACK_NS, cx);
    } else {
        acknowledge_again(responder, cx);
    }
}

/// All gaps are closed, for a requester that sends again what was kept: that draws the ACK. Packets before `sent_again` have come again
/// already, before the one that was missing: one of them may have asked for an ACK.
fn acknowledge_kept(
    responder: &mut Responder,
    now: Instant,
    sent_again: Option<Psn>,
    cx: &mut Context<'_>,
) {
    let expected = responder.expected;
    if responder.message.is_none() {
        responder.unsaid_end = Some(expected.sub(1));
    }
    match sent_again {
        None => responder.delayed_ack.start(now, limits::DELAYED_ACK_NS),
        Some(end) if end.since(expected) < 0 => {
            acknowledge_unless_unsaid(responder, now, limits::DELAYED_ACK_NS, cx);
        }
        Some(_) => {
            acknowledge_unless_unsaid(responder, now, limits::DELAYED_ACK_SENT_AGAIN_NS, cx);
        }
    }
}

/// Acknowledges what was executed so far. The newest packet is left out for `wait_ns` if it is the end of a message that the requester is
/// about to send again and that no ACK has told of yet (`wants_ack` says why).
fn acknowledge_unless_unsaid(
    responder: &mut Responder,
    now: Instant,
    wait_ns: u64,
    cx: &mut Context<'_>,
) {
    let newest = responder.expected.sub(1);
    if responder.unsaid_end != Some(newest) {
        acknowledge_again(responder, cx);
        return;
    }
    responder.delayed_ack.start(now, wait_ns);
    let (psn, msn) = (newest.sub(1), responder.msn.wrapping_sub(1) & 0xff_ffff);
    if !responder.replay.ends_with(psn) {
        let deferred = responder.responses.queue_ack(Response::ack(psn, msn));
        cx.counters.ack_deferred += u64::from(deferred);
    }
}

/// Acknowledges what was executed so far, unless the newest request has an answer of its own: who misses that answer asks
/// for it again. False if it has.
pub(super) fn acknowledge_again(responder: &mut Responder, cx: &mut Context<'_>) -> bool {
    let acknowledges = !responder.replay.ends_with(responder.expected.sub(1));
    if acknowledges {
        responder.acknowledge_request(cx);
    }
    acknowledges
}
