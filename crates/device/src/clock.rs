//! The one place that reads the time: transport and timers are handed an [`Instant`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use uroce_transport::Instant;

/// Time since the device was opened.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// When that was on CLOCK_MONOTONIC, in nanoseconds.
    origin: u64,
    /// Shows the time in place of CLOCK_MONOTONIC.
    stands_in: Option<VirtualClock>,
}

/// A clock that moves only when it is told to, for tests
/// ([`DeviceConfig::clock`](crate::DeviceConfig::clock)). A clone is the same clock.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// A clock at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(ns, Ordering::SeqCst);
    }

    /// The time that it shows.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

impl Clock {
    /// A clock that is at 0 now, or the one that `stands_in` for it.
    pub(crate) fn new(stands_in: Option<VirtualClock>) -> Self {
        Clock { origin: monotonic(), stands_in }
    }

    /// True if it moves only when it is told to: then no thread waits for another one.
    pub(crate) fn is_virtual(&self) -> bool {
        self.stands_in.is_some()
    }

    /// Nanoseconds since the device was opened; 64 bits last for centuries (A32).
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.stands_in {
            None => Instant::from_nanos(monotonic().saturating_sub(self.origin)),
            Some(clock) => Instant::from_nanos(clock.0.load(Ordering::SeqCst)),
        }
    }

    /// A time of CLOCK_MONOTONIC, in nanoseconds, on this clock. What lies before its start is 0.
    pub(crate) fn of_monotonic(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.origin)
    }

    /// A time of this clock on CLOCK_MONOTONIC, in nanoseconds.
    pub(crate) fn monotonic_ns(&self, at: u64) -> u64 {
        self.origin.saturating_add(at)
    }
}

/// CLOCK_MONOTONIC in nanoseconds. std's clock makes two numbers of it, and one again of the difference.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, ns] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_clock_moves_only_when_it_is_told_to() {
        let time = VirtualClock::new();
        let clock = Clock::new(Some(time.clone()));
        assert_eq!(clock.now(), Instant::ZERO);
        time.advance(Duration::from_micros(3));
        assert_eq!(clock.now(), Instant::from_nanos(3_000));
        assert_eq!(time.now(), Duration::from_micros(3));
    }

    #[test]
    fn times_of_the_system_are_found_again() {
        let clock = Clock::new(None);
        assert_eq!(clock.of_monotonic(clock.monotonic_ns(77)), 77);
        assert_eq!(clock.of_monotonic(0), 0, "before the device was opened");
    }
}
