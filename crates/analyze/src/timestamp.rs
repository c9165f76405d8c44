//! Times of captured frames.

use std::time::Duration;

/// When a frame was captured: nanoseconds since the start of 1970 (UTC).
///
/// Captures may go backwards in time: several interfaces in one file, clocks that are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The time that is `nanoseconds` after the start of 1970.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the start of 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to this one; zero if `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds from `other` to this one, negative if this one is earlier.
    pub const fn difference(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_the_other_one_is_no_negative_duration() {
        let (first, second) = (Timestamp::from_nanos(5), Timestamp::from_nanos(7));
        assert_eq!(second.since(first), Duration::from_nanos(2));
        assert_eq!(first.since(second), Duration::ZERO);
        assert_eq!(first.difference(second), -2);
    }
}
