//! Time as an argument: nanoseconds since an origin that the caller chose.

/// A point in time, in nanoseconds since the caller's origin. The transport never reads a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The caller's origin.
    pub const ZERO: Instant = Instant(0);

    /// The point `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Instant(ns)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point plus `ns` nanoseconds; saturates instead of wrapping (A32).
    #[must_use]
    pub const fn add_ns(self, ns: u64) -> Self {
        Instant(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this point; 0 if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
