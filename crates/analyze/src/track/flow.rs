//! One direction between two queue pairs.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use uroce_wire::{Opcode, Psn, Qpn, Service};

use super::UnwrappedPsn;
use super::figures::Figures;
use super::flow_id::FlowId;
use super::message::{Message, Outcome};
use super::pairing::Claims;
use super::requests::Requests;
use crate::icrc_status::IcrcProof;
use crate::{Direction, Packet, Timestamp};

/// Times that answers may part a flow from its peer.
const MAX_PARTINGS: u8 = 16;

/// Answers on their way that are remembered.
const MAX_LEFT: usize = 512;
/// No answer is overtaken by one that left so much later.
const OVERTAKEN: Duration = Duration::from_millis(1);

/// An answer that was seen to leave.
#[derive(Debug, Clone, Copy)]
struct LeftAnswer {
    psn: Psn,
    opcode: Opcode,
    time: Timestamp,
}

impl LeftAnswer {
    const fn of(packet: &Packet) -> Self {
        Self { psn: packet.bth.psn, opcode: packet.bth.opcode, time: packet.time }
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.psn, self.opcode) == (other.psn, other.opcode)
    }
}

/// What tells one flow from another. The source queue pair is not part of it: packets of connected
/// services do not name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Queue pair of the receiver.
    pub destination_qpn: Qpn,
}

impl FlowKey {
    /// The key of the flow that `packet` belongs to.
    pub fn of(packet: &Packet) -> Self {
        Self {
            source: packet.source_ip(),
            destination: packet.destination_ip(),
            destination_qpn: packet.bth.dest_qpn,
        }
    }
}

/// Where a flow was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CapturePoint {
    /// At the sender of the flow.
    Sender,
    /// At the receiver.
    Receiver,
    /// Between them: packets were lost on both sides of it.
    Middle,
    /// At both ends: one capture of two interfaces.
    Both,
    /// Nothing tells.
    Unknown,
}

/// One direction between two queue pairs: all packets from one address to a queue pair at another.
#[derive(Debug)]
pub struct Flow {
    id: FlowId,
    key: FlowKey,
    service: Option<Service>,
    source_qpn: Option<Qpn>,
    pub(super) peer: Option<FlowId>,
    pub(super) figures: Figures,
    pub(super) requests: Requests,
    pub(super) claims: Claims,
    pub(super) is_undecided: bool,
    pub(super) msn: Option<(u32, u32)>,
    /// Its packets have shown that ICRCs are right.
    pub(super) has_right_icrc: bool,
    pub(super) icrc_proof: IcrcProof,
    slowest: Vec<Message>,
    max_slowest: usize,
    outbound: u64,
    inbound: u64,
    /// Answers that were taken in where they left, before any was seen to arrive.
    left: VecDeque<LeftAnswer>,
    conversation: Option<usize>,
    /// Times that it lost its peer.
    partings: u8,
}

impl Flow {
    pub(super) fn new(id: FlowId, key: FlowKey, max_slowest: usize) -> Self {
        Self {
            id,
            key,
            service: None,
            source_qpn: None,
            peer: None,
            figures: Figures::default(),
            requests: Requests::default(),
            claims: Claims::default(),
            is_undecided: false,
            msn: None,
            has_right_icrc: false,
            icrc_proof: IcrcProof::default(),
            slowest: Vec::new(),
            max_slowest,
            outbound: 0,
            inbound: 0,
            left: VecDeque::new(),
            conversation: None,
            partings: 0,
        }
    }

    /// Its number.
    pub const fn id(&self) -> FlowId {
        self.id
    }

    /// Addresses and destination queue pair.
    pub const fn key(&self) -> &FlowKey {
        &self.key
    }

    /// Transport service of its packets; `None` while only congestion notifications were seen.
    pub const fn service(&self) -> Option<Service> {
        self.service
    }

    /// Queue pair of the sender: named by datagrams, or known from the other flow.
    pub const fn source_qpn(&self) -> Option<Qpn> {
        self.source_qpn
    }

    /// The flow of the other direction, once it is known.
    pub const fn peer(&self) -> Option<FlowId> {
        self.peer
    }

    /// Some answers may belong to its requests, and which requests they belong to was not found out: known at the end
    /// of the capture.
    pub const fn is_undecided(&self) -> bool {
        self.is_undecided
    }

    /// What was counted.
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Finished messages of its requests that took longest, the slowest one first.
    pub fn slowest(&self) -> &[Message] {
        &self.slowest
    }

    /// Path MTU in bytes, if full packets or connection management told it.
    pub const fn path_mtu(&self) -> Option<u32> {
        self.requests.mtu
    }

    /// MSNs of the first and the last acknowledgement in this flow.
    pub const fn msn_range(&self) -> Option<(u32, u32)> {
        self.msn
    }

