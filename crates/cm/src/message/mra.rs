//! MRA: have patience.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use super::rej::RejectedMessage;
use crate::{CommId, PrivateData};

/// Message receipt acknowledgement: the message came, the answer takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mra {
    /// The sender's name for the connection.
    pub local_comm_id: CommId,
    /// The receiver's name for it.
    pub remote_comm_id: CommId,
    /// Which message came.
    pub message: RejectedMessage,
    /// How long the answer may take (code, 5 bits).
    pub service_timeout: u8,
    /// The application's.
    pub private_data: PrivateData<222>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMra {
    local_comm_id: U32,
    remote_comm_id: U32,
    /// Message 2, reserved 6.
    message: u8,
    /// Service timeout 5, reserved 3.
    service_timeout: u8,
    private_data: [u8; 222],
}

impl Mra {
    pub(super) fn read(body: &Body) -> Mra {
        let raw: &RawMra = transmute_ref!(body);
        Mra {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            message: RejectedMessage(raw.message >> 6),
            service_timeout: raw.service_timeout >> 3,
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawMra {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            message: self.message.0 << 6,
            service_timeout: self.service_timeout << 3,
            private_data: *self.private_data.bytes(),
        })
    }
}
