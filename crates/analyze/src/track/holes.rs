//! PSNs that should have been seen and were not, and whether the network or the capture lost them.

use super::UnwrappedPsn;

/// Holes of a flow that are remembered at a time.
const MAX_HOLES: usize = 64;

/// A run of PSNs that were skipped.
#[derive(Debug, Clone, Copy)]
struct Hole {
    first: UnwrappedPsn,
    /// One past the last.
    end: UnwrappedPsn,
    /// Packets of the flow that were seen before it.
    since: u64,
    /// A NAK asked for it.
    refused: bool,
}

/// How a PSN that was skipped came after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// A NAK had asked for it: it, or what was sent first, was lost before the capture point.
    AfterNak,
    /// No NAK had asked for it.
    Unasked {
        /// Packets of the flow that were seen since it was skipped.
        depth: u64,
    },
}

/// What became of holes that were given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Closed {
    /// Acknowledged and never seen: the capture lacks them.
    pub(super) capture: u64,
    /// Not acknowledged either.
    pub(super) unknown: u64,
}

/// The holes of a flow, by PSN.
#[derive(Debug, Default)]
pub(super) struct Holes {
    list: Vec<Hole>,
}

impl Holes {
    /// Nothing is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The PSNs from `first` to `end`, without it, were skipped. What had to be given up for it.
    pub(super) fn open(&mut self, first: UnwrappedPsn, end: UnwrappedPsn, seen: u64) -> Closed {
        let mut closed = Closed::default();
        if self.list.capacity() == 0 {
            self.list.reserve_exact(MAX_HOLES);
        }
        if self.list.len() == MAX_HOLES {
            let oldest = self.list.remove(0);
            closed.unknown = oldest.end.since(oldest.first);
        }
        self.list.push(Hole { first, end, since: seen, refused: false });
        closed
    }

    /// `psn` and what belongs to it, `span` PSNs, was seen after all; `None` if it was not missing.
    /// `seen` are the packets of the flow.
    pub(super) fn fill(&mut self, psn: UnwrappedPsn, span: u64, seen: u64) -> Option<Filled> {
        let index = self.list.iter().position(|hole| hole.first <= psn && psn < hole.end)?;
        let hole = *self.list.get(index)?;
        self.list.remove(index);
        let rest = [Hole { end: psn, ..hole }, Hole { first: psn.plus(span), ..hole }];
        let mut at = index;
        for part in rest.into_iter().filter(|part| part.first < part.end) {
            if self.list.len() < MAX_HOLES {
                self.list.insert(at, part);
                at += 1;
            }
        }
        Some(match hole.refused {
            true => Filled::AfterNak,
            false => Filled::Unasked { depth: seen.saturating_sub(hole.since) },
        })
    }

    /// A NAK asks for `psn`: true if it is one that was not seen.
    pub(super) fn refuse(&mut self, psn: UnwrappedPsn) -> bool {
        let mut found = false;
        for hole in &mut self.list {
            // A requester that goes back sends all holes behind the one that was asked for.
            hole.refused |= hole.end > psn;
            found |= hole.first <= psn && psn < hole.end;
        }
        found
    }

    /// Gives up holes that are older than `tolerance` packets and acknowledged, or all of them.
    pub(super) fn close(&mut self, una: UnwrappedPsn, seen: u64, tolerance: Option<u32>) -> Closed {
        let mut closed = Closed::default();
        self.list.retain(|hole| {
            let acked = una >= hole.end;
            let old =
                tolerance.is_none_or(|most| seen.saturating_sub(hole.since) > u64::from(most));
            let length = hole.end.since(hole.first);
            match (acked, old, tolerance) {
                (true, true, _) => closed.capture += length,
                (false, _, None) => closed.unknown += length,
                _ => return true,
            }
            false
        });
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn psn(number: u64) -> UnwrappedPsn {
        UnwrappedPsn(number)
    }

    #[test]
    fn what_comes_late_is_reordered_and_what_was_asked_for_is_repaired() {
        let mut holes = Holes::default();
        holes.open(psn(10), psn(13), 5);
        assert_eq!(holes.fill(psn(11), 1, 7), Some(Filled::Unasked { depth: 2 }));
        assert!(holes.refuse(psn(10)));
        assert_eq!(holes.fill(psn(10), 1, 8), Some(Filled::AfterNak));
        assert_eq!(holes.fill(psn(12), 1, 9), Some(Filled::AfterNak));
        assert_eq!(holes.fill(psn(12), 1, 9), None);
        assert!(holes.is_empty());
    }

    #[test]
    fn an_acknowledged_hole_is_the_captures_fault_once_it_is_old() {
        let mut holes = Holes::default();
        holes.open(psn(10), psn(12), 5);
        assert_eq!(holes.close(psn(20), 8, Some(10)), Closed::default());
        assert_eq!(holes.close(psn(20), 16, Some(10)), Closed { capture: 2, unknown: 0 });
        holes.open(psn(30), psn(31), 5);
        assert_eq!(holes.close(psn(20), 99, Some(10)), Closed::default());
        assert_eq!(holes.close(psn(20), 99, None), Closed { capture: 0, unknown: 1 });
    }

    #[test]
    fn the_list_stays_short() {
        let mut holes = Holes::default();
        let mut lost = 0;
        for number in 0..1000 {
            lost += holes.open(psn(number * 4), psn(number * 4 + 3), number).unknown;
            holes.fill(psn(number * 4 + 1), 1, number);
        }
        assert!(holes.list.len() <= MAX_HOLES);
        assert!(lost > 0);
    }
}
