//! What the exchange settles for the queue pair (R115).

use std::net::IpAddr;

use uroce_wire::{Psn, Qpn};

use crate::message::{Path, Rep, Req, TransportService};
use crate::mutation::mutated;
use crate::time_code::ack_timeout;

/// The values with which a queue pair goes to RTR and RTS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The peer's address.
    pub remote: IpAddr,
    /// The transport that the REQ asks for: both queue pairs must be of it.
    pub transport: TransportService,
    /// The peer's queue pair.
    pub remote_qpn: Qpn,
    /// First PSN that the peer sends: the one that our own message named.
    pub rq_psn: Psn,
    /// First PSN that we send: the one that the peer's message named.
    pub sq_psn: Psn,
    /// Path MTU: 1 (256) to 5 (4096).
    pub path_mtu: u8,
    /// READs and atomics that we may have in flight.
    pub max_rd_atomic: u8,
    /// READs and atomics of the peer that we serve at a time.
    pub max_dest_rd_atomic: u8,
    /// Retries (R75).
    pub retry_count: u8,
    /// RNR retries (R76).
    pub rnr_retry_count: u8,
    /// ACK timeout code.
    pub ack_timeout: u8,
    /// Selects the UDP source port; both sides use the same one.
    pub flow_label: u32,
    /// ToS.
    pub traffic_class: u8,
    /// TTL.
    pub hop_limit: u8,
}

impl Link {
    /// The caller's, once it has the REP. The REP's depths and RNR retries are final; its ACK
    /// delay replaces the one that the REQ's timeout was made with.
    pub(crate) fn of_caller(remote: IpAddr, req: &Req, rep: &Rep) -> Link {
        let lifetime = req.primary.ack_timeout.saturating_sub(1);
        Link {
            remote,
            remote_qpn: rep.qpn(),
            rq_psn: req.starting_psn,
            sq_psn: rep.starting_psn,
            max_rd_atomic: req.initiator_depth.min(rep.responder_resources),
            max_dest_rd_atomic: req.responder_resources.min(rep.initiator_depth),
            rnr_retry_count: rep.rnr_retry_count,
            ack_timeout: ack_timeout(rep.target_ack_delay, lifetime),
            ..Link::on(&req.primary, req, remote)
        }
    }

    /// The called side's, when it sends the REP.
    pub(crate) fn of_called(remote: IpAddr, req: &Req, rep: &Rep) -> Link {
        let (max_rd_atomic, max_dest_rd_atomic) = match mutated("depths-not-crossed") {
            false => (rep.initiator_depth, rep.responder_resources),
            true => (rep.responder_resources, rep.initiator_depth),
        };
        Link {
            remote_qpn: req.local_qpn,
            rq_psn: rep.starting_psn,
            sq_psn: req.starting_psn,
            max_rd_atomic,
            max_dest_rd_atomic,
            rnr_retry_count: req.rnr_retry_count,
            ack_timeout: req.primary.ack_timeout,
            ..Link::on(&req.primary, req, remote)
        }
    }

    fn on(path: &Path, req: &Req, remote: IpAddr) -> Link {
        Link {
            remote,
            transport: req.transport,
            remote_qpn: Qpn::new(0),
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            path_mtu: req.path_mtu,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            retry_count: req.retry_count,
            rnr_retry_count: 0,
            ack_timeout: 0,
            flow_label: path.flow_label,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
        }
    }
}
