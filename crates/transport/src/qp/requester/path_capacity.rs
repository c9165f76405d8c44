//! How much a path holds (docs/adr/032-long-paths.md): what was delivered in the shortest round trip.
//!
//! What is in flight beyond that waits in a queue, and the last queue is the receiver's socket buffer. On a short path
//! nothing is measured but the round trip: the window is small enough for any receiver there.

use crate::limits;
use crate::time::Instant;

/// So many round trips without a delivery are a pause.
const IDLE_ROUND_TRIPS: u64 = 4;

/// What a measured round trip tells of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundTrip {
    /// Nothing new.
    Usual,
    /// The path is short.
    ShortPath,
    /// For a whole period no round trip of a long path was nearly as short as the shortest before.
    Longer,
}

/// An estimate of what a path holds.
#[derive(Debug, Default)]
pub(super) struct PathCapacity {
    /// The shortest round trip in ns; 0 until one was measured.
    round_trip_ns: u64,
    /// The shortest one of this period, and when that began.
    recent_ns: u64,
    period_start: Instant,
    /// The round of which deliveries are counted: since when, and how many packets.
    round_start: Instant,
    delivered: u32,
    /// What the path holds in packets; 0 on a short path.
    packets: u32,
}

impl PathCapacity {
    /// The shortest round trip in ns.
    pub(super) fn round_trip_ns(&self) -> u64 {
        self.round_trip_ns
    }

    /// What the path holds in packets; 0 on a short path.
    #[inline]
    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    /// The window of a short path may be too small for it.
    #[inline]
    pub(super) fn is_long(&self) -> bool {
        self.round_trip_ns >= limits::LONG_PATH_NS
    }

    /// A round trip was measured.
    #[inline]
    pub(super) fn note_round_trip(&mut self, sample_ns: u64, now: Instant) -> RoundTrip {
        self.recent_ns = self.recent_ns.min(sample_ns);
        let known = sample_ns >= self.round_trip_ns && self.round_trip_ns > 0;
        if known && now.since(self.period_start) < limits::ROUND_TRIP_PERIOD_NS {
            return RoundTrip::Usual;
        }
        self.take_round_trip(sample_ns, now)
    }

    #[inline(never)]
    fn take_round_trip(&mut self, sample_ns: u64, now: Instant) -> RoundTrip {
        let shortest = self.round_trip_ns;
        if sample_ns < shortest || shortest == 0 {
            self.round_trip_ns = sample_ns;
        } else if self.recent_ns > shortest + shortest / 8 {
            self.round_trip_ns = self.recent_ns;
        }
        if shortest == 0 || now.since(self.period_start) >= limits::ROUND_TRIP_PERIOD_NS {
            (self.recent_ns, self.period_start) = (u64::MAX, now);
        }
        if !self.is_long() {
            self.packets = 0;
            return RoundTrip::ShortPath;
        }
        let longer = shortest > 0 && self.round_trip_ns > shortest;
        if longer { RoundTrip::Longer } else { RoundTrip::Usual }
    }

    /// So many packets more were delivered. True at the end of a round, when the capacity has been estimated anew.
    #[inline]
    pub(super) fn note_delivered(&mut self, packets: u32, now: Instant, in_order: bool) -> bool {
        self.delivered = self.delivered.saturating_add(packets);
        let took = now.since(self.round_start);
        let ends = took >= self.round_trip_ns;
        if ends {
            self.end_round(took, now, in_order);
        }
        ends
    }

    /// Nothing was delivered for some round trips.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        now.since(self.round_start) > IDLE_ROUND_TRIPS * self.round_trip_ns
    }

    /// Behind a gap deliveries come at once, so that one round says little.
    #[inline(never)]
    fn end_round(&mut self, took: u64, now: Instant, in_order: bool) {
        debug_assert!(self.is_long(), "on a short path nothing is counted");
        let held = u64::from(self.delivered) * self.round_trip_ns / took.max(1);
        let (held, before) = (u32::try_from(held).unwrap_or(u32::MAX), self.packets);
        self.packets = match held.checked_sub(before) {
            Some(_) if in_order => held,
            Some(more) => before + more / 4,
            None => before - (before - held) / 8,
        };
        (self.round_start, self.delivered) = (now, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn a_path_holds_what_is_delivered_in_its_shortest_round_trip() {
        let mut path = PathCapacity::default();
        assert_eq!(path.note_round_trip(20 * MS, at(0)), RoundTrip::Usual);
        path.note_round_trip(10 * MS, at(0));
        // 100 packets a millisecond, 20 ms after they were sent: half of them wait somewhere.
        (1..100).for_each(|ms| {
            path.note_delivered(100, at(ms * MS), true);
        });
        assert_eq!(path.packets(), 1000);
        assert!(path.note_delivered(0, at(120 * MS), true), "the end of a round");
        assert!(path.packets() < 1000, "less is delivered");
    }

    #[test]
    fn a_short_path_holds_nothing_that_counts() {
        let mut path = PathCapacity::default();
        path.note_round_trip(10 * MS, at(0));
        path.note_delivered(1000, at(10 * MS), true);
        assert_eq!(path.packets(), 1000);
        assert_eq!(path.note_round_trip(30_000, at(11 * MS)), RoundTrip::ShortPath);
        assert_eq!((path.packets(), path.is_long()), (0, false));
    }

    #[test]
    fn a_burst_behind_a_gap_is_not_taken_for_capacity() {
        let mut path = PathCapacity::default();
        path.note_round_trip(10 * MS, at(0));
        path.note_delivered(1000, at(10 * MS), true);
        path.note_delivered(3000, at(20 * MS), false);
        assert_eq!(path.packets(), 1500);
    }

    #[test]
    fn a_longer_round_trip_counts_after_a_period_without_a_shorter_one() {
        let mut path = PathCapacity::default();
        let period = limits::ROUND_TRIP_PERIOD_NS;
        path.note_round_trip(10 * MS, at(0));
        for (round, sample) in [(1, 11 * MS), (2, 30 * MS)] {
            path.note_round_trip(sample, at(round * period - 1));
            assert_eq!(
                path.note_round_trip(40 * MS, at(round * period)),
                match round {
                    1 => RoundTrip::Usual,
                    _ => RoundTrip::Longer,
                }
            );
        }
        assert_eq!(path.round_trip_ns(), 30 * MS);
    }
}
