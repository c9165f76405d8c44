//! One address: its datapath, and the packets between that and the clients.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use uroce_datapath::{Datapath, Flush, GsiTarget, PACKET_ROOM, Route, check_group};
use uroce_wire::{Flow, FlowIcrc, ICRC_LEN, Slot};

use super::attached::{AttachedClient, Sent};
use super::demux::Clients;
use crate::head::SentHead;
use crate::ring::{BadRing, MOST_SENT};
use crate::sent_packet::{arrived, may_send};

/// Most packets read from the datapath in one round.
const RECEIVE_BUDGET: usize = 256;

/// Most packets read from one client before the next is served.
const CLIENT_BUDGET: usize = 32;

/// A served address.
pub(super) struct ServedPort {
    pub(super) local: SocketAddr,
    pub(super) inner: Box<dyn Datapath>,
    pub(super) clients: Clients,
    /// Whether packets to a group come back to members on this host.
    loops_multicast: bool,
    /// The datapath takes no more packets for now.
    pub(super) blocked: bool,
    /// The client that is served first in the next round.
    turn: usize,
    scratch: Box<[u8]>,
    /// Packets from one client to another.
    pub(super) local_packets: u64,
}

/// What a round of a port has done.
#[derive(Debug, Default)]
pub(super) struct ServiceRound {
    pub(super) packets: usize,
    /// Clients that wrote nonsense into their rings.
    pub(super) bad: Vec<Slot>,
}

impl ServedPort {
    /// Of its clients each may have so many `links`.
    pub(super) fn new(inner: Box<dyn Datapath>, gsi: GsiTarget, links: usize) -> Self {
        Self {
            local: inner.local(),
            // The kernel does that; frames that are sent past it do not come back.
            loops_multicast: matches!(inner.caps().name, "udp" | "uring"),
            inner,
            clients: Clients::new(gsi, links),
            blocked: false,
            turn: 0,
            scratch: vec![0; PACKET_ROOM].into_boxed_slice(),
            local_packets: 0,
        }
    }

    /// Moves packets once in both directions.
    pub(super) fn serve(&mut self) -> io::Result<ServiceRound> {
        let clients = &mut self.clients;
        let received = self.inner.recv(RECEIVE_BUDGET, &mut |rx| clients.deliver(&rx))?;
        if received > 0 {
            self.publish();
        }
        let mut round = ServiceRound { packets: received, bad: vec![] };
        if !self.blocked {
            self.serve_clients(&mut round);
        }
        let sent = round.packets - received;
        if self.clients.has_marks {
            self.clients.retry_marks();
            self.publish();
        }
        if sent > 0 || self.blocked {
            self.blocked = is_blocked(self.inner.flush())?;
            self.publish();
        }
        Ok(round)
    }

    /// Sends the committed packets. A link that fails altogether fails in the next round, too, which says so.
    fn flush(&mut self) {
        self.blocked = is_blocked(self.inner.flush()).unwrap_or(true);
    }

    /// Takes packets of every client in turn. Each round begins with another one.
    fn serve_clients(&mut self, round: &mut ServiceRound) {
        let count = self.clients.slots.len();
        self.turn = if self.turn + 1 < count { self.turn + 1 } else { 0 };
        for n in 0..count {
            let Some(slot) = self.clients.slots.get((self.turn + n) % count).copied() else {
                break;
            };
            self.serve_client(slot, round);
            if self.blocked {
                break;
            }
        }
    }

    /// Takes packets of one client. What it had sent before it wrote nonsense goes its way.
    fn serve_client(&mut self, slot: Slot, round: &mut ServiceRound) {
        let mut left = CLIENT_BUDGET;
        while left > 0 && !self.blocked {
            match self.serve_packet(slot) {
                Ok(true) => left -= 1,
                Ok(false) => break,
                Err(BadRing) => {
                    round.bad.push(slot);
                    break;
                }
            }
        }
        round.packets += CLIENT_BUDGET - left;
        if let Some(client) = self.clients.get(slot) {
            client.release();
        }
    }

    /// Takes one packet of a client; false if there is none, or the datapath takes no more.
    fn serve_packet(&mut self, slot: Slot) -> Result<bool, BadRing> {
        let Some(client) = self.clients.get(slot) else { return Ok(false) };
        let head = match client.next()? {
            None => return Ok(false),
            Some(Sent::Packet(head)) => head,
            Some(Sent::Switch(number)) => {
                self.clients.switch(slot, number);
                return Ok(true);
            }
        };
        let here = head.dst == self.local.ip();
        if !here && self.inner.tx_space().is_none() {
            self.flush();
            if self.blocked || self.inner.tx_space().is_none() {
                return Ok(false);
            }
        }
        let Some(client) = self.clients.get(slot) else { return Ok(false) };
        client.take(&mut self.scratch[..head.len]);
        if let Err(reason) = may_send(slot, self.local.ip(), &head, &self.scratch[..head.len]) {
            client.counts.refused += 1;
            self.clients.count(reason);
        } else if here {
            self.deliver_here(slot, &head);
        } else {
            self.send(slot, &head);
        }
        Ok(true)
    }

