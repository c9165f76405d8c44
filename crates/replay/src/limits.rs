//! How much of a recording is taken in.

/// Limits of a replay. What a capture claims never allocates more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets of all conversations that are kept; those behind them are counted only.
    pub packets: usize,
    /// Bytes of these packets.
    pub bytes: usize,
    /// Bytes of memory that the requests of one conversation may name.
    pub memory: u64,
    /// Keys that they may name.
    pub keys: usize,
    /// Answers of the queue pair that are kept.
    pub answers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packets: 1 << 20, bytes: 256 << 20, memory: 256 << 20, keys: 4096, answers: 1 << 20 }
    }
}
