//! DREQ and DREP: the end of a connection.

use uroce_wire::Qpn;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use crate::{CommId, PrivateData};

/// Request for disconnection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dreq {
    /// The sender's name for the connection.
    pub local_comm_id: CommId,
    /// The receiver's name for it.
    pub remote_comm_id: CommId,
    /// The receiver's queue pair: proof that the connection is meant.
    pub remote_qpn: Qpn,
    /// The application's.
    pub private_data: PrivateData<220>,
}

/// Reply to a DREQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drep {
    /// The sender's name for the connection.
    pub local_comm_id: CommId,
    /// The receiver's name for it.
    pub remote_comm_id: CommId,
    /// The application's.
    pub private_data: PrivateData<224>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDreq {
    local_comm_id: U32,
    remote_comm_id: U32,
    /// QPN 24, reserved 8.
    remote_qpn: U32,
    private_data: [u8; 220],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDrep {
    local_comm_id: U32,
    remote_comm_id: U32,
    private_data: [u8; 224],
}

impl Dreq {
    pub(super) fn read(body: &Body) -> Dreq {
        let raw: &RawDreq = transmute_ref!(body);
        Dreq {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            remote_qpn: Qpn::new(raw.remote_qpn.get() >> 8),
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawDreq {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            remote_qpn: (self.remote_qpn.get() << 8).into(),
            private_data: *self.private_data.bytes(),
        })
    }
}

impl Drep {
    pub(super) fn read(body: &Body) -> Drep {
        let raw: &RawDrep = transmute_ref!(body);
        Drep {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawDrep {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            private_data: *self.private_data.bytes(),
        })
    }
}
