//! REQ: the request for a connection.

use std::fmt;

use uroce_wire::{Psn, Qpn};
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use super::path::{Path, RawPath};
use crate::{CommId, PrivateData, ServiceId};

/// The transport that a REQ asks for, 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransportService(pub u8);

impl TransportService {
    /// Reliable connection.
    pub const RC: TransportService = TransportService(0);
    /// Unreliable connection.
    pub const UC: TransportService = TransportService(1);
    /// Reliable datagram; not implemented by any NIC.
    pub const RD: TransportService = TransportService(2);
    /// See [`Req::extended_transport`].
    pub const EXTENDED: TransportService = TransportService(3);
}

impl fmt::Display for TransportService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["RC", "UC", "RD", "XRC"];
        match names.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "transport {}", self.0),
        }
    }
}

/// Request for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Req {
    /// The caller's name for the connection.
    pub local_comm_id: CommId,
    /// Vendor of the options in the attribute modifier, 24 bits; 0 without.
    pub vendor_id: u32,
    /// Options of that vendor. They are in the attribute modifier of the MAD, not in the message.
    pub vendor_options: u32,
    /// What is called.
    pub service_id: ServiceId,
    /// The caller's node GUID.
    pub local_ca_guid: u64,
    /// For datagrams only.
    pub local_qkey: u32,
    /// The caller's queue pair.
    pub local_qpn: Qpn,
    /// READs and atomics that the caller can serve at a time.
    pub responder_resources: u8,
    /// End-to-end context of RD, 24 bits.
    pub local_eecn: u32,
    /// READs and atomics that the caller may have in flight.
    pub initiator_depth: u8,
    /// End-to-end context of RD, 24 bits.
    pub remote_eecn: u32,
    /// Within this time (code, 5 bits) the caller expects an answer.
    pub remote_response_timeout: u8,
    /// RC, UC, ...
    pub transport: TransportService,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// First PSN that the called side shall send, and the caller expects.
    pub starting_psn: Psn,
    /// Within this time (code, 5 bits) the caller itself answers.
    pub local_response_timeout: u8,
    /// Retries of the connection, 3 bits (R75).
    pub retry_count: u8,
    /// Partition key.
    pub pkey: u16,
    /// Path MTU, 4 bits: 1 (256) to 5 (4096).
    pub path_mtu: u8,
    /// A reliable datagram channel exists.
    pub rdc_exists: bool,
    /// RNR retries of the connection, 3 bits (R76).
    pub rnr_retry_count: u8,
    /// How often a message is sent again without an answer, 4 bits (R114).
    pub max_cm_retries: u8,
    /// The caller receives into an SRQ.
    pub srq: bool,
    /// 3 bits; 1 is XRC.
    pub extended_transport: u8,
    /// The path of the connection.
    pub primary: Path,
    /// The path to change to; all zero on RoCE.
    pub alternate: Path,
    /// Suggested alternate path is supported.
    pub sap_supported: bool,
    /// The application's, behind an [`IpCm`](crate::IpCm) header if the service is rdma_cm's.
    pub private_data: PrivateData<92>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReq {
    local_comm_id: U32,
    /// Reserved 8, vendor id 24.
    vendor_id: U32,
    service_id: U64,
    local_ca_guid: U64,
    reserved: U32,
    local_qkey: U32,
    /// QPN 24, responder resources 8.
    qpn_resources: U32,
    /// EECN 24, initiator depth 8.
    eecn_depth: U32,
    /// Remote EECN 24, remote response timeout 5, transport 2, flow control 1.
    remote: U32,
    /// PSN 24, local response timeout 5, retry count 3.
    psn_retry: U32,
    pkey: U16,
    /// MTU 4, RDC exists 1, RNR retry count 3.
    mtu_rnr: u8,
    /// CM retries 4, SRQ 1, extended transport 3.
    retries_srq: u8,
    primary: RawPath,
    alternate: RawPath,
    private_data: [u8; 92],
}

impl Req {
    pub(super) fn read(body: &Body) -> Req {
        let raw: &RawReq = transmute_ref!(body);
        let (qpn, eecn) = (raw.qpn_resources.get(), raw.eecn_depth.get());
        let (remote, psn) = (raw.remote.get(), raw.psn_retry.get());
        Req {
            local_comm_id: CommId(raw.local_comm_id.get()),
            vendor_id: raw.vendor_id.get() & 0xff_ffff,
            vendor_options: 0,
            service_id: ServiceId(raw.service_id.get()),
            local_ca_guid: raw.local_ca_guid.get(),
            local_qkey: raw.local_qkey.get(),
            local_qpn: Qpn::new(qpn >> 8),
            responder_resources: qpn as u8,
            local_eecn: eecn >> 8,
            initiator_depth: eecn as u8,
            remote_eecn: remote >> 8,
            remote_response_timeout: remote as u8 >> 3,
            transport: TransportService(remote as u8 >> 1 & 3),
            flow_control: remote & 1 != 0,
            starting_psn: Psn::new(psn >> 8),
            local_response_timeout: psn as u8 >> 3,
            retry_count: psn as u8 & 7,
            pkey: raw.pkey.get(),
            path_mtu: raw.mtu_rnr >> 4,
            rdc_exists: raw.mtu_rnr & 0x08 != 0,
            rnr_retry_count: raw.mtu_rnr & 7,
            max_cm_retries: raw.retries_srq >> 4,
            srq: raw.retries_srq & 0x08 != 0,
            extended_transport: raw.retries_srq & 7,
            primary: raw.primary.get(),
            alternate: raw.alternate.get(),
            sap_supported: raw.alternate.extra(),
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        let remote_low = self.remote_response_timeout << 3
            | (self.transport.0 & 3) << 1
            | u8::from(self.flow_control);
        let psn_low = self.local_response_timeout << 3 | self.retry_count & 7;
        let raw = RawReq {
            local_comm_id: self.local_comm_id.0.into(),
            vendor_id: (self.vendor_id & 0xff_ffff).into(),
            service_id: self.service_id.0.into(),
            local_ca_guid: self.local_ca_guid.into(),
            reserved: 0.into(),
            local_qkey: self.local_qkey.into(),
            qpn_resources: (self.local_qpn.get() << 8 | u32::from(self.responder_resources)).into(),
            eecn_depth: (self.local_eecn << 8 | u32::from(self.initiator_depth)).into(),
            remote: (self.remote_eecn << 8 | u32::from(remote_low)).into(),
            psn_retry: (self.starting_psn.get() << 8 | u32::from(psn_low)).into(),
            pkey: self.pkey.into(),
            mtu_rnr: self.path_mtu << 4 | u8::from(self.rdc_exists) << 3 | self.rnr_retry_count & 7,
            retries_srq: self.max_cm_retries << 4
                | u8::from(self.srq) << 3
                | self.extended_transport & 7,
            primary: RawPath::new(&self.primary, false),
            alternate: RawPath::new(&self.alternate, self.sap_supported),
            private_data: *self.private_data.bytes(),
        };
        transmute!(raw)
    }
}
