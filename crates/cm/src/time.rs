//! Time as an argument.

/// A point in time: what has passed since an origin that the caller chose. Nothing here reads a
/// clock.
pub type Time = std::time::Duration;
