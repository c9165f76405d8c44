//! What a tracker has seen as a whole.

use crate::Timestamp;

/// What a tracker has seen, and what its limits made it leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Packets that it was given.
    pub packets: u64,
    /// Of them, those of flows that found no place in the table.
    pub untracked_packets: u64,
    /// Damaged packets: they have a wrong ICRC where others have a right one.
    pub damaged_packets: u64,
    /// Finished messages that were not taken in time. They are part of all figures.
    pub missed_messages: u64,
    /// Messages that were closed because too many were under way.
    pub crowded_messages: u64,
    /// Exchanges of connection management that found no place.
    pub missed_exchanges: u64,
    /// When the last packet was seen.
    pub last_time: Option<Timestamp>,
}
