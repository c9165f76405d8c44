//! REP: the answer that accepts.

use uroce_wire::{Psn, Qpn};
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::Body;
use crate::{CommId, PrivateData};

/// Reply to a REQ: the connection is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rep {
    /// The sender's name for the connection.
    pub local_comm_id: CommId,
    /// The caller's name for it.
    pub remote_comm_id: CommId,
    /// For datagrams only.
    pub local_qkey: u32,
    /// The sender's queue pair.
    pub local_qpn: Qpn,
    /// Vendor of the options in the attribute modifier, 24 bits; 0 without.
    pub vendor_id: u32,
    /// Options of that vendor. They are in the attribute modifier of the MAD, not in the message.
    pub vendor_options: u32,
    /// End-to-end context of RD, or target of XRC; 24 bits.
    pub local_eecn: u32,
    /// First PSN that the caller shall send, and the sender expects.
    pub starting_psn: Psn,
    /// READs and atomics that the sender can serve at a time.
    pub responder_resources: u8,
    /// READs and atomics that the sender may have in flight.
    pub initiator_depth: u8,
    /// The sender's ACK delay (code, 5 bits).
    pub target_ack_delay: u8,
    /// 2 bits; nothing fails over on RoCE.
    pub failover_accepted: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// RNR retries that the caller shall make, 3 bits.
    pub rnr_retry_count: u8,
    /// The sender receives into an SRQ.
    pub srq: bool,
    /// The sender's node GUID.
    pub local_ca_guid: u64,
    /// The application's.
    pub private_data: PrivateData<196>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRep {
    local_comm_id: U32,
    remote_comm_id: U32,
    local_qkey: U32,
    /// QPN 24, vendor id high 8.
    qpn: U32,
    /// EECN 24, vendor id middle 8.
    eecn: U32,
    /// PSN 24, vendor id low 8.
    psn: U32,
    responder_resources: u8,
    initiator_depth: u8,
    /// ACK delay 5, failover 2, flow control 1.
    delay: u8,
    /// RNR retry count 3, SRQ 1, reserved 4.
    rnr_srq: u8,
    local_ca_guid: U64,
    private_data: [u8; 196],
}

impl Rep {
    /// The sender's queue pair; a target of XRC may be named as an end-to-end context (X6).
    pub fn qpn(&self) -> Qpn {
        let named = self.local_qpn;
        if named == Qpn::SMI { Qpn::new(self.local_eecn) } else { named }
    }

    pub(super) fn read(body: &Body) -> Rep {
        let raw: &RawRep = transmute_ref!(body);
        let (qpn, eecn, psn) = (raw.qpn.get(), raw.eecn.get(), raw.psn.get());
        Rep {
            local_comm_id: CommId(raw.local_comm_id.get()),
            remote_comm_id: CommId(raw.remote_comm_id.get()),
            local_qkey: raw.local_qkey.get(),
            local_qpn: Qpn::new(qpn >> 8),
            vendor_id: (qpn & 0xff) << 16 | (eecn & 0xff) << 8 | psn & 0xff,
            vendor_options: 0,
            local_eecn: eecn >> 8,
            starting_psn: Psn::new(psn >> 8),
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            target_ack_delay: raw.delay >> 3,
            failover_accepted: raw.delay >> 1 & 3,
            flow_control: raw.delay & 1 != 0,
            rnr_retry_count: raw.rnr_srq >> 5,
            srq: raw.rnr_srq & 0x10 != 0,
            local_ca_guid: raw.local_ca_guid.get(),
            private_data: raw.private_data.into(),
        }
    }

    pub(super) fn write(&self) -> Body {
        let raw = RawRep {
            local_comm_id: self.local_comm_id.0.into(),
            remote_comm_id: self.remote_comm_id.0.into(),
            local_qkey: self.local_qkey.into(),
            qpn: (self.local_qpn.get() << 8 | self.vendor_id >> 16 & 0xff).into(),
            eecn: (self.local_eecn << 8 | self.vendor_id >> 8 & 0xff).into(),
            psn: (self.starting_psn.get() << 8 | self.vendor_id & 0xff).into(),
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            delay: self.target_ack_delay << 3
                | (self.failover_accepted & 3) << 1
                | u8::from(self.flow_control),
            rnr_srq: self.rnr_retry_count << 5 | u8::from(self.srq) << 4,
            local_ca_guid: self.local_ca_guid.into(),
            private_data: *self.private_data.bytes(),
        };
        transmute!(raw)
    }
}
