//! What the application of either side says about a connection.

use std::net::IpAddr;

use uroce_wire::{Gid, Psn, Qpn};

use crate::CommId;
use crate::ece::Ece;
use crate::identity::Identity;
use crate::ip_cm::IpCm;
use crate::message::{Path, Rep, Req, TransportService};
use crate::private_data::{PrivateData, TooLong};
use crate::service_id::ServiceId;
use crate::time_code::ack_timeout;

/// The LID of a path that has none.
const PERMISSIVE_LID: u16 = 0xffff;
/// The only partition.
pub(crate) const DEFAULT_PKEY: u16 = 0xffff;

/// A call: what goes into a REQ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The peer to call.
    pub remote: IpAddr,
    /// What to call there.
    pub service_id: ServiceId,
    /// Port of the caller, if the service is rdma_cm's.
    pub source_port: u16,
    /// The caller's queue pair.
    pub qpn: Qpn,
    /// First PSN that it expects.
    pub starting_psn: Psn,
    /// RC, UC, or the extended one, which is XRC (X6).
    pub transport: TransportService,
    /// It receives into an SRQ.
    pub srq: bool,
    /// Path MTU: 1 (256) to 5 (4096).
    pub path_mtu: u8,
    /// READs and atomics of the peer that it can serve at a time.
    pub responder_resources: u8,
    /// READs and atomics that it wants to have in flight.
    pub initiator_depth: u8,
    /// Retries, 0 to 7.
    pub retry_count: u8,
    /// RNR retries, 0 to 7.
    pub rnr_retry_count: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// ToS.
    pub traffic_class: u8,
    /// TTL.
    pub hop_limit: u8,
    /// Packet lifetime of the path (code): half of what a round trip may take.
    pub packet_lifetime: u8,
    /// ACK timeout (code) of the caller's own queue pair, if not the one that follows from the
    /// path.
    pub ack_timeout: Option<u8>,
    /// Time (code) within which either side must answer.
    pub response_timeout: u8,
    /// How often a message is sent again, 0 to 15.
    pub max_retries: u8,
    /// What the caller supports of a vendor's options.
    pub ece: Ece,
    /// For the application of the called side: up to 56 bytes, or 92 if the service is none of
    /// rdma_cm's.
    pub private_data: Vec<u8>,
}

impl Call {
    /// Packet lifetime (code) of a path of which nothing else is known, as Linux 6.12 has it for RoCE.
    pub const PACKET_LIFETIME: u8 = 16;

    /// A call with the defaults of this crate: 15 repetitions about a second apart, where the
    /// kernel takes 4.6 s; the ACK timeout comes out as Linux 6.12 has it.
    pub fn new(remote: IpAddr, service_id: ServiceId, qpn: Qpn, starting_psn: Psn) -> Call {
        Call {
            remote,
            service_id,
            source_port: 0,
            qpn,
            starting_psn,
            transport: TransportService::RC,
            srq: false,
            path_mtu: 3,
            responder_resources: 16,
            initiator_depth: 16,
            retry_count: 7,
            rnr_retry_count: 7,
            flow_control: false,
            traffic_class: 0,
            hop_limit: 64,
            packet_lifetime: Call::PACKET_LIFETIME,
            ack_timeout: None,
            response_timeout: 18,
            max_retries: 15,
            ece: Ece::default(),
            private_data: Vec::new(),
        }
    }

    /// The REQ.
    pub(crate) fn req(&self, id: CommId, us: &Identity) -> Result<Req, TooLong> {
        Ok(Req {
            local_comm_id: id,
            vendor_id: self.ece.cut().vendor_id,
            vendor_options: self.ece.options,
            service_id: self.service_id,
            local_ca_guid: us.guid,
            local_qkey: 0,
            local_qpn: self.qpn,
            responder_resources: self.responder_resources,
            local_eecn: 0,
            initiator_depth: self.initiator_depth,
            remote_eecn: 0,
            remote_response_timeout: self.response_timeout & 0x1f,
            transport: self.transport,
            flow_control: self.flow_control,
            starting_psn: self.starting_psn,
            local_response_timeout: self.response_timeout & 0x1f,
            retry_count: self.retry_count & 7,
            pkey: DEFAULT_PKEY,
            path_mtu: self.path_mtu & 0xf,
            rdc_exists: false,
            rnr_retry_count: self.rnr_retry_count & 7,
            max_cm_retries: self.max_retries & 0xf,
            srq: self.srq,
            extended_transport: u8::from(self.transport == TransportService::EXTENDED),
            primary: self.path(us),
            alternate: Path::default(),
            sap_supported: false,
            private_data: self.with_header(us)?,
        })
    }

