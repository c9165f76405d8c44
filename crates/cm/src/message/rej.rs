//! REJ: the answer that refuses.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use crate::{CommId, PrivateData, RejReason};

/// The message that a REJ or an MRA is about, 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RejectedMessage(pub u8);

impl RejectedMessage {
    /// A REQ.
    pub const REQ: RejectedMessage = RejectedMessage(0);
    /// A REP.
    pub const REP: RejectedMessage = RejectedMessage(1);
    /// Another one, or none at all.
    pub const OTHER: RejectedMessage = RejectedMessage(2);

    /// A REQ or a REP.
    pub(crate) fn is_of_handshake(self) -> bool {
        self == Self::REQ || self == Self::REP
    }
}

/// Refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rej {
    /// The sender's name for the connection, if it has given it one.
    pub local_comm_id: CommId,
    /// The receiver's name for it, if the sender knows it.
    pub remote_comm_id: CommId,
    /// What is refused.
    pub message: RejectedMessage,
    /// Bytes of [`info`](Rej::info) that mean something, 7 bits.
    pub info_len: u8,
    /// Why.
    pub reason: RejReason,
    /// Additional information; its form depends on the reason.
    pub info: [u8; 72],
    /// The application's.
    pub private_data: PrivateData<148>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRej {
    local_comm_id: U32,
    remote_comm_id: U32,
    /// Message 2, reserved 6.
    message: u8,
    /// Length 7, reserved 1.
    info_len: u8,
    reason: U16,
    info: [u8; 72],
    private_data: [u8; 148],
}

impl Rej {
    pub(super) fn read(body: &Body) -> Rej {
        let raw: &RawRej = transmute_ref!(body);
        Rej {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            message: RejectedMessage(raw.message >> 6),
            info_len: raw.info_len >> 1,
            reason: RejReason(raw.reason.get()),
            info: raw.info,
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawRej {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            message: self.message.0 << 6,
            info_len: self.info_len << 1,
            reason: self.reason.0.into(),
            info: self.info,
            private_data: *self.private_data.bytes(),
        })
    }

    /// Additional information: the largest path MTU (code) that the sender takes.
    pub(crate) fn with_largest_mtu(mut self, code: u8) -> Rej {
        (self.info_len, self.info[0]) = (1, code << 4);
        self
    }

    /// The largest path MTU (code 1 to 5) that comes with the reason "invalid path MTU". The code stands
    /// where a REQ has it, in the upper half of its byte; the lower one is taken, too.
    pub fn largest_mtu(&self) -> Option<u8> {
        let [first, ..] = self.info;
        let code = if first >> 4 != 0 { first >> 4 } else { first };
        let told = self.reason == RejReason::INVALID_MTU && self.info_len > 0;
        (told && (1..=5).contains(&code)).then_some(code)
    }

    /// The node GUID that comes with the reason "timeout".
    pub fn guid(&self) -> Option<u64> {
        let (guid, _) = self.info.split_first_chunk()?;
        (usize::from(self.info_len) >= guid.len()).then(|| u64::from_be_bytes(*guid))
    }
}
