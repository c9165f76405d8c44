//! Messages: what one work request moves.

use std::time::Duration;

use uroce_wire::{Mtu, NakCode, OpcodeInfo, Operation};

use super::{FlowId, UnwrappedPsn};
use crate::Timestamp;

/// Name of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The flow of its requests.
    pub flow: FlowId,
    /// Number in its flow, in the order in which messages were first seen; the first is 0.
    pub number: u64,
}

/// What a message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// SEND, also with immediate data or invalidation.
    Send,
    /// RDMA WRITE, also with immediate data.
    Write,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// FLUSH.
    Flush,
}

impl Verb {
    /// All verbs, in the order of [`Verb::index`].
    pub const ALL: [Self; 7] = [
        Self::Send,
        Self::Write,
        Self::Read,
        Self::CompareSwap,
        Self::FetchAdd,
        Self::AtomicWrite,
        Self::Flush,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "SEND",
            Self::Write => "WRITE",
            Self::Read => "READ",
            Self::CompareSwap => "COMPARE SWAP",
            Self::FetchAdd => "FETCH ADD",
            Self::AtomicWrite => "ATOMIC WRITE",
            Self::Flush => "FLUSH",
        }
    }

    /// Its place in [`Verb::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The verb of a request; `None` for a response.
    pub(super) const fn of(info: &OpcodeInfo) -> Option<Self> {
        Some(match info.operation {
            Operation::Send => Self::Send,
            Operation::Write => Self::Write,
            Operation::ReadRequest => Self::Read,
            Operation::CompareSwap => Self::CompareSwap,
            Operation::FetchAdd => Self::FetchAdd,
            Operation::AtomicWrite => Self::AtomicWrite,
            Operation::Flush => Self::Flush,
            _ => return None,
        })
    }

    /// Its completion takes a response of its own; an acknowledgement is not enough (R68).
    pub const fn needs_response(self) -> bool {
        !matches!(self, Self::Send | Self::Write)
    }
}

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Acknowledged or answered.
    Completed,
    /// Sent on a service that acknowledges nothing, up to its last packet.
    Sent,
    /// Refused by a NAK.
    Refused(NakCode),
    /// Under way when a message before it was refused, or when its queue pair began anew.
    Flushed,
    /// The capture does not tell: it ended, or lacks the answer.
    Unknown,
}

/// A message that is no longer under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// What it does.
    pub verb: Verb,
    /// It has immediate data.
    pub has_immediate: bool,
    /// It invalidates a key of the responder.
    pub has_invalidate: bool,
    /// Payload bytes; of a READ those that it asks for.
    pub bytes: u64,
    /// Its first PSN.
    pub first_psn: UnwrappedPsn,
    /// Its last PSN; of a READ that of its last response.
    pub last_psn: UnwrappedPsn,
    /// Frame of its first request.
    pub first_frame: u64,
    /// Frame of its newest request that was not a repetition.
    pub last_frame: u64,
    /// Frame of the answer that completed it; 0 without one.
    pub completed_frame: u64,
    /// Requests of it that were seen, without repetitions.
    pub packets: u64,
    /// Responses of it that were seen, without repetitions.
    pub responses: u64,
    /// Requests of it that were sent again.
    pub retransmitted: u32,
    /// When its first request was seen.
    pub started: Timestamp,
    /// Time from its first request to the answer that completed it, or to the end of what was seen.
    pub duration: Duration,
    /// Packets of it are missing in the capture: bytes and packets count what was seen.
    pub is_incomplete: bool,
    /// How it ended.
    pub outcome: Outcome,
}

/// A message that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenMessage {
    pub(super) number: u64,
    pub(super) verb: Verb,
    pub(super) has_immediate: bool,
    pub(super) has_invalidate: bool,
    pub(super) bytes: u64,
    pub(super) first_psn: UnwrappedPsn,
    /// Unknown until its last packet is seen.
    pub(super) last_psn: Option<UnwrappedPsn>,
    /// Its first packet was not seen.
    pub(super) start_missing: bool,
    pub(super) first_frame: u64,
    pub(super) last_frame: u64,
    pub(super) packets: u64,
    pub(super) responses: u64,
    pub(super) retransmitted: u32,
    pub(super) started: Timestamp,
    pub(super) last_time: Timestamp,
    /// It is finished and was handed out, but an older one is still under way.
    pub(super) is_done: bool,
}

impl OpenMessage {
    /// PSNs that it has, as far as is known.
    pub(super) fn span(&self) -> u64 {
        self.last_psn.map_or(self.packets, |last| last.since(self.first_psn) + 1)
    }

    /// A READ of which a snap length cut the length off. One of no bytes has an end.
    pub(super) fn is_length_unknown(&self) -> bool {
        self.verb == Verb::Read && self.bytes == 0 && self.last_psn.is_none()
    }

    /// PSNs that it has at most.
    pub(super) fn largest_span(&self) -> u64 {
        match (self.last_psn, self.verb) {
            (Some(last), _) => last.since(self.first_psn) + 1,
            (None, Verb::Read) if !self.is_length_unknown() => {
                self.bytes.div_ceil(Mtu::M256.bytes() as u64).max(1)
            }
            (None, _) => u64::MAX,
        }
    }

    /// All packets between its first and its last one were seen.
    fn is_whole(&self) -> bool {
        let seen = if self.verb == Verb::Read { self.responses } else { self.packets };
        self.last_psn.is_some() && !self.start_missing && seen >= self.span()
    }

    /// The message as it is handed out.
    pub(super) fn close(
        &self,
        flow: FlowId,
        end: Timestamp,
        frame: u64,
        outcome: Outcome,
    ) -> Message {
        let duration = end.since(self.started);
        Message {
            id: MessageId { flow, number: self.number },
            verb: self.verb,
            has_immediate: self.has_immediate,
            has_invalidate: self.has_invalidate,
            bytes: self.bytes,
            first_psn: self.first_psn,
            last_psn: self.last_psn.unwrap_or(self.first_psn.plus(self.span().saturating_sub(1))),
            first_frame: self.first_frame,
            last_frame: self.last_frame,
            completed_frame: frame,
            packets: self.packets,
            responses: self.responses,
            retransmitted: self.retransmitted,
            started: self.started,
            duration,
            is_incomplete: !self.is_whole(),
            outcome,
        }
    }
}
