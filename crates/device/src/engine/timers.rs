//! When to look at which queue pair again: a min-heap of deadlines with lazy validation.
//!
//! Most deadlines only ever move later (each acknowledgement restarts the retransmit timer). Moving
//! later costs nothing here: the old entry stays in the heap, fires, finds that its queue pair is not
//! due yet, and is pushed again at the true time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use uroce_transport::Instant;

/// The heap. Each queue pair keeps its earliest heap entry (`armed`) beside its state; an entry that
/// differs from it is stale.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Timers {
    /// Says that `qpn` wants to be looked at no later than `deadline`. `armed` is the queue pair's
    /// own note and is kept up to date.
    pub(crate) fn arm(&mut self, qpn: u32, deadline: Option<Instant>, armed: &mut Option<u64>) {
        let Some(deadline) = deadline.map(Instant::as_nanos) else {
            return;
        };
        if armed.is_some_and(|earliest| earliest <= deadline) {
            return;
        }
        *armed = Some(deadline);
        self.heap.push(Reverse((deadline, qpn)));
    }

    /// The next (deadline, QPN) at or before `now`. It may be stale: compare with `armed`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(u64, u32)> {
        let Reverse((deadline, _)) = *self.heap.peek()?;
        if deadline > now.as_nanos() {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// No queue pair needs attention before this time (it may be too early, never too late).
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Entries, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Replaces all entries by the live ones. Called when stale entries outnumber them.
    pub(crate) fn rebuild(&mut self, live: impl Iterator<Item = (u64, u32)>) {
        self.heap.clear();
        self.heap.extend(live.map(Reverse));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Option<Instant> {
        Some(Instant::from_nanos(ns))
    }

    #[test]
    fn a_later_deadline_costs_no_entry() {
        let mut timers = Timers::default();
        let mut armed = None;
        timers.arm(7, at(100), &mut armed);
        for later in 101..1_000 {
            timers.arm(7, at(later), &mut armed);
        }
        assert_eq!(timers.len(), 1);
        assert_eq!(armed, Some(100));
        assert_eq!(timers.next_deadline(), Some(100));
    }

    #[test]
    fn an_earlier_deadline_comes_first() {
        let mut timers = Timers::default();
        let mut armed = None;
        timers.arm(7, at(100), &mut armed);
        timers.arm(7, at(50), &mut armed);
        assert_eq!(timers.pop_due(Instant::from_nanos(49)), None);
        assert_eq!(timers.pop_due(Instant::from_nanos(50)), Some((50, 7)));
        assert_eq!(timers.pop_due(Instant::from_nanos(100)), Some((100, 7)));
        assert_eq!(timers.next_deadline(), None);
    }

    #[test]
    fn no_deadline_keeps_the_armed_entry() {
        let mut timers = Timers::default();
        let mut armed = None;
        timers.arm(7, None, &mut armed);
        assert_eq!((timers.len(), armed), (0, None));
        timers.arm(7, at(5), &mut armed);
        timers.arm(7, None, &mut armed);
        assert_eq!((timers.len(), armed), (1, Some(5)));
    }

    #[test]
    fn rebuild_drops_stale_entries() {
        let mut timers = Timers::default();
        for deadline in (1..100).rev() {
            let mut armed = None;
            timers.arm(7, at(deadline), &mut armed);
        }
        timers.rebuild([(3, 7)].into_iter());
        assert_eq!(timers.len(), 1);
        assert_eq!(timers.next_deadline(), Some(3));
    }
}