    /// Where it was captured: from what the capture says of directions, else from where losses were.
    pub fn capture_point(&self) -> CapturePoint {
        let (before, behind) = (self.figures.lost_before, self.figures.lost_behind);
        match (self.outbound > 0, self.inbound > 0) {
            (true, true) => CapturePoint::Both,
            (true, false) => CapturePoint::Sender,
            (false, true) => CapturePoint::Receiver,
            (false, false) => match (before > 0, behind > 0) {
                (true, true) => CapturePoint::Middle,
                (true, false) => CapturePoint::Receiver,
                (false, true) => CapturePoint::Sender,
                (false, false) => CapturePoint::Unknown,
            },
        }
    }

    /// Some of its answers were taken for those of another queue pair: what they seemed to show is not certain.
    pub fn is_mispaired(&self) -> bool {
        self.claims.mistaken().is_some_and(|mistaken| self.peer != Some(mistaken))
    }

    /// Index of its conversation, or of the one before.
    pub(crate) const fn conversation(&self) -> Option<usize> {
        self.conversation
    }

    /// `peer` is the other direction; it goes to `qpn`.
    pub(super) fn set_peer(&mut self, peer: FlowId, conversation: usize, qpn: Option<Qpn>) {
        self.peer = Some(peer);
        self.conversation = Some(conversation);
        self.source_qpn = qpn.or(self.source_qpn);
    }

    /// The queue pair of its sender has another connection.
    pub(super) fn forget_peer(&mut self) {
        self.peer = None;
        self.partings = self.partings.saturating_add(1);
    }

    /// It may find another peer. A queue pair that has had very many of them keeps the last one, so that there are
    /// not ever more conversations.
    pub(super) fn may_part(&self) -> bool {
        self.partings < MAX_PARTINGS
    }

    pub(super) fn set_source_qpn(&mut self, qpn: Qpn) {
        self.source_qpn = Some(qpn);
    }

    /// Takes the service from the first packet that has one.
    pub(super) fn note_service(&mut self, service: Service) {
        if self.service.is_none() && service != Service::Cnp {
            self.service = Some(service);
            self.requests.is_reliable = matches!(service, Service::Rc | Service::Xrc);
        }
    }

    pub(super) fn note_direction(&mut self, direction: Option<Direction>) {
        self.outbound += u64::from(direction == Some(Direction::Outbound));
        self.inbound += u64::from(direction == Some(Direction::Inbound));
    }

    /// Packets of it are seen where they leave and where they arrive.
    pub(super) fn is_seen_twice(&self) -> bool {
        self.outbound > 0 && self.inbound > 0
    }

    /// Remembers an answer that is taken in where it leaves; never a second sighting.
    pub(super) fn note_answer_that_left(&mut self, packet: &Packet) -> bool {
        if self.left.len() < MAX_LEFT {
            self.left.push_back(LeftAnswer::of(packet));
        }
        false
    }

    /// An answer that arrives was taken in when it left. The same one before it, and those that left long before, were
    /// lost on the way.
    pub(super) fn is_second_answer(&mut self, packet: &Packet) -> bool {
        let arrived = LeftAnswer::of(packet);
        let Some(it) = self.left.iter().rfind(|left| left.is_same(&arrived)).copied() else {
            return false;
        };
        self.left.retain(|left| !left.is_same(&it) && it.time.since(left.time) < OVERTAKEN);
        true
    }

    pub(super) fn note_msn(&mut self, msn: u32) {
        self.msn = Some((self.msn.map_or(msn, |(first, _)| first), msn));
    }

    /// A datagram: a message that is over with its only packet.
    pub(super) fn take_datagram(&mut self, packet: &Packet) -> Message {
        let psn = match self.requests.is_started() {
            true => self.requests.next.nearest(packet.bth.psn),
            false => UnwrappedPsn::first(packet.bth.psn),
        };
        self.requests.start(psn);
        self.figures.requests += 1;
        self.figures.goodput_bytes += u64::from(packet.payload_len);
        let message = self.requests.messages.datagram(self.id, packet, psn);
        self.note_message(&message);
        message
    }

    /// The capture has ended at `end`.
    pub(super) fn finish(&mut self, end: Timestamp) {
        let Self { requests, figures, .. } = self;
        if let Some((from, to, moved)) = requests.causes.end_round() {
            figures.move_repeated(from, to, moved);
        }
        requests.close_holes(None, figures);
        requests.note_unanswered(end);
        figures.lost_by_capture += requests.unanswered.missing();
        requests.flush(end, Outcome::Unknown);
    }

    /// Summarises a finished message.
    pub(super) fn note_message(&mut self, message: &Message) {
        self.figures.note_message(message);
        let is_timed = matches!(message.outcome, Outcome::Completed);
        let is_slow = self.slowest.last().is_none_or(|last| message.duration > last.duration);
        if !is_timed
            || self.max_slowest == 0
            || (self.slowest.len() == self.max_slowest && !is_slow)
        {
            return;
        }
        let place = self.slowest.partition_point(|other| other.duration >= message.duration);
        self.slowest.truncate(self.max_slowest - 1);
        self.slowest.insert(place.min(self.slowest.len()), *message);
    }
}
