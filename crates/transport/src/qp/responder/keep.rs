//! Requests behind a gap are kept, and executed when what is missing has come (ADR 17).
//!
//! R55 holds: what is kept has no effect until it is its turn, and then it walks through all the steps
//! that a request takes which arrives at that moment. Whoever does not know that we keep and sends
//! everything again loses nothing by it: what was executed meanwhile is a duplicate.

use uroce_wire::{DropReason, NakCode, Operation, Packet, Syndrome};

use crate::attr::QpState;
use crate::context::Context;
use crate::limits;
use crate::qp::QueuePair;
use crate::time::Instant;

impl QueuePair {
    /// Lets the responder of this queue pair keep SENDs and WRITEs that come behind a gap. Without it
    /// they are dropped, as other implementations do.
    pub fn set_keeps(&mut self, enabled: bool) {
        self.responder.keeps = enabled && self.init.qp_type.is_reliable();
    }

    /// Keeps `packet`, which came behind a gap, if it can; otherwise it counts as dropped for `reason`.
    #[inline(never)]
    pub(super) fn keep(&mut self, packet: &Packet<'_>, reason: DropReason, cx: &mut Context<'_>) {
        let plain = matches!(packet.info.operation, Operation::Send | Operation::Write);
        let (psn, expected) = (packet.bth.psn, self.responder.expected);
        let kept = match &mut self.responder.kept {
            Some(kept) => kept.note(expected, psn) && plain && kept.put(psn, packet.bytes()),
            None => false,
        };
        if kept {
            cx.counters.kept_request += 1;
        } else {
            cx.counters.drop(reason);
        }
    }

    /// Gets a buffer for what comes behind the gap that was found just now.
    pub(super) fn begin_keeping(&mut self, cx: &mut Context<'_>) {
        if self.responder.keeps && self.responder.kept.is_none() {
            self.responder.kept = cx.kept.lend(self.attr.path_mtu);
        }
    }

    /// Forgets what is kept.
    pub(crate) fn drop_kept(&mut self, cx: &mut Context<'_>) {
        if let Some(kept) = self.responder.kept.take() {
            cx.kept.give_back(kept);
        }
    }

    /// The expected request has come: executes what was kept behind it, up to the next gap.
    #[inline(never)]
    pub(super) fn run_kept(&mut self, now: Instant, cx: &mut Context<'_>) {
        let Some(kept) = self.responder.kept.take() else {
            return;
        };
        for _ in 0..limits::MAX_WINDOW {
            let next = kept.get(self.responder.expected).and_then(|kept| Packet::parse(kept).ok());
            let Some(packet) = next.filter(|_| !self.has_stopped()) else {
                break;
            };
            self.take_in(now, &packet, cx);
        }
        if kept.reaches(self.responder.expected) && !self.has_stopped() {
            self.responder.kept = Some(kept);
            self.report_gap(now, cx);
            return;
        }
        cx.kept.give_back(kept);
        if !self.has_stopped() {
            // Whoever sent what was missing waits to hear that nothing else is.
            self.acknowledge_request(cx);
        }
    }

    /// No receive was there, or the queue pair has failed.
    fn has_stopped(&self) -> bool {
        self.responder.silent || self.state == QpState::Err
    }

    /// R53: one NAK per gap, then silence. It is sent when the batch of packets has been taken in,
    /// and taken back if the missing packet was only late (R54). False if there is no budget for it.
    pub(super) fn report_gap(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        cx.counters.out_of_seq_request += 1;
        if !self.responder.spend_reply(now) {
            return false;
        }
        self.responder.silent = true;
        let syndrome = Syndrome::nak(NakCode::PsnSequence);
        self.answer_now(self.responder.expected, syndrome);
        true
    }
}
