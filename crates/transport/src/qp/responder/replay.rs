//! Requests that arrive a second time.

use uroce_memory::PdId;
use uroce_wire::{DropReason, Opcode, Operation, Packet, Psn};

use crate::context::Context;
use crate::mutation::mutated;
use crate::qp::config::QpConfig;
use crate::time::Instant;

use super::response::{ReadResponse, Response};
use super::{Responder, checks};

/// A request whose answer can be given again (R59).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) first: Psn,
    pub(super) last: Psn,
    pub(super) msn: u32,
    pub(super) kind: SavedKind,
    /// Its answer has been sent at least once.
    pub(super) answered: bool,
}

/// What is needed for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SavedKind {
    /// A READ is executed again from memory.
    Read { va: u64, rkey: u32, length: u64, pd: PdId },
    /// The result of an atomic; it is never executed again.
    Atomic { opcode: Opcode, original: u64 },
    /// FLUSH and ATOMIC WRITE have an empty answer.
    Placement,
}

impl Responder {
    /// R35: true if the oldest of as many requests as may be open has not been answered yet.
    pub(super) fn is_saved_full(&self) -> bool {
        let full = self.saved.len() >= usize::from(self.depth);
        full && self.saved.front().is_none_or(|oldest| !oldest.answered)
    }

    /// Remembers a request. The oldest one makes room: its requester would not have sent another
    /// without having its answer, so an answer that still waits is a repetition nobody needs.
    pub(super) fn save(&mut self, saved: Saved) {
        if self.saved.len() >= usize::from(self.depth)
            && let Some(oldest) = self.saved.pop_front()
        {
            self.drop_answer(oldest.first);
        }
        self.saved.push_back(saved);
    }

    /// Queues the whole answer to `saved`.
    pub(super) fn queue_saved(&mut self, saved: &Saved) {
        let (psn, msn) = (saved.first, saved.msn);
        match saved.kind {
            SavedKind::Read { length, .. } => self.queue_part(saved, psn, saved.last, length),
            SavedKind::Atomic { original, .. } => {
                self.queue_in_order(Response::Atomic { psn, msn, original }, true);
            }
            SavedKind::Placement => self.queue_in_order(Response::Placement { psn, msn }, true),
        }
    }

    /// Queues the responses `first..=last` to a READ, of which only the first `length` bytes count.
    fn queue_part(&mut self, saved: &Saved, first: Psn, last: Psn, length: u64) {
        let SavedKind::Read { va, rkey, pd, .. } = saved.kind else {
            return;
        };
        let (base, msn) = (saved.first, saved.msn);
        let train = ReadResponse { first, next: first, last, va, rkey, pd, length, base, msn };
        // Who misses a part in the middle only has kept the rest.
        self.queue_in_order(Response::Read(train), last == saved.last);
    }

    /// The newest remembered request that has this PSN: after a lap of all PSNs there may be two.
    fn find_saved(&self, psn: Psn) -> Option<Saved> {
        let holds = |s: &&Saved| psn.since(s.first) >= 0 && psn.since(s.last) <= 0;
        self.saved.iter().rev().find(holds).copied()
    }

    /// Notes that the request that starts at `first` has been answered up to `last`.
    pub(super) fn note_answered(&mut self, first: Psn, last: Psn) {
        let of_it = |saved: &&mut Saved| saved.first == first;
        if let Some(saved) = self.saved.iter_mut().rev().find(of_it) {
            saved.answered |= saved.last == last;
        }
    }
}

impl Responder {
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
        if !self.spend_reply(now) {
            cx.counters.drop(DropReason::ReplyBudget);
            return;
        }
        match packet.info.operation {
            Operation::Send if mutated("duplicate-executed") => {
                self.take_in(config, now, packet, cx)
            }
            Operation::Send | Operation::Write => {
                cx.counters.drop(DropReason::DuplicateRequest);
                self.acknowledge_request(cx);
            }
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
        let saved = self.find_saved(psn);
        let part =
            saved.and_then(|saved| Some((saved, self.length_of_part(config, packet, &saved)?)));
        let allowed = |saved: &Saved| match saved.kind {
            SavedKind::Read { pd, .. } => {
                let by = self.requirer_in(config, pd);
                self.check_enabled(config, packet).is_ok()
                    && self.check_rkey(config, packet, by, cx).is_ok()
            }
            SavedKind::Atomic { .. } | SavedKind::Placement => false,
        };
        let Some((saved, length)) = part.filter(|(saved, _)| allowed(saved)) else {
            return cx.counters.drop(DropReason::DuplicateReadInvalid);
        };
        cx.counters.drop(DropReason::DuplicateRequest);
        let last = psn.add(self.psns_of_request(config, packet) - 1);
        self.repeats.note(psn, self.psns_of_request(config, packet), now);
        self.queue_part(&saved, psn, last, length);
    }

    /// How far into the remembered READ the repeated part reaches; `None` if it is no part of it.
    fn length_of_part(&self, config: &QpConfig, packet: &Packet<'_>, saved: &Saved) -> Option<u64> {
        let SavedKind::Read { va, rkey, length, .. } = saved.kind else {
            return None;
        };
        let remote = checks::remote_of(packet)?;
        let skipped = packet.bth.psn.since(saved.first).max(0) as u64;
        let skipped = skipped * config.attr.path_mtu.bytes() as u64;
        let end = skipped.checked_add(remote.length)?;
        let same_memory = remote.rkey == rkey && va.checked_add(skipped) == Some(remote.va);
        let same_kind = (remote.length == 0) == (length == 0);
        (same_memory && same_kind && end <= length).then_some(end)
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
        match self.find_saved(psn).filter(same) {
            Some(saved) => {
                cx.counters.drop(DropReason::DuplicateRequest);
                self.queue_saved(&saved);
            }
            None => cx.counters.drop(DropReason::DuplicateAtomicUnknown),
        }
    }
}
