//! How much an injector may keep.

/// How much an injector may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets that wait; what comes beyond is dropped and counted.
    pub packets: usize,
    /// Bytes of packets that wait; what comes beyond is dropped and counted.
    pub bytes: usize,
    /// Queue pairs whose history is remembered; the one unused for longest is forgotten first.
    pub flows: usize,
    /// Pairs of addresses that `mute` silences at a time, each in one direction; the rule is not applied beyond.
    pub muted: usize,
    /// Events that were not fetched; the oldest is forgotten first, and counted.
    pub events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: 4096, bytes: 16 << 20, flows: 1024, muted: 1024, events: 1024 }
    }
}
