//! What a responder sends, as far as it is compared.

use std::hash::{DefaultHasher, Hash, Hasher};

use uroce_wire::{Aeth, NakCode, Opcode, OpcodeInfo, Operation, Packet, Psn, SyndromeKind};

/// One packet of a responder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Place in the recording: its own, or that of the request that it came after.
    pub position: u64,
    /// Frame with this place.
    pub frame: u64,
    /// Nanoseconds since the first packet of the recording.
    pub time: u64,
    /// What the opcode table says.
    pub info: &'static OpcodeInfo,
    /// PSN.
    pub psn: Psn,
    /// PSN, counted on over 2^24 from the first one of the recording.
    pub place: i64,
    /// Syndrome and MSN; a READ response in the middle has none.
    pub aeth: Option<Aeth>,
    /// Bytes of payload.
    pub length: u32,
    /// Value before an atomic operation.
    pub original: Option<u64>,
    /// What stands for the bytes of the payload; `None` if they were not captured whole.
    pub digest: Option<u64>,
    /// Its ICRC is wrong: the requester dropped it, and nothing in it is believed.
    pub(crate) is_damaged: bool,
    /// Payload of a recorded response: what was in memory then.
    pub(crate) data: Box<[u8]>,
}

/// What answers are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    Acknowledge,
    ReadResponse,
    AtomicAcknowledge,
    CongestionNotification,
}

impl Answer {
    /// Its opcode.
    pub fn opcode(&self) -> Opcode {
        self.info.opcode
    }

    pub(crate) fn class(&self) -> Class {
        match self.info.operation {
            Operation::ReadResponse => Class::ReadResponse,
            Operation::AtomicAcknowledge => Class::AtomicAcknowledge,
            Operation::Cnp => Class::CongestionNotification,
            _ => Class::Acknowledge,
        }
    }

    pub(crate) fn is_congestion_notification(&self) -> bool {
        self.class() == Class::CongestionNotification
    }

    pub(crate) fn syndrome(&self) -> Option<SyndromeKind> {
        self.aeth.map(|aeth| aeth.syndrome.kind())
    }

    /// An ACK that carries nothing but the acknowledgement.
    pub(crate) fn is_plain_ack(&self) -> bool {
        self.class() == Class::Acknowledge
            && matches!(self.syndrome(), Some(SyndromeKind::Ack { .. }))
    }

    /// It says that the request with its PSN is missing.
    pub(crate) fn is_sequence_nak(&self) -> bool {
        self.syndrome() == Some(SyndromeKind::Nak(NakCode::PsnSequence))
    }

    /// The last PSN that it acknowledges.
    pub(crate) fn acknowledges(&self) -> Option<i64> {
        match (self.class(), self.syndrome()) {
            (Class::CongestionNotification, _) => None,
            (Class::Acknowledge, Some(SyndromeKind::Ack { .. })) => Some(self.place),
            _ => Some(self.place - 1),
        }
    }

    /// A packet that the queue pair of now has sent; nothing tells yet which request it is about.
    pub(crate) fn of(packet: &Packet<'_>) -> Self {
        Self {
            position: 0,
            frame: 0,
            time: 0,
            place: 0,
            info: packet.info,
            psn: packet.bth.psn,
            aeth: packet.aeth(),
            length: packet.payload().len() as u32,
            original: packet.atomic_ack_eth().map(|eth| eth.original),
            digest: Some(digest(packet.payload())),
            is_damaged: false,
            data: Box::default(),
        }
    }
}

/// A number that stands for `bytes`; the same in every run.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The number of `psn` that is nearest to `near`, counted on over 2^24.
pub(crate) fn unwrapped(near: i64, psn: Psn) -> i64 {
    near + i64::from(psn.since(Psn::new(near as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_psn_goes_on_over_the_wrap_both_ways() {
        assert_eq!(unwrapped(0xff_fffe, Psn::new(1)), 0x100_0001);
        assert_eq!(unwrapped(2, Psn::new(0xff_ffff)), -1);
        assert_eq!(Psn::new(-1_i64 as u32), Psn::new(0xff_ffff));
    }

    #[test]
    fn a_digest_tells_bytes_apart_and_is_the_same_again() {
        assert_eq!(digest(b"same"), digest(b"same"));
        assert_ne!(digest(b"same"), digest(b"sane"));
    }
}
