//! What the application is told.

use std::net::IpAddr;

use uroce_wire::Qpn;

use crate::ece::Ece;
use crate::ip_cm::IpCm;
use crate::link::Link;
use crate::message::{Rep, Req, TransportService};
use crate::service_id::ServiceId;
use crate::{Ari, CommId, RejReason, SidrStatus};

/// An event of one connection, or of one service id resolution. Private data is as long as its
/// message has room for; the wire does not tell how much of it the peer meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A REQ came for a listener: accept or reject it.
    Request {
        /// Our name for the connection.
        id: CommId,
        /// What is asked for.
        request: Box<ConnectionRequest>,
    },
    /// A REP came: set the queue pair up with `link`, then establish or reject.
    Reply {
        /// The connection.
        id: CommId,
        /// Values for the queue pair.
        link: Link,
        /// What the called side says.
        reply: ConnectionReply,
        /// The called side's, 196 bytes.
        private_data: Box<[u8]>,
    },
    /// The called side has the RTU, or the first packet that shows that it was sent (R113).
    Established {
        /// The connection.
        id: CommId,
        /// The caller's, 224 bytes; empty if there was no RTU.
        private_data: Box<[u8]>,
    },
    /// The peer refused.
    Rejected {
        /// The connection.
        id: CommId,
        /// Why.
        reason: RejReason,
        /// What it tells beside the reason.
        ari: Ari,
        /// The peer's, 148 bytes.
        private_data: Box<[u8]>,
    },
    /// The peer did not answer, or the application did not answer it in time.
    TimedOut {
        /// The connection.
        id: CommId,
    },
    /// The connection ended; from now on the queue pair must not send.
    Disconnected {
        /// The connection.
        id: CommId,
        /// Our DREQ was sent as often as it may be, and the peer has answered none.
        unanswered: bool,
        /// The peer's, 220 or 224 bytes; empty if it did not answer.
        private_data: Box<[u8]>,
    },
    /// For the device: ask the queue pair of the peer whether it is alive, and call
    /// [`handle_comm_est`](crate::Cm::handle_comm_est) when a packet of it comes, or if it cannot be
    /// asked. The peer seems to have forgotten the connection (R112).
    ProbePeer {
        /// The connection.
        id: CommId,
        /// Our queue pair of it.
        qpn: Qpn,
    },
    /// The last packets of the connection have died out: the queue pair may be used again.
    TimewaitExit {
        /// The connection.
        id: CommId,
    },
    /// A SIDR_REQ came for a listener: answer it.
    Query {
        /// Our name for the resolution.
        id: CommId,
        /// What is looked for.
        service_id: ServiceId,
        /// The peer that asks.
        remote: IpAddr,
        /// What the caller says about itself, if the service is rdma_cm's.
        ip: Option<IpCm>,
        /// The caller's, 180 or 216 bytes.
        private_data: Box<[u8]>,
    },
    /// A SIDR_REP came.
    Resolved {
        /// The resolution.
        id: CommId,
        /// Whether there is such a service; if not, what follows means nothing.
        status: SidrStatus,
        /// The queue pair to send datagrams to.
        qpn: Qpn,
        /// What they must carry.
        qkey: u32,
        /// The peer's, 136 bytes.
        private_data: Box<[u8]>,
    },
}

impl Event {
    /// What it is about.
    pub fn id(&self) -> CommId {
        match self {
            Event::Request { id, .. }
            | Event::Reply { id, .. }
            | Event::Established { id, .. }
            | Event::Rejected { id, .. }
            | Event::TimedOut { id }
            | Event::Disconnected { id, .. }
            | Event::ProbePeer { id, .. }
            | Event::TimewaitExit { id }
            | Event::Query { id, .. }
            | Event::Resolved { id, .. } => *id,
        }
    }
}

/// What a reply (REP) says, as its receiver, the active side, sees it. The passive side is the one that sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionReply {
    /// Number of the passive side's queue pair.
    pub remote_qpn: Qpn,
    /// READ and atomic requests that the passive side wants to have in flight, for this side to serve.
    pub responder_resources: u8,
    /// READ and atomic requests of this side that the passive side can serve at a time.
    pub initiator_depth: u8,
    /// Retries of this side after "receiver not ready", 0 to 6; 7 for ever.
    pub rnr_retry_count: u8,
    /// The passive side wants end-to-end flow control.
    pub flow_control: bool,
    /// The passive side receives into a shared receive queue.
    pub srq: bool,
    /// What the passive side uses of a vendor's options.
    pub ece: Ece,
}

impl ConnectionReply {
    pub(crate) fn new(rep: &Rep) -> ConnectionReply {
        ConnectionReply {
            remote_qpn: rep.qpn(),
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            rnr_retry_count: rep.rnr_retry_count,
            flow_control: rep.flow_control,
            srq: rep.srq,
            ece: Ece { vendor_id: rep.vendor_id, options: rep.vendor_options },
        }
    }
}

/// What a connection request (REQ) asks for, as its receiver, the passive side, sees it. The active side is the
/// one that sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionRequest {
    /// Service that the request is for: the port space and the port of a listener.
    pub service_id: ServiceId,
    /// Address of the active side.
    pub remote: IpAddr,
    /// Addresses and source port in the header that rdma_cm puts before the private data; `None` for services that
    /// are not rdma_cm's.
    pub ip: Option<IpCm>,
    /// Number of the active side's queue pair.
    pub remote_qpn: Qpn,
    /// RC, UC, or the extended one, which is XRC.
    pub transport: TransportService,
    /// READ and atomic requests that the active side wants to have in flight, for this side to serve.
    pub responder_resources: u8,
    /// READ and atomic requests of this side that the active side can serve at a time.
    pub initiator_depth: u8,
    /// Retries after a timeout, 0 to 7, for both sides.
    pub retry_count: u8,
    /// Retries of this side after "receiver not ready", 0 to 6; 7 for ever.
    pub rnr_retry_count: u8,
    /// The active side wants end-to-end flow control.
    pub flow_control: bool,
    /// The active side receives into a shared receive queue.
    pub srq: bool,
    /// What the active side supports of a vendor's options.
    pub ece: Ece,
    /// Private data of the active side, filled up with zeros: 56 bytes behind the header of rdma_cm, 92 without it.
    pub private_data: Box<[u8]>,
}

impl ConnectionRequest {
    pub(crate) fn new(remote: IpAddr, req: &Req, ip: Option<IpCm>) -> ConnectionRequest {
        let skip = if ip.is_some() { IpCm::LEN } else { 0 };
        ConnectionRequest {
            service_id: req.service_id,
            remote,
            ip,
            remote_qpn: req.local_qpn,
            transport: req.transport,
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            flow_control: req.flow_control,
            srq: req.srq,
            ece: Ece { vendor_id: req.vendor_id, options: req.vendor_options },
            private_data: req.private_data.bytes()[skip..].into(),
        }
    }
}
