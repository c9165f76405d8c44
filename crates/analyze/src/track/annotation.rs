//! What the tracker says about one packet at the moment it is seen.

use std::time::Duration;

use uroce_wire::NakCode;

use super::flow_id::FlowId;
use super::message::MessageId;
use super::psn::UnwrappedPsn;
use super::retransmission_cause::RetransmissionCause;

/// Knowledge about one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// The flow that the packet belongs to; [`FlowId::UNTRACKED`] if the table was full.
    pub flow: FlowId,
    /// The flow of the other direction, once it is known.
    pub peer: Option<FlowId>,
    /// PSN, in the numbering of the requests that it belongs to: of this flow for a request, of the
    /// peer for a response. A response without a known peer has its PSN as if it were the first.
    pub psn: UnwrappedPsn,
    /// What the packet is.
    pub role: Role,
    /// The same packet was seen at another interface of the capture before, or will be: all else in
    /// this annotation is empty, and no figure counts it.
    pub is_second_sighting: bool,
    /// Its ICRC is wrong where others are right: nothing in it is believed, all else in this annotation
    /// is empty, and only the count of damaged packets knows it. Its flow is [`FlowId::UNTRACKED`] if
    /// it names one that was not seen before.
    pub is_damaged: bool,
    /// The message that it belongs to. Of an acknowledgement: the newest one that it acknowledges
    /// the end of.
    pub message: Option<MessageId>,
    /// It was sent before, and why it is sent again.
    pub retransmission: Option<Retransmission>,
    /// The network made two of one packet, or an answer says the same again.
    pub is_duplicate: bool,
    /// It comes late: packets behind it came first, and no answer asked for it again.
    pub is_reordered: bool,
    /// PSNs before it that were not seen and should have been.
    pub gap_before: Option<Gap>,
    /// Of a sequence NAK that asks for something new: the request that the responder misses.
    pub missing: Option<Missing>,
    /// It answers nothing that is under way.
    pub is_unsolicited: bool,
    /// What an acknowledgement, a NAK or a response settles.
    pub acknowledges: Option<Acknowledged>,
    /// Messages that are complete with this request: the answer to them was captured before it.
    pub completed: u32,
    /// Time from the request to this answer, where no repetition makes it ambiguous (Karn).
    pub round_trip: Option<Duration>,
    /// What is under way of the requests that it belongs to, after it.
    pub outstanding: Outstanding,
    /// The wait that an RNR NAK asks for, or that a repeated request has kept.
    pub rnr_wait: Option<RnrWait>,
    /// The network marked it "congestion experienced".
    pub is_congestion_experienced: bool,
}

/// What a packet is to its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A request of RC, XRC or UC.
    Request,
    /// A READ response, or the response to an atomic, an ATOMIC WRITE or a FLUSH.
    Response,
    /// An acknowledgement.
    Acknowledgement,
    /// A negative acknowledgement.
    Nak(NakCode),
    /// A NAK with a code that is not defined.
    ReservedNak(u8),
    /// The responder had no receive posted.
    RnrNak,
    /// A datagram of UD.
    Datagram,
    /// A management datagram, to or from QP1.
    Management,
    /// A congestion notification packet.
    CongestionNotification,
    /// An opcode that is not defined, or one without the header that it must have.
    Unknown,
}

/// A request that was sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retransmission {
    /// Why it is sent again.
    pub cause: RetransmissionCause,
    /// Frame of its first transmission; `None` if that was not captured.
    pub first_seen: Option<u64>,
    /// Time since the first transmission, if that was captured.
    pub after: Option<Duration>,
}

/// PSNs that were not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first of them.
    pub first: UnwrappedPsn,
    /// How many.
    pub packets: u64,
}

/// The request that a sequence NAK asks for, as far as the capture has it. Of several copies it misses the newest
/// one: those before it did not arrive either, or the responder did not keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The copy in this frame, which is the newest one, was lost behind the capture point.
    Copy {
        /// Number of the frame.
        frame: u64,
    },
    /// The copy in this frame, which is the newest one, has a wrong ICRC: its receiver must drop it.
    Damaged {
        /// Number of the frame.
        frame: u64,
    },
    /// There are older copies. The newest round of repetition went over it without it: that copy was lost
    /// before the capture point.
    CopyNotCaptured,
    /// No copy of it was seen.
    NotCaptured,
}

/// What an answer settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acknowledged {
    /// PSNs that were not acknowledged before; 0 if it says nothing new.
    pub packets: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Messages that are complete with it.
    pub messages: u32,
}

/// What a requester has under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outstanding {
    /// PSNs that were sent or, by READs, reserved, and are not acknowledged.
    pub packets: u64,
    /// Payload of SENDs and WRITEs that is not acknowledged, and what READs still have to bring.
    pub bytes: u64,
    /// READs, atomics and other requests whose response is not complete.
    pub reads: u32,
}

/// A pause because no receive was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RnrWait {
    /// How long the responder asked for.
    pub promised: Duration,
    /// How long it was; only at the request that ends it.
    pub actual: Option<Duration>,
}

impl Annotation {
    /// Frame of the request that it asks for, if that is in the capture.
    pub const fn misses(&self) -> Option<u64> {
        match self.missing {
            Some(Missing::Copy { frame } | Missing::Damaged { frame }) => Some(frame),
            _ => None,
        }
    }

    /// An annotation that says no more than what the packet is.
    pub(super) fn new(flow: FlowId, psn: UnwrappedPsn, role: Role) -> Self {
        Self {
            flow,
            peer: None,
            psn,
            role,
            is_second_sighting: false,
            is_damaged: false,
            message: None,
            retransmission: None,
            is_duplicate: false,
            is_reordered: false,
            gap_before: None,
            missing: None,
            is_unsolicited: false,
            acknowledges: None,
            completed: 0,
            round_trip: None,
            outstanding: Outstanding::default(),
            rnr_wait: None,
            is_congestion_experienced: false,
        }
    }
}
