//! SIDR: which queue pair serves a service id, for datagrams.

use uroce_wire::Qpn;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use crate::{PrivateData, ServiceId, SidrStatus};

/// Service id resolution request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SidrReq {
    /// The caller's name for the request.
    pub request_id: u32,
    /// Partition key.
    pub pkey: u16,
    /// What is looked for.
    pub service_id: ServiceId,
    /// The application's, behind an [`IpCm`](crate::IpCm) header if the service is rdma_cm's.
    pub private_data: PrivateData<216>,
}

/// Service id resolution reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SidrRep {
    /// The caller's name for the request.
    pub request_id: u32,
    /// How the request was answered.
    pub status: SidrStatus,
    /// Bytes of [`info`](SidrRep::info) that mean something.
    pub info_len: u8,
    /// Vendor of the options in the attribute modifier, 24 bits; 0 without.
    pub vendor_id: u32,
    /// The queue pair.
    pub qpn: Qpn,
    /// What was looked for.
    pub service_id: ServiceId,
    /// What datagrams to it must carry.
    pub qkey: u32,
    /// Additional information; its form depends on the status.
    pub info: [u8; 72],
    /// The application's.
    pub private_data: PrivateData<136>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReq {
    request_id: U32,
    pkey: U16,
    reserved: U16,
    service_id: U64,
    private_data: [u8; 216],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRep {
    request_id: U32,
    status: u8,
    info_len: u8,
    vendor_high: U16,
    /// QPN 24, vendor id low 8.
    qpn: U32,
    service_id: U64,
    qkey: U32,
    info: [u8; 72],
    private_data: [u8; 136],
}

impl SidrReq {
    pub(super) fn read(body: &Body) -> SidrReq {
        let raw: &RawReq = transmute_ref!(body);
        SidrReq {
            request_id: raw.request_id.get(),
            pkey: raw.pkey.get(),
            service_id: ServiceId(raw.service_id.get()),
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawReq {
            request_id: self.request_id.into(),
            pkey: self.pkey.into(),
            reserved: 0.into(),
            service_id: self.service_id.0.into(),
            private_data: *self.private_data.bytes(),
        })
    }
}

impl SidrRep {
    pub(super) fn read(body: &Body) -> SidrRep {
        let raw: &RawRep = transmute_ref!(body);
        let qpn = raw.qpn.get();
        SidrRep {
            request_id: raw.request_id.get(),
            status: SidrStatus(raw.status),
            info_len: raw.info_len,
            vendor_id: u32::from(raw.vendor_high.get()) << 8 | qpn & 0xff,
            qpn: Qpn::new(qpn >> 8),
            service_id: ServiceId(raw.service_id.get()),
            qkey: raw.qkey.get(),
            info: raw.info,
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        transmute!(RawRep {
            request_id: self.request_id.into(),
            status: self.status.0,
            info_len: self.info_len,
            vendor_high: ((self.vendor_id >> 8) as u16).into(),
            qpn: (self.qpn.get() << 8 | self.vendor_id & 0xff).into(),
            service_id: self.service_id.0.into(),
            qkey: self.qkey.into(),
            info: self.info,
            private_data: *self.private_data.bytes(),
        })
    }
}
