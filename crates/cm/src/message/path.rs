//! The path in a REQ.

use uroce_wire::Gid;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A path as REQ and LAP describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Path {
    /// Sender's LID; 0xffff on RoCE.
    pub local_lid: u16,
    /// Receiver's LID; 0xffff on RoCE.
    pub remote_lid: u16,
    /// Sender's address.
    pub local_gid: Gid,
    /// Receiver's address.
    pub remote_gid: Gid,
    /// 20 bits; they become the UDP source port of the connection.
    pub flow_label: u32,
    /// 6 bits; 0 stands for the port's rate.
    pub packet_rate: u8,
    /// ToS.
    pub traffic_class: u8,
    /// TTL.
    pub hop_limit: u8,
    /// 4 bits.
    pub service_level: u8,
    /// No router between.
    pub subnet_local: bool,
    /// ACK timeout code, 5 bits.
    pub ack_timeout: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawPath {
    local_lid: U16,
    remote_lid: U16,
    local_gid: [u8; 16],
    remote_gid: [u8; 16],
    /// Flow label 20, reserved 6, packet rate 6.
    flow_rate: U32,
    traffic_class: u8,
    hop_limit: u8,
    /// SL 4, subnet local 1, reserved 3.
    sl_local: u8,
    /// ACK timeout 5, reserved 3 (the first, in an alternate path, belongs to the REQ).
    ack_timeout: u8,
}

impl RawPath {
    pub(super) fn get(&self) -> Path {
        Path {
            local_lid: self.local_lid.get(),
            remote_lid: self.remote_lid.get(),
            local_gid: Gid::new(self.local_gid),
            remote_gid: Gid::new(self.remote_gid),
            flow_label: self.flow_rate.get() >> 12,
            packet_rate: self.flow_rate.get() as u8 & 0x3f,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            service_level: self.sl_local >> 4,
            subnet_local: self.sl_local & 0x08 != 0,
            ack_timeout: self.ack_timeout >> 3,
        }
    }

    /// The bit behind the ACK timeout.
    pub(super) fn extra(&self) -> bool {
        self.ack_timeout & 0x04 != 0
    }

    pub(super) fn new(path: &Path, extra: bool) -> RawPath {
        RawPath {
            local_lid: path.local_lid.into(),
            remote_lid: path.remote_lid.into(),
            local_gid: *path.local_gid.bytes(),
            remote_gid: *path.remote_gid.bytes(),
            flow_rate: (path.flow_label << 12 | u32::from(path.packet_rate & 0x3f)).into(),
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl_local: path.service_level << 4 | u8::from(path.subnet_local) << 3,
            ack_timeout: path.ack_timeout << 3 | u8::from(extra) << 2,
        }
    }
}
