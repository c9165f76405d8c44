//! The one place that reads the time: transport and timers are handed an [`Instant`].

use rustix::time::{ClockId, clock_gettime};
use uroce_transport::Instant;

/// Monotonic time since the device was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// When that was on CLOCK_MONOTONIC, in nanoseconds.
    origin: u64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Clock { origin: monotonic() }
    }

    /// Nanoseconds since the device was opened; 64 bits last for centuries (A32).
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(monotonic().saturating_sub(self.origin))
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
