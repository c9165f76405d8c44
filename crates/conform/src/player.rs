//! Sends packets, sorts those that come by queue pair, and writes down all of them.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use uroce_wire::{Bth, Header, Opcode};

use crate::{Entry, Incoming, Outgoing, Packet, Side, Stop, Wire};

/// Packets of a case that are written down; more than that is a flood, which counts but is not kept.
const KEPT: usize = 10_000;
/// Packets that a peer may send during a case.
const FLOOD: usize = 20_000;
/// Packets that are looked at when a wait is over: some may have come in time.
const LATE: usize = 1024;
/// The UDP source port of packets that do not ask for another one.
const SOURCE_PORT: u16 = 0xc0de;

/// The tester's end of the wire.
pub(crate) struct Player<'r> {
    wire: &'r mut dyn Wire,
    peer: IpAddr,
    /// By the queue pair number of the tester.
    waiting: HashMap<u32, VecDeque<Seen>>,
    /// CNPs by the queue pair number of the tester.
    cnps: HashMap<u32, Vec<Seen>>,
    entries: Vec<Entry>,
    /// Packets that came.
    came: usize,
}

/// A packet that came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) packet: Incoming,
}

impl<'r> Player<'r> {
    pub(crate) fn new(wire: &'r mut dyn Wire, peer: IpAddr) -> Self {
        let (waiting, cnps) = (HashMap::new(), HashMap::new());
        Player { wire, peer, waiting, cnps, entries: Vec::new(), came: 0 }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.wire.address()
    }

    pub(crate) fn now(&self) -> Duration {
        self.wire.now()
    }

    pub(crate) fn note(&mut self, text: String) {
        let at = self.wire.now();
        self.keep(Entry::Note { at, text });
    }

    /// Writes down that a queue pair of the tester and one of the peer are connected.
    pub(crate) fn connected(&mut self, tester: u32, peer: u32) {
        let at = self.wire.now();
        self.keep(Entry::Connected { at, tester, peer });
    }

    pub(crate) fn finish(self) -> Vec<Entry> {
        self.entries
    }

    fn keep(&mut self, entry: Entry) {
        if self.entries.len() < KEPT {
            self.entries.push(entry);
        }
    }

    pub(crate) fn send(&mut self, packet: &Packet) -> Result<(), Stop> {
        let covered = packet.covered();
        let source_port = packet.source_port.unwrap_or(SOURCE_PORT);
        let outgoing = Outgoing {
            to: self.peer,
            source_port,
            traffic_class: packet.traffic_class,
            covered: &covered,
            damage: packet.icrc.damage(),
        };
        let sent = self.wire.send(&outgoing);
        let bytes = sent.map_err(|error| Stop::Broken(error.to_string()))?;
        let traffic_class = packet.traffic_class;
        let at = self.wire.now();
        self.keep(Entry::Packet { at, side: Side::Tester, bytes, traffic_class, source_port });
        Ok(())
    }

    /// The next packet to a queue pair of the tester, if one comes in time.
    pub(crate) fn receive(&mut self, qpn: u32, wait: Duration) -> Result<Option<Seen>, Stop> {
        let end = self.wire.now() + wait;
        let mut late = 0;
        loop {
            if let Some(seen) = self.waiting.get_mut(&qpn).and_then(VecDeque::pop_front) {
                return Ok(Some(seen));
            }
            let left = end.saturating_sub(self.wire.now());
            let came = self.wire.receive(left);
            match came.map_err(|error| Stop::Broken(error.to_string()))? {
                Some(_) if late >= LATE => return Ok(None),
                Some(packet) => {
                    late += usize::from(left.is_zero());
                    self.sort(packet)?;
                }
                None if self.wire.now() >= end => return Ok(None),
                None => {}
            }
        }
    }

    /// CNPs that came so far for a queue pair of the tester.
    pub(crate) fn cnps(&mut self, qpn: u32) -> Vec<Seen> {
        self.cnps.remove(&qpn).unwrap_or_default()
    }

    fn sort(&mut self, packet: Incoming) -> Result<(), Stop> {
        self.came += 1;
        if self.came > FLOOD {
            return Err(Stop::Fail(format!("it sent more than {FLOOD} packets")));
        }
        let at = self.wire.now();
        self.keep(Entry::Packet {
            at,
            side: Side::Peer,
            bytes: packet.bytes.clone(),
            traffic_class: packet.traffic_class,
            source_port: packet.source_port,
        });
        let Some(bth) = Bth::read(&packet.bytes) else { return Ok(()) };
        if packet.from != self.peer {
            return Ok(());
        }
        let qpn = bth.dest_qpn.get();
        let seen = Seen { at, packet };
        if bth.opcode == Opcode::CNP {
            self.cnps.entry(qpn).or_default().push(seen);
        } else {
            self.waiting.entry(qpn).or_default().push_back(seen);
        }
        Ok(())
    }
}
