//! RTU: the connection is ready to use.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use crate::{CommId, PrivateData};

/// Ready to use: the caller has the REP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtu {
    /// The sender's name for the connection.
    pub local_comm_id: CommId,
    /// The receiver's name for it.
    pub remote_comm_id: CommId,
    /// The application's.
    pub private_data: PrivateData<224>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRtu {
    local_comm_id: U32,
    remote_comm_id: U32,
    private_data: [u8; 224],
}

impl Rtu {
    pub(super) fn read(body: &Body) -> Rtu {
        let raw: &RawRtu = transmute_ref!(body);
        Rtu {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawRtu {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            private_data: *self.private_data.bytes(),
        })
    }
}
