//! LAP and APR: loading of an alternate path. RoCE has none; they are read so that they can be
//! refused in form.

use uroce_wire::{Gid, Qpn};
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use super::path::Path;
use crate::{CommId, PrivateData};

/// Load alternate path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lap {
    /// The sender's name for the connection.
    pub local_comm_id: CommId,
    /// The receiver's name for it.
    pub remote_comm_id: CommId,
    /// The receiver's queue pair.
    pub remote_qpn: Qpn,
    /// Within this time (code, 5 bits) the sender expects an answer.
    pub remote_response_timeout: u8,
    /// The path to load.
    pub alternate: Path,
    /// The application's.
    pub private_data: PrivateData<168>,
}

/// Alternate path response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Apr {
    /// The sender's name for the connection.
    pub local_comm_id: CommId,
    /// The receiver's name for it.
    pub remote_comm_id: CommId,
    /// Bytes of [`info`](Apr::info) that mean something.
    pub info_len: u8,
    /// 0: loaded; [`Apr::UNSUPPORTED`].
    pub status: u8,
    /// Additional information; its form depends on the status.
    pub info: [u8; 72],
    /// The application's.
    pub private_data: PrivateData<148>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLap {
    local_comm_id: U32,
    remote_comm_id: U32,
    reserved: U32,
    /// QPN 24, response timeout 5, reserved 3.
    qpn_timeout: U32,
    reserved2: U32,
    local_lid: U16,
    remote_lid: U16,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    /// Flow label 20, reserved 4, traffic class 8.
    flow_class: U32,
    hop_limit: u8,
    /// Reserved 2, rate 6.
    packet_rate: u8,
    /// SL 4, subnet local 1, reserved 3.
    sl_local: u8,
    /// ACK timeout 5, reserved 3.
    ack_timeout: u8,
    private_data: [u8; 168],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawApr {
    local_comm_id: U32,
    remote_comm_id: U32,
    info_len: u8,
    status: u8,
    reserved: U16,
    info: [u8; 72],
    private_data: [u8; 148],
}

impl RawLap {
    fn path(&self) -> Path {
        Path {
            local_lid: self.local_lid.get(),
            remote_lid: self.remote_lid.get(),
            local_gid: Gid::new(self.local_gid),
            remote_gid: Gid::new(self.remote_gid),
            flow_label: self.flow_class.get() >> 12,
            packet_rate: self.packet_rate & 0x3f,
            traffic_class: self.flow_class.get() as u8,
            hop_limit: self.hop_limit,
            service_level: self.sl_local >> 4,
            subnet_local: self.sl_local & 0x08 != 0,
            ack_timeout: self.ack_timeout >> 3,
        }
    }
}

impl Lap {
    pub(super) fn read(body: &Body) -> Lap {
        let raw: &RawLap = transmute_ref!(body);
        Lap {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            remote_qpn: Qpn::new(raw.qpn_timeout.get() >> 8),
            remote_response_timeout: raw.qpn_timeout.get() as u8 >> 3,
            alternate: raw.path(),
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        let path = &self.alternate;
        let timeout = u32::from(self.remote_response_timeout & 0x1f) << 3;
        transmute!(RawLap {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            reserved: 0.into(),
            qpn_timeout: (self.remote_qpn.get() << 8 | timeout).into(),
            reserved2: 0.into(),
            local_lid: path.local_lid.into(),
            remote_lid: path.remote_lid.into(),
            local_gid: *path.local_gid.bytes(),
            remote_gid: *path.remote_gid.bytes(),
            flow_class: (path.flow_label << 12 | u32::from(path.traffic_class)).into(),
            hop_limit: path.hop_limit,
            packet_rate: path.packet_rate & 0x3f,
            sl_local: path.service_level << 4 | u8::from(path.subnet_local) << 3,
            ack_timeout: path.ack_timeout << 3,
            private_data: *self.private_data.bytes(),
        })
    }
}

impl Apr {
    /// Alternate paths are not supported.
    pub const UNSUPPORTED: u8 = 2;

    pub(super) fn read(body: &Body) -> Apr {
        let raw: &RawApr = transmute_ref!(body);
        Apr {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            info_len: raw.info_len,
            status: raw.status,
            info: raw.info,
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawApr {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            info_len: self.info_len,
            status: self.status,
            reserved: 0.into(),
            info: self.info,
            private_data: *self.private_data.bytes(),
        })
    }
}
