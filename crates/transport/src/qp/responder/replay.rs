//! Requests that arrive a second time.

use uroce_wire::{DropReason, Opcode, Operation, Packet, Psn};

use crate::context::Context;
use crate::qp::QueuePair;
use crate::time::Instant;

use super::answer::{Answer, Train};
use super::{Responder, checks};

/// A request whose answer can be given again (R59).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) first: Psn,
    pub(super) last: Psn,
    pub(super) msn: u32,
    pub(super) kind: SavedKind,
}

/// What is needed for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SavedKind {
    /// A READ is executed again from memory.
    Read { va: u64, rkey: u32, length: u64 },
    /// The result of an atomic; it is never executed again.
    Atomic { opcode: Opcode, original: u64 },
    /// FLUSH and ATOMIC WRITE have an empty answer.
    Placement,
}

impl Responder {
    /// Queues the answer to `saved`, for a READ from `from` on.
    pub(super) fn queue_saved(&mut self, saved: &Saved, from: Psn) {
        let (psn, msn) = (saved.first, saved.msn);
        self.queue_in_order(match saved.kind {
            SavedKind::Read { va, rkey, length } => Answer::Read(Train {
                first: from,
                next: from,
                last: saved.last,
                va,
                rkey,
                length,
                base: saved.first,
                msn,
            }),
            SavedKind::Atomic { original, .. } => Answer::Atomic { psn, msn, original },
            SavedKind::Placement => Answer::Placement { psn, msn },
        });
    }

    fn find_saved(&self, psn: Psn) -> Option<Saved> {
        let holds = |s: &&Saved| psn.since(s.first) >= 0 && psn.since(s.last) <= 0;
        self.saved.iter().find(holds).copied()
    }
}

impl QueuePair {
    /// R57 to R62. Nothing here changes memory or the QP's state; what cannot be answered is
    /// dropped, never NAKed (R60).
    pub(super) fn handle_duplicate(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        cx.counters.duplicate_request += 1;
        if !self.responder.spend_reply(now) {
            cx.counters.drop(DropReason::ReplyBudget);
            return;
        }
        match packet.info.operation {
            Operation::Send | Operation::Write => {
                cx.counters.drop(DropReason::DuplicateRequest);
                self.acknowledge_request(cx);
            }
            Operation::ReadRequest => self.repeat_read(packet, cx),
            _ => self.repeat_saved(packet, cx),
        }
    }

    /// R58: the READ must be a part of the one that is remembered, under the same key.
    fn repeat_read(&mut self, packet: &Packet<'_>, cx: &mut Context<'_>) {
        let psn = packet.bth.psn;
        let remembered = self
            .responder
            .find_saved(psn)
            .filter(|saved| self.is_part_of(packet, saved) && self.check_rkey(packet, cx).is_ok());
        match remembered {
            Some(saved) => {
                cx.counters.drop(DropReason::DuplicateRequest);
                self.responder.queue_saved(&saved, psn);
            }
            None => cx.counters.drop(DropReason::DuplicateReadInvalid),
        }
    }

    fn is_part_of(&self, packet: &Packet<'_>, saved: &Saved) -> bool {
        let (Some(remote), SavedKind::Read { va, rkey, length }) =
            (checks::remote_of(packet), saved.kind)
        else {
            return false;
        };
        let skipped =
            packet.bth.psn.since(saved.first).max(0) as u64 * self.attr.path_mtu.bytes() as u64;
        remote.rkey == rkey
            && va.checked_add(skipped) == Some(remote.va)
            && length.checked_sub(skipped) == Some(remote.length)
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
        match self.responder.find_saved(psn).filter(same) {
            Some(saved) => {
                cx.counters.drop(DropReason::DuplicateRequest);
                self.responder.queue_saved(&saved, psn);
            }
            None => cx.counters.drop(DropReason::DuplicateAtomicUnknown),
        }
    }
}
