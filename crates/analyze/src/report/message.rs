//! Messages as rows.

use serde::Serialize;

use super::EndRow;
use super::finding::ladder_command;
use crate::track::{Flow, Message, Outcome};

/// A message that took long.
#[derive(Debug, Clone, Serialize)]
pub struct MessageRow {
    /// What it does.
    pub verb: &'static str,
    /// Sender of its requests.
    pub source: EndRow,
    /// Receiver.
    pub destination: EndRow,
    /// Payload bytes.
    pub bytes: u64,
    /// Nanoseconds from its first request to the answer that completed it.
    pub duration_ns: u64,
    /// First PSN, 24 bits.
    pub first_psn: u32,
    /// Last PSN, 24 bits.
    pub last_psn: u32,
    /// Frame of its first request.
    pub first_frame: u64,
    /// Frame of the answer that completed it.
    pub completed_frame: u64,
    /// Requests of it that were sent again.
    pub retransmitted: u32,
    /// How it ended.
    pub outcome: String,
    /// Command that draws it.
    pub look: String,
}

impl MessageRow {
    /// The row of a message of `flow` in the capture called `name`.
    pub(super) fn new(message: &Message, flow: &Flow, name: &str) -> Self {
        let key = flow.key();
        let qpn = key.destination_qpn.get();
        let (first, last) = (message.first_frame, message.completed_frame.max(message.last_frame));
        Self {
            verb: message.verb.name(),
            source: EndRow::new(key.source, flow.source_qpn()),
            destination: EndRow::new(key.destination, Some(key.destination_qpn)),
            bytes: message.bytes,
            duration_ns: u64::try_from(message.duration.as_nanos()).unwrap_or(u64::MAX),
            first_psn: message.first_psn.on_wire().get(),
            last_psn: message.last_psn.on_wire().get(),
            first_frame: message.first_frame,
            completed_frame: message.completed_frame,
            retransmitted: message.retransmitted,
            outcome: outcome(message.outcome),
            look: ladder_command(name, qpn, first, last),
        }
    }
}

fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed => "completed".to_owned(),
        Outcome::Sent => "sent".to_owned(),
        Outcome::Refused(code) => format!("refused: {}", code.name()),
        Outcome::Flushed => "flushed".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
    }
}
