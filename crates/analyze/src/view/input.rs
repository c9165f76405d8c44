//! What a page is made from.

use std::time::Duration;

use serde::Serialize;

use crate::judge::Severity;
use crate::{LinkType, Packet};

/// One packet for the page.
#[derive(Debug, Clone, Copy)]
pub struct ViewRow<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// What the frame begins with.
    pub link_type: LinkType,
    /// The bytes of the frame that were captured.
    pub frame: &'a [u8],
    /// Where the network headers end in `frame`: offset of the first BTH.
    pub bth: usize,
    /// Bytes from the BTH to the ICRC.
    pub transport: &'a [u8],
    /// Comment of the capture on the frame; empty if there is none.
    pub comment: &'a str,
    /// What is known from the packets around it.
    pub facts: Facts<'a>,
}

/// What the packets around a packet tell about it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// Index of its flow: the packets of one sender to one queue pair. Packets of flows from 65,535
    /// on belong to no conversation of the page.
    pub flow: u32,
    /// Its PSN without wrap, in the numbering of the requester that it belongs to.
    pub psn: u64,
    /// A response, whose PSN counts the packets of the other side.
    pub is_response: bool,
    /// It was sent before.
    pub is_retransmission: bool,
    /// Why it was sent again; empty if it was not, or if that is not known.
    pub cause: &'a str,
    /// Number of the frame that it was first seen in.
    pub first_seen: Option<u64>,
    /// The same packet was seen at another interface of the capture before.
    pub is_second_sighting: bool,
    /// Its ICRC is wrong where others are right: nothing in it is believed.
    pub is_damaged: bool,
    /// It answers nothing that is under way.
    pub is_unsolicited: bool,
    /// The network delivered it twice.
    pub is_duplicate: bool,
    /// The network delivered it late.
    pub is_reordered: bool,
    /// PSNs in front of it were not seen.
    pub is_behind_gap: bool,
    /// Bytes of requests on the way after it.
    pub outstanding: Option<u64>,
    /// From the packet that asked for this answer to this answer.
    pub round_trip: Option<Duration>,
}

/// What a page tells beside its packets.
#[derive(Debug, Clone, Default)]
pub struct ViewSummary {
    /// What the page is called: the name of the capture file.
    pub title: String,
    /// Frames of the capture.
    pub frames: u64,
    /// What the reader of the page should know: that the capture is damaged, what a filter left out.
    pub notes: Vec<String>,
    /// The conversations.
    pub conversations: Vec<ViewConversation>,
    /// What is wrong, and with which packets.
    pub findings: Vec<ViewFinding>,
}

/// Two ends that talk to each other.
#[derive(Debug, Clone, Default)]
pub struct ViewConversation {
    /// Both ends.
    pub ends: [ViewEnd; 2],
    /// Transport service: RC, UC, UD, XRC.
    pub service: String,
    /// How the two directions were found to belong together.
    pub paired_by: String,
    /// Index of the flow that each end sends; as in [`Facts::flow`].
    pub flows: [Option<u32>; 2],
}

/// One end of a conversation.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ViewEnd {
    /// Its IP address or GID.
    pub address: String,
    /// Its queue pair number, if the capture tells.
    pub qpn: Option<u32>,
}

/// Something that is wrong in the capture.
#[derive(Debug, Clone)]
pub struct ViewFinding {
    /// Identifier of the rule.
    pub rule: String,
    /// The finding in a few words.
    pub title: String,
    /// What it means, and what to look at.
    pub meaning: String,
    /// How bad it is.
    pub severity: Severity,
    /// What happened here.
    pub text: String,
    /// Numbers of the frames that show it.
    pub frames: Vec<u64>,
}
