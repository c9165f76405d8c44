//! What a ladder shows.

use std::time::Duration;

/// How PSNs are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PsnStyle {
    /// As on the wire, hexadecimal.
    #[default]
    Absolute,
    /// Counted from the first one of each requester in the ladder.
    Relative,
}

/// What a ladder shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LadderConfig {
    /// How PSNs are shown.
    pub psns: PsnStyle,
    /// A time without packets that gets a row of its own.
    pub pause: Duration,
    /// Most packets that are drawn; the first ones are.
    pub most_packets: usize,
    /// Runs of equal packets become one row.
    pub folds: bool,
}

impl Default for LadderConfig {
    /// Absolute PSNs, pauses of 1 ms, at most 10,000 packets, folded.
    fn default() -> Self {
        Self {
            psns: PsnStyle::Absolute,
            pause: Duration::from_millis(1),
            most_packets: 10_000,
            folds: true,
        }
    }
}
