//! The packets of a conversation between two vertical lines, time running downwards.
//!
//! [`LadderBuilder`] takes packets in the order of the capture and makes a [`Ladder`]: rows, in the
//! order in which they are drawn. Two renderers draw the same rows: [`Ladder::to_text`] for a
//! terminal and [`Ladder::to_svg`] for a browser.

mod builder;
mod config;
mod fold;
mod label;
mod step;
mod svg;
mod text;

use std::net::IpAddr;
use std::time::Duration;

pub use builder::{LadderBuilder, Mark};
pub use config::{LadderConfig, PsnStyle};
use serde::{Serialize, Serializer};
pub use text::TextStyle;
use uroce_wire::{Opcode, Psn, Qpn};

/// Packets of one conversation as rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ladder {
    /// The two ends: left, right.
    pub ends: [End; 2],
    /// What is drawn, from top to bottom.
    pub rows: Vec<Row>,
    /// Packets of the conversation that did not fit into the limit.
    pub left_out: u64,
    /// Packets that were chosen but belong to another pair of queue pairs.
    pub elsewhere: u64,
}

/// One end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct End {
    /// Its address.
    pub address: IpAddr,
    /// Its queue pair; `None` if no packet tells.
    #[serde(serialize_with = "qpn_number")]
    pub qpn: Option<Qpn>,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// A packet.
    Arrow(Arrow),
    /// Packets like the one above.
    Fold(Fold),
    /// A time without packets.
    #[serde(rename = "pause_ns", serialize_with = "nanoseconds")]
    Pause(Duration),
}

/// A packet as an arrow from one line to the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Arrow {
    /// Number of its frame.
    pub frame: u64,
    /// Time since the first packet of the ladder.
    #[serde(rename = "time_ns", serialize_with = "nanoseconds")]
    pub time: Duration,
    /// It goes from the left end to the right one.
    pub to_right: bool,
    /// Its opcode.
    #[serde(serialize_with = "opcode_name")]
    pub opcode: Opcode,
    /// Its PSN.
    #[serde(serialize_with = "psn_number")]
    pub psn: Psn,
    /// What it is: operation, PSN, length.
    pub label: String,
    /// What it is for.
    pub kind: ArrowKind,
    /// It did not arrive, or not whole: the arrow ends in a cross.
    pub is_lost: bool,
    /// It carries what was sent before.
    pub is_retransmission: bool,
    /// What is remarkable about it, a short sentence each.
    pub notes: Vec<String>,
}

/// What a packet is for; renderers choose a colour by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrowKind {
    /// A request of a requester.
    Request,
    /// Data or a result that a responder sends.
    Response,
    /// A positive acknowledgement.
    Acknowledgement,
    /// A NAK or an RNR NAK.
    Refusal,
    /// A congestion notification.
    Congestion,
    /// A message to queue pair 1, or an opcode that is not known.
    Other,
}

/// Packets that differ from the arrow above in nothing but a PSN that counts up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fold {
    /// How many; at least 2.
    pub count: u64,
    /// They go from the left end to the right one.
    pub to_right: bool,
    /// What each of them is, without PSN.
    pub label: String,
    /// Number of the first one's frame, and of the last one's.
    pub frames: (u64, u64),
    /// PSNs as they are to be shown, first and last.
    pub psns: (String, String),
    /// Time of the last one since the first packet of the ladder.
    #[serde(rename = "time_ns", serialize_with = "nanoseconds")]
    pub time: Duration,
    /// What they are for.
    pub kind: ArrowKind,
    /// They carry what was sent before.
    pub is_retransmission: bool,
}

fn nanoseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn opcode_name<S: Serializer>(opcode: &Opcode, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(opcode)
}

fn psn_number<S: Serializer>(psn: &Psn, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(psn.get())
}

fn qpn_number<S: Serializer>(qpn: &Option<Qpn>, to: S) -> Result<S::Ok, S::Error> {
    qpn.map(Qpn::get).serialize(to)
}

#[cfg(test)]
mod tests;
