//! Limit on the work that remote senders can cause in other processes.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Number of counters that all sources share.
const SOURCES: usize = 64;

/// Interval of the limits.
const WINDOW: Duration = Duration::from_millis(100);

/// A limit on events in each tenth of a second, for each source and in all.
#[derive(Debug)]
pub struct RateLimit {
    per_source: u16,
    in_all: u16,
    since: Instant,
    taken: u16,
    by_source: [u16; SOURCES],
    /// Keyed hash: a sender cannot choose an address that shares the counter of another one.
    hashing: RandomState,
}

impl RateLimit {
    /// A limit of so many events in each tenth of a second.
    #[must_use]
    pub fn new(per_source: u16, in_all: u16) -> Self {
        let (since, hashing) = (Instant::now(), RandomState::new());
        Self { per_source, in_all, since, taken: 0, by_source: [0; SOURCES], hashing }
    }

    /// The limit on packets for all processes on an address, or all engines of a device: what one costs is multiplied by their
    /// number (ADR 12). A peer sends one when it gives up before it has an answer.
    #[must_use]
    pub fn to_everyone() -> Self {
        Self::new(2, 5)
    }

    /// Counts an event of `source`; `false`: it is over the limit.
    pub fn take(&mut self, now: Instant, source: IpAddr) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.since, self.taken, self.by_source) = (now, 0, [0; SOURCES]);
        }
        let count = &mut self.by_source[self.hashing.hash_one(source) as usize % SOURCES];
        let may = *count < self.per_source && self.taken < self.in_all;
        if may {
            *count += 1;
            self.taken += 1;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a41_a_source_and_all_together_have_exact_shares() {
        let mut rate_limit = RateLimit::new(3, 8);
        let mut now = rate_limit.since;
        let source = |n: u32| IpAddr::V4(n.into());
        for _ in 0..3 {
            assert_eq!((0..9).filter(|_| rate_limit.take(now, source(1))).count(), 3);
            assert_eq!((2..100).filter(|n| rate_limit.take(now, source(*n))).count(), 5);
            now += WINDOW;
        }
    }
}
