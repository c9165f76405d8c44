//! Rates that strangers cannot exceed (A21, A26).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;

use crate::limits::SOURCE_BUCKETS;
use crate::time::Time;

/// A token bucket that holds one second's worth.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Millionths of a token.
    level: u64,
    filled_at: Time,
}

const TOKEN: u64 = 1_000_000;

impl Bucket {
    fn full(rate: u32) -> Bucket {
        Bucket { level: u64::from(rate) * TOKEN, filled_at: Time::ZERO }
    }

    fn fill(&mut self, now: Time, rate: u32) {
        let us = u64::try_from(now.saturating_sub(self.filled_at).as_micros()).unwrap_or(u64::MAX);
        // What is less than a microsecond counts the next time.
        self.filled_at = self.filled_at.saturating_add(Duration::from_micros(us));
        let most = u64::from(rate) * TOKEN;
        self.level = us.saturating_mul(u64::from(rate)).saturating_add(self.level).min(most);
    }

    fn has_token(&self) -> bool {
        self.level >= TOKEN
    }

    fn take(&mut self) {
        self.level = self.level.saturating_sub(TOKEN);
    }
}

/// A rate for all, and one for each source. Sources are hashed into a fixed number of buckets, so
/// that random ones cost no memory.
#[derive(Debug)]
pub(crate) struct Budget {
    rate: u32,
    rate_per_source: u32,
    all: Bucket,
    sources: Vec<Bucket>,
    /// A source cannot aim at the bucket of another one.
    secret: u64,
}

impl Budget {
    pub(crate) fn new(rate: u32, rate_per_source: u32, secret: u64) -> Budget {
        let (all, source) = (Bucket::full(rate), Bucket::full(rate_per_source));
        Budget { rate, rate_per_source, all, sources: vec![source; SOURCE_BUCKETS], secret }
    }

    /// Takes a token of `source`, and one of all unless `privileged`. False: there is none left.
    pub(crate) fn take(&mut self, now: Time, source: IpAddr, privileged: bool) -> bool {
        self.all.fill(now, self.rate);
        let place = self.place(source);
        let Some(bucket) = self.sources.get_mut(place) else { return false };
        bucket.fill(now, self.rate_per_source);
        if !bucket.has_token() || !(privileged || self.all.has_token()) {
            return false;
        }
        bucket.take();
        if !privileged {
            self.all.take();
        }
        true
    }

    fn place(&self, source: IpAddr) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.secret, source).hash(&mut hasher);
        hasher.finish() as usize % SOURCE_BUCKETS
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn source(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(n))
    }

    #[test]
    fn a_second_holds_exactly_the_rate() {
        let mut budget = Budget::new(1_000, 10, 7);
        for now in [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(100)] {
            let taken = (0..1_000).filter(|_| budget.take(now, source(1), false)).count();
            assert_eq!(taken, 10, "at {now:?}");
        }
    }

    #[test]
    fn many_sources_share_the_common_rate_and_the_privileged_do_not() {
        let mut budget = Budget::new(100, 10, 7);
        let now = Duration::from_secs(5);
        let taken = (0..10_000).filter(|n| budget.take(now, source(*n), false)).count();
        assert_eq!(taken, 100);
        let fresh = (0..).find(|n| budget.take(now, source(*n), true));
        assert!(fresh.is_some());
    }

    #[test]
    fn time_counts_that_passes_in_steps_of_less_than_a_microsecond() {
        let mut budget = Budget::new(100_000, 100_000, 7);
        let mut now = Duration::from_secs(5);
        while budget.take(now, source(1), false) {}
        let taken = (0..2_000).filter(|_| {
            now += Duration::from_nanos(500);
            budget.take(now, source(1), false)
        });
        assert_eq!(taken.count(), 100, "in a millisecond");
    }

    #[test]
    fn a_clock_that_stands_still_or_steps_back_gives_nothing() {
        let mut budget = Budget::new(1, 1, 7);
        assert!(budget.take(Duration::from_secs(9), source(1), false));
        assert!(!budget.take(Duration::from_secs(8), source(1), false));
        assert!(!budget.take(Duration::from_millis(9_999), source(1), false));
        assert!(budget.take(Duration::from_secs(10), source(1), false));
    }
}
