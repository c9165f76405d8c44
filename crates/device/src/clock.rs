//! The one place that reads the time: transport and timers are handed an [`Instant`].

use uroce_transport::Instant;

/// Monotonic time since the device was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Clock { start: std::time::Instant::now() }
    }

    /// Nanoseconds since the device was opened; 64 bits last for centuries (A32).
    pub(crate) fn now(&self) -> Instant {
        let ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_nanos(ns)
    }
}