    /// Takes what a client had sent before it left, as much as its ring holds, as far as the datapath takes it.
    pub(super) fn serve_rest(&mut self, slot: Slot) {
        for _ in 0..MOST_SENT.div_ceil(CLIENT_BUDGET) {
            let mut round = ServiceRound::default();
            self.serve_client(slot, &mut round);
            if round.packets == 0 || !round.bad.is_empty() {
                break;
            }
        }
        self.flush();
        self.publish();
    }

    /// Hands a packet of one client to another one, or to itself.
    fn deliver_here(&mut self, from: Slot, head: &SentHead) {
        self.local_packets += 1;
        let rx = arrived(self.local, head, &self.scratch[..head.len]);
        self.clients.deliver(&rx);
        if let Some(to) = Slot::new(self.scratch[Slot::OFFSET]) {
            self.clients.count_between(from, to);
        }
    }

    /// Gives the packet in the scratch buffer to the datapath, which has room for it.
    fn send(&mut self, slot: Slot, head: &SentHead) {
        let Self { inner, clients, scratch, local, .. } = self;
        let Some(client) = clients.get(slot) else { return };
        let Some(space) = inner.tx_space() else { return };
        space[..head.len].copy_from_slice(&scratch[..head.len]);
        let src_port = source_port(inner.as_mut(), client, head.src_port);
        let route = Route {
            src: SocketAddr::new(local.ip(), src_port),
            dst: SocketAddr::new(head.dst, local.port()),
            // 0 may not be on the wire.
            hop_limit: head.hop_limit.max(1),
            traffic_class: head.traffic_class,
        };
        if head.starts_batch {
            inner.tx_break();
        }
        let icrc = &mut client.icrc;
        inner.tx_commit(&route, head.len, &mut |ip_id, packet| {
            seal(icrc, head, &route, ip_id, packet)
        });
        if head.dst.is_multicast() && !self.loops_multicast {
            let rx = arrived(self.local, head, &self.scratch[..head.len]);
            self.clients.deliver(&rx);
        }
    }

    fn publish(&mut self) {
        for n in 0..self.clients.slots.len() {
            let slot = self.clients.slots[n];
            if let Some(client) = self.clients.get(slot) {
                client.publish();
            }
        }
    }

    pub(super) fn join(&mut self, slot: Slot, group: IpAddr) -> io::Result<()> {
        check_group(&self.local, &group)?;
        let inner = &mut self.inner;
        self.clients.join(slot, group, || inner.join(group))
    }

    pub(super) fn leave(&mut self, slot: Slot, group: IpAddr) {
        if self.clients.leave(slot, group) {
            self.close_group(group);
        }
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        for group in self.clients.remove(slot) {
            self.close_group(group);
        }
    }

    fn close_group(&mut self, group: IpAddr) {
        if let Err(error) = self.inner.leave(group) {
            tracing::debug!(%error, %group, "a multicast group could not be left");
        }
    }

    /// Announces to clients and the datapath that the service is about to sleep; true if there is something to do.
    pub(super) fn arm(&mut self) -> bool {
        self.clients.iter().for_each(|client| client.announce_sleep(true));
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let sent = !self.blocked && self.clients.iter().any(AttachedClient::has_sent);
        sent || self.inner.arm()
    }

    pub(super) fn disarm(&mut self) {
        self.clients.iter().for_each(|client| client.announce_sleep(false));
        self.inner.disarm();
    }
}

/// The source port that the datapath has for the one that was asked for.
fn source_port(inner: &mut dyn Datapath, client: &mut AttachedClient, wanted: u16) -> u16 {
    match client.port {
        Some((last, port)) if last == wanted => port,
        _ => {
            let port = inner.source_port(wanted);
            client.port = Some((wanted, port));
            port
        }
    }
}

/// Writes the ICRC. One that the client has written stays as right, or as wrong, as it was: faults may be wanted.
fn seal(icrc: &mut FlowIcrc, head: &SentHead, route: &Route, ip_id: u16, packet: &mut [u8]) {
    let Some((covered, trailer)) = packet.split_last_chunk_mut::<ICRC_LEN>() else { return };
    let (src, dst) = (route.src.ip(), route.dst.ip());
    let flow = Flow { src, dst, src_port: route.src.port(), dst_port: route.dst.port() };
    let mut value = icrc.icrc(&flow, ip_id, covered);
    if head.sealed {
        let named = Flow { src_port: head.src_port, ..flow };
        value ^= uroce_wire::icrc(&named, 0, covered) ^ u32::from_le_bytes(*trailer);
    }
    *trailer = value.to_le_bytes();
}

/// Whether packets are left to be tried again a little later: an interface that is down may come up again.
fn is_blocked(flushed: io::Result<Flush>) -> io::Result<bool> {
    match flushed {
        Err(error) if error.raw_os_error() == Some(Errno::NETDOWN.raw_os_error()) => Ok(true),
        flushed => Ok(flushed?.blocked),
    }
}

#[cfg(test)]
mod tests;
