//! The responder's side of selective repeat: requests behind a PSN gap wait in a reorder buffer and are executed when the
//! missing one has come (ADR 17).
//!
//! R55 holds: a request in the buffer has no effect until its PSN is the expected one, and then takes all the steps of a
//! request that arrives at that moment. A requester that goes back and sends everything again (go-back-N) loses nothing:
//! what was executed meanwhile is a duplicate.

use uroce_wire::{DropReason, NakCode, Operation, Packet, Syndrome};

use crate::context::Context;
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp::responder::Responder;
use crate::time::Instant;

impl Responder {
    /// Puts `packet`, which came behind a gap, into the reorder buffer; a packet that does not fit is dropped for `reason`.
    #[inline(never)]
    pub(super) fn reorder(
        &mut self,
        packet: &Packet<'_>,
        reason: DropReason,
        cx: &mut Context<'_>,
    ) {
        let plain = matches!(packet.info.operation, Operation::Send | Operation::Write);
        let (psn, expected) = (packet.bth.psn, self.expected);
        let taken = match &mut self.reorder_buffer {
            Some(buffer) => buffer.note(expected, psn) && plain && buffer.put(psn, packet.bytes()),
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
            self.reorder_buffer = cx.reorder_buffers.lend(config.attr.path_mtu);
        }
    }

    /// Gives the reorder buffer back with all that is in it.
    pub(crate) fn drop_reorder_buffer(&mut self, cx: &mut Context<'_>) {
        if let Some(buffer) = self.reorder_buffer.take() {
            cx.reorder_buffers.give_back(buffer);
        }
    }

    /// The expected request has come: executes what waits behind it in the reorder buffer, up to the next gap.
    #[inline(never)]
    pub(super) fn run_reordered(&mut self, config: &QpConfig, now: Instant, cx: &mut Context<'_>) {
        let Some(buffer) = self.reorder_buffer.take() else {
            return;
        };
        for _ in 0..limits::MAX_WINDOW {
            let next = buffer.get(self.expected);
            let next = next.and_then(|bytes| Packet::parse(bytes).ok());
            let Some(packet) = next.filter(|_| !self.has_stopped()) else {
                break;
            };
            self.take_in(config, now, &packet, cx);
        }
        if buffer.reaches(self.expected) && !self.has_stopped() {
            self.reorder_buffer = Some(buffer);
            self.report_gap(now, cx);
            return;
        }
        cx.reorder_buffers.give_back(buffer);
        if !self.has_stopped() {
            // The requester that sent the missing packet waits to hear that nothing else is missing.
            self.acknowledge_request(cx);
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
        if !self.spend_reply(now) {
            return false;
        }
        self.silent = true;
        let syndrome = Syndrome::nak(NakCode::PsnSequence);
        self.answer_now(self.expected, syndrome);
        true
    }
}
