//! Connection management: what the tester asks of the agent's librdmacm, and what that reports.

use std::net::IpAddr;

use serde::Serialize;

use super::fields::{read_names, read_struct, read_variants};
use crate::Hex;

/// One thing to do with connections. Connections and listeners (`rdma_cm_id`) have numbers that the agent gave; each
/// stays until [`Request::Clear`](crate::Request::Clear).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum CmRequest {
    /// Listens on a free port of the address under test; answered by [`Reply::CmId`](crate::Reply::CmId).
    Listen {
        /// For connections or for datagrams.
        space: CmSpace,
    },
    /// Calls the tester: `rdma_resolve_addr`, `rdma_resolve_route` and `rdma_connect`; answered by
    /// [`Reply::CmId`](crate::Reply::CmId).
    Connect {
        /// Address of the tester.
        address: IpAddr,
        /// Port that is called.
        port: u16,
        /// Number of the queue pair, in RESET; it goes to INIT.
        qp: u32,
        /// Private data of the REQ, 56 bytes at most.
        private: Hex,
    },
    /// Accepts a call with a queue pair in RESET, which goes to RTS; a call for datagrams leaves it as it is.
    Accept {
        /// Number of the connection.
        id: u32,
        /// Number of the queue pair.
        qp: u32,
        /// Private data of the REP, 196 bytes at most.
        private: Hex,
    },
    /// Moves the queue pair of a call that was accepted to RTS, and confirms (`rdma_establish`).
    Establish {
        /// Number of the connection.
        id: u32,
        /// Number of the queue pair that called.
        qp: u32,
    },
    /// Refuses a call.
    Reject {
        /// Number of the connection.
        id: u32,
        /// Private data of the REJ, 148 bytes at most.
        private: Hex,
    },
    /// Ends a connection, or confirms its end.
    Disconnect {
        /// Number of the connection.
        id: u32,
    },
    /// Takes events; answered by [`Reply::CmEvents`](crate::Reply::CmEvents).
    Events {
        /// Wait so many milliseconds for the first.
        wait_ms: u32,
    },
}

read_variants!(CmRequest by "do" {
    "listen" => Listen { space },
    "connect" => Connect { address, port, qp, private },
    "accept" => Accept { id, qp, private },
    "establish" => Establish { id, qp },
    "reject" => Reject { id, private },
    "disconnect" => Disconnect { id },
    "events" => Events { wait_ms },
});

/// A port space of rdma_cm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum CmSpace {
    /// Reliable connections.
    Tcp,
    /// Datagrams.
    Udp,
}

read_names!(CmSpace {
    "tcp" => Tcp,
    "udp" => Udp,
});

/// An event of connection management.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct CmEvent {
    /// `rdma_cm_event_type`.
    pub kind: u32,
    /// Number of the connection; of a call it is new.
    pub id: u32,
    /// `status` of the event: of a REJ its reason.
    pub status: i32,
    /// Private data.
    pub private: Hex,
    /// READs and atomics that the other side serves at a time.
    pub responder_resources: u8,
    /// READs and atomics that the other side may have open.
    pub initiator_depth: u8,
}

read_struct!(CmEvent { kind, id, status, private, responder_resources, initiator_depth });

/// `rdma_cm_event_type`.
pub mod cm_event {
    /// A call came.
    pub const CONNECT_REQUEST: u32 = 4;
    /// The other side accepted; the program must confirm.
    pub const CONNECT_RESPONSE: u32 = 5;
    /// The other side does not answer.
    pub const UNREACHABLE: u32 = 7;
    /// The other side refused.
    pub const REJECTED: u32 = 8;
    /// The connection stands; of datagrams: the other side answered.
    pub const ESTABLISHED: u32 = 9;
    /// The connection has ended.
    pub const DISCONNECTED: u32 = 10;
    /// The queue pair may be used again.
    pub const TIMEWAIT_EXIT: u32 = 15;
}
