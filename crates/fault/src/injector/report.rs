//! What rules have done so far.

use serde::Serialize;

/// Why a rule that took a packet could not do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Refusal {
    /// An answer needs the queue pair number of the sender, which no packet has shown yet.
    #[error("peer QPN unknown")]
    PeerUnknown,
    /// Only requests of RC and XRC are acknowledged.
    #[error("no request of RC or XRC")]
    NotARequest,
    /// The packet does not have the header of the field.
    #[error("the packet has no such field")]
    NoSuchField,
    /// The packet does not have the byte that should change.
    #[error("the packet has no such byte")]
    NoSuchByte,
    /// The packet is not longer than it should become.
    #[error("the packet is not longer than that")]
    NotLonger,
    /// As many pairs of addresses are silent as may be at a time.
    #[error("too many pairs of addresses are muted")]
    TooManyMuted,
}

/// What one rule has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RuleReport<'a> {
    /// Its name; its number from 1 if it has none.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Packets that it is about, among those that no rule before it took.
    pub matched: u64,
    /// Packets to which it did something.
    pub applied: u64,
    /// Packets that it took, but could do nothing to.
    pub not_applied: u64,
    /// Why, the last time.
    pub reason: Option<Refusal>,
}

/// Packets of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets that came.
    pub seen: u64,
    /// Of these, untouched ones.
    pub passed: u64,
    /// Of these, dropped ones.
    pub dropped: u64,
    /// Of the dropped, those for which there was no room.
    pub no_room: u64,
    /// Packets that were released after a delay or a change.
    pub released: u64,
    /// Copies and answers that were released.
    pub added: u64,
    /// Copies and answers for which there was no room.
    pub added_lost: u64,
    /// Queue pairs that were forgotten to make room for others.
    pub flows_forgotten: u64,
    /// Events that were not fetched in time.
    pub events_lost: u64,
}
