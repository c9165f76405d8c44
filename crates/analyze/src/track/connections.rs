//! Connections that connection management has made in the capture.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use uroce_cm::message::{Rep, Req};
use uroce_cm::{Mad, Message};
use uroce_wire::{Mtu, Psn, Qpn, ack_timeout_ns};

/// REQs that wait for their REPs at a time.
const MAX_EXCHANGES: usize = 256;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its queue pair.
    pub qpn: Qpn,
}

/// What REQ and REP agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The end that sent the REQ.
    pub active: Endpoint,
    /// The end that sent the REP.
    pub passive: Endpoint,
    /// First PSN of the active end's requests.
    pub active_psn: Psn,
    /// First PSN of the passive end's requests.
    pub passive_psn: Psn,
    /// Path MTU in bytes.
    pub path_mtu: Option<u32>,
    /// Local ACK timeout of both ends.
    pub ack_timeout: Option<Duration>,
    /// READs and atomics that the active end may have under way.
    pub active_reads: u8,
    /// READs and atomics that the passive end may have under way.
    pub passive_reads: u8,
}

/// A REQ that waits for its REP.
#[derive(Debug, Clone, Copy)]
struct PendingReq {
    active: IpAddr,
    passive: IpAddr,
    req: Req,
}

/// Exchanges and connections, a bounded number of each.
#[derive(Debug)]
pub(super) struct Connections {
    max: usize,
    exchanges: VecDeque<PendingReq>,
    connections: Vec<Connection>,
    /// By either end; the index of the newest connection there.
    by_end: HashMap<Endpoint, usize>,
    /// Exchanges and connections that found no place.
    pub(super) lost: u64,
}

impl Connections {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            exchanges: VecDeque::new(),
            connections: Vec::new(),
            by_end: HashMap::new(),
            lost: 0,
        }
    }

    /// All of them, in the order of their REPs.
    pub(super) fn list(&self) -> &[Connection] {
        &self.connections
    }

    /// The newest connection of the queue pair `end`, and the other end of it.
    pub(super) fn of(&self, end: Endpoint) -> Option<(&Connection, Endpoint)> {
        let connection = self.connections.get(*self.by_end.get(&end)?)?;
        let other = if connection.active == end { connection.passive } else { connection.active };
        Some((connection, other))
    }

    /// Takes in the payload of a packet of QP1. A connection, if it completes one that is new.
    pub(super) fn handle(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        payload: &[u8],
    ) -> Option<Connection> {
        match Mad::parse(payload).ok()?.message {
            Message::Req(req) => {
                self.handle_req(PendingReq { active: source, passive: destination, req });
                None
            }
            Message::Rep(rep) => self.handle_rep(source, destination, &rep),
            _ => None,
        }
    }

    fn handle_req(&mut self, exchange: PendingReq) {
        let same = |other: &PendingReq| {
            other.active == exchange.active && other.req.local_comm_id == exchange.req.local_comm_id
        };
        if self.exchanges.iter().rev().any(same) {
            return;
        }
        if self.exchanges.len() >= self.max.min(MAX_EXCHANGES) {
            self.exchanges.pop_front();
            self.lost += 1;
        }
        self.exchanges.push_back(exchange);
    }

    fn handle_rep(&mut self, source: IpAddr, destination: IpAddr, rep: &Rep) -> Option<Connection> {
        let is_it = |exchange: &PendingReq| {
            exchange.active == destination
                && exchange.passive == source
                && exchange.req.local_comm_id == rep.remote_comm_id
        };
        // A REP that is sent again finds its exchange gone.
        let index = self.exchanges.iter().rposition(is_it)?;
        let req = self.exchanges.remove(index)?.req;
        let connection = Connection {
            active: Endpoint { address: destination, qpn: req.local_qpn },
            passive: Endpoint { address: source, qpn: rep.local_qpn },
            active_psn: rep.starting_psn,
            passive_psn: req.starting_psn,
            path_mtu: Mtu::from_code(req.path_mtu).map(|mtu| mtu.bytes() as u32),
            ack_timeout: ack_timeout_ns(req.primary.ack_timeout).map(Duration::from_nanos),
            active_reads: req.initiator_depth.min(rep.responder_resources),
            passive_reads: rep.initiator_depth.min(req.responder_resources),
        };
        self.insert(connection).then_some(connection)
    }

    fn insert(&mut self, connection: Connection) -> bool {
        if self.of(connection.active).is_some_and(|(known, _)| *known == connection) {
            return false;
        }
        if self.connections.len() >= self.max {
            self.lost += 1;
            return false;
        }
        let index = self.connections.len();
        self.connections.push(connection);
        self.by_end.insert(connection.active, index);
        self.by_end.insert(connection.passive, index);
        true
    }
}