    fn path(&self, us: &Identity) -> Path {
        Path {
            local_lid: PERMISSIVE_LID,
            remote_lid: PERMISSIVE_LID,
            local_gid: Gid::from_ip(us.address),
            remote_gid: Gid::from_ip(self.remote),
            flow_label: flow_label(self.source_port, self.service_id.port()),
            packet_rate: 0,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            service_level: self.traffic_class >> 5,
            subnet_local: false,
            ack_timeout: ack_timeout(us.ack_delay, self.packet_lifetime),
        }
    }

    fn with_header<const N: usize>(&self, us: &Identity) -> Result<PrivateData<N>, TooLong> {
        if self.service_id.port_space().is_none() {
            return PrivateData::new(&self.private_data);
        }
        ip_header(us.address, self.source_port, self.remote, &self.private_data)
    }
}

/// Private data behind the header of rdma_cm.
pub(crate) fn ip_header<const N: usize>(
    source: IpAddr,
    source_port: u16,
    destination: IpAddr,
    private_data: &[u8],
) -> Result<PrivateData<N>, TooLong> {
    let header = IpCm { source_port, source, destination }.write();
    let too_long = |_| TooLong { got: private_data.len(), room: N - IpCm::LEN };
    PrivateData::new(&[&header, private_data].concat()).map_err(too_long)
}

/// As the kernel derives it from the two ports.
pub(crate) fn flow_label(source_port: u16, destination_port: u16) -> u32 {
    (u32::from(source_port) * 31 + u32::from(destination_port)) & 0xf_ffff
}

/// What the called side says when it accepts: what goes into a REP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Its queue pair.
    pub qpn: Qpn,
    /// First PSN that it expects.
    pub starting_psn: Psn,
    /// It receives into an SRQ.
    pub srq: bool,
    /// READs and atomics of the caller that it can serve at a time; what the caller did not ask
    /// for is left out.
    pub responder_resources: u8,
    /// READs and atomics that it wants to have in flight; what the caller cannot serve is left
    /// out.
    pub initiator_depth: u8,
    /// RNR retries that the caller shall make, 0 to 7.
    pub rnr_retry_count: u8,
    /// ACK timeout (code) of this side's own queue pair, if not the caller's.
    pub ack_timeout: Option<u8>,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// What is used of a vendor's options.
    pub ece: Ece,
    /// For the application of the caller, up to 196 bytes.
    pub private_data: Vec<u8>,
}

impl Acceptance {
    /// Accepts as many READs and atomics as the caller wants, up to 16 each way.
    pub fn new(qpn: Qpn, starting_psn: Psn) -> Acceptance {
        Acceptance {
            qpn,
            starting_psn,
            srq: false,
            responder_resources: 16,
            initiator_depth: 16,
            rnr_retry_count: 7,
            ack_timeout: None,
            flow_control: false,
            ece: Ece::default(),
            private_data: Vec::new(),
        }
    }

    pub(crate) fn rep(&self, id: CommId, req: &Req, us: &Identity) -> Result<Rep, TooLong> {
        // X6: a target is named where a context of RD would be; callers look here or there.
        let target = req.transport == TransportService::EXTENDED;
        Ok(Rep {
            local_comm_id: id,
            remote_comm_id: req.local_comm_id,
            local_qkey: 0,
            local_qpn: self.qpn,
            vendor_id: self.ece.cut().vendor_id,
            vendor_options: self.ece.options,
            local_eecn: if target { self.qpn.get() } else { 0 },
            starting_psn: self.starting_psn,
            responder_resources: self.responder_resources.min(req.initiator_depth),
            initiator_depth: self.initiator_depth.min(req.responder_resources),
            target_ack_delay: us.ack_delay & 0x1f,
            failover_accepted: 0,
            flow_control: self.flow_control,
            rnr_retry_count: self.rnr_retry_count & 7,
            srq: self.srq,
            local_ca_guid: us.guid,
            private_data: PrivateData::new(&self.private_data)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_label_of_a_captured_req() {
        assert_eq!(flow_label(45_717, 7_174), 0x5bc11);
    }
}
