//! Requests whose answer can be given again: what the responder remembers of READs, atomics, FLUSHes and ATOMIC WRITEs
//! (R59). rxe calls them responder resources.

use std::collections::VecDeque;

use uroce_memory::PdId;
use uroce_memory::mutation::mutated;
use uroce_wire::{Opcode, Packet, Psn};

use super::message::remote_of;

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

impl Saved {
    /// How far into the remembered READ the repeated part reaches; `None` if it is no part of it.
    pub(super) fn length_of_part(&self, packet: &Packet<'_>, mtu: usize) -> Option<u64> {
        let SavedKind::Read { va, rkey, length, .. } = self.kind else {
            return None;
        };
        let remote = remote_of(packet)?;
        let skipped = packet.bth.psn.since(self.first).max(0) as u64 * mtu as u64;
        let end = skipped.checked_add(remote.length)?;
        let same_memory = remote.rkey == rkey && va.checked_add(skipped) == Some(remote.va);
        let same_kind = (remote.length == 0) == (length == 0);
        (same_memory && same_kind && end <= length).then_some(end)
    }
}

/// PSNs after which the responder looks for what is old, as a power of two: an eighth of all.
const STRETCH_SHIFT: u32 = 21;

/// The newest requests that can be repeated, as many as `max_dest_rd_atomic` says.
#[derive(Debug, Default)]
pub(super) struct ReplayCache {
    /// Oldest first.
    saved: VecDeque<Saved>,
    depth: usize,
}

impl ReplayCache {
    /// Changes how many are remembered; the newest survive (B32).
    pub(super) fn set_depth(&mut self, depth: u8) {
        self.depth = usize::from(depth);
        while self.saved.len() > self.depth {
            self.saved.pop_front();
        }
    }

    /// R35: true if the oldest of as many requests as may be open has not been answered yet.
    pub(super) fn is_full(&self) -> bool {
        let full = self.saved.len() >= self.depth;
        full && self.saved.front().is_none_or(|oldest| !oldest.answered)
    }

    /// Remembers a request, and returns the one that made room.
    pub(super) fn save(&mut self, saved: Saved) -> Option<Saved> {
        let full = self.saved.len() >= self.depth;
        let forgotten = if full { self.saved.pop_front() } else { None };
        self.saved.push_back(saved);
        forgotten
    }

    /// Everything from `expected` to `next` has been executed.
    #[inline]
    pub(super) fn note_executed(&mut self, expected: Psn, next: Psn) {
        if (next.get() ^ expected.get()) >> STRETCH_SHIFT != 0 {
            self.forget_old(next);
        }
    }

    /// A stretch of PSNs ends with `expected`: what is older than that is forgotten, before its PSNs come again. Nobody asks for
    /// it any more, since requests for half of all PSNs may not be on their way (R17).
    #[cold]
    fn forget_old(&mut self, expected: Psn) {
        self.saved.retain(|saved| (0..=1 << STRETCH_SHIFT).contains(&expected.since(saved.last)));
    }

    /// What holds between two calls: not more than may be open, and each with PSNs before `expected`.
    pub(super) fn assert_invariants(&self, expected: Psn) {
        debug_assert!(self.saved.len() <= self.depth, "{} of {}", self.saved.len(), self.depth);
        let Some(newest) = self.saved.back() else { return };
        debug_assert!(newest.last.since(newest.first) >= 0, "a request has PSNs");
        debug_assert!(expected.since(newest.last) > 0, "remembered before it was executed");
    }

    /// The newest remembered request that has this PSN: after a lap of all PSNs there may be two.
    pub(super) fn find(&self, psn: Psn) -> Option<Saved> {
        let holds = |s: &&Saved| psn.since(s.first) >= 0 && psn.since(s.last) <= 0;
        self.saved.iter().rev().find(holds).copied()
    }

    /// True if the request that ends with `newest` has an answer of its own. No ACK is sent then: the answer says all that an
    /// ACK would, and rxe completes a READ when an ACK comes between its responses, or has its last PSN, whether or not the
    /// data has come.
    pub(super) fn ends_with(&self, newest: Psn) -> bool {
        let ends = self.saved.back().is_some_and(|saved| saved.last == newest);
        ends && !mutated("duplicate-acknowledges-read")
    }

    /// The request that starts at `first` has been answered up to `last`.
    pub(super) fn note_answered(&mut self, first: Psn, last: Psn) {
        let of_it = |saved: &&mut Saved| saved.first == first;
        if let Some(saved) = self.saved.iter_mut().rev().find(of_it) {
            saved.answered |= saved.last == last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r59_what_is_older_than_a_stretch_of_psns_is_forgotten() {
        let saved = |psn: u32| {
            let (first, last) = (Psn::new(psn), Psn::new(psn).add(3));
            Saved { first, last, msn: 1, kind: SavedKind::Placement, answered: true }
        };
        let mut replay = ReplayCache::default();
        replay.set_depth(4);
        for psn in [0xff_ff00, 0x10, 0x1f_fff0] {
            assert_eq!(replay.save(saved(psn)), None);
        }
        replay.forget_old(Psn::new(0x20_0000));
        let left: Vec<_> = replay.saved.iter().map(|saved| saved.first.get()).collect();
        assert_eq!(left, [0x10, 0x1f_fff0]);
        replay.forget_old(Psn::new(0xe0_0000));
        assert!(replay.saved.is_empty());
    }
}
