//! The one place that reads the time: transport and timers are handed an [`Instant`].

use rustix::time::{ClockId, clock_gettime};
use uroce_transport::Instant;

/// Monotonic time since the device was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: std::time::Instant,
    /// The same moment on CLOCK_MONOTONIC, in nanoseconds.
    origin: u64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let whole = u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000;
        let origin = whole + u64::try_from(now.tv_nsec).unwrap_or(0);
        Clock { start: std::time::Instant::now(), origin }
    }

    /// Nanoseconds since the device was opened; 64 bits last for centuries (A32).
    pub(crate) fn now(&self) -> Instant {
        let ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(ns)
    }

    /// A time of this clock on CLOCK_MONOTONIC, in nanoseconds.
    pub(crate) fn monotonic_ns(&self, at: u64) -> u64 {
        self.origin.saturating_add(at)
    }
}
