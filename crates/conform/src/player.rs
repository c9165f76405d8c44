//! Sends packets, sorts those that come by queue pair, and writes down all of them.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use uroce_wire::{Bth, Header, Opcode};

use crate::packet::SOURCE_PORT;
use crate::{Entry, Frame, FrameEnds, Incoming, Outgoing, Packet, Side, Stop, Wire};

/// Packets of a case that are written down; more than that is a flood, which counts but is not kept.
const KEPT: usize = 10_000;
/// Packets that a peer may send during a case, and all other hosts together.
const FLOOD: usize = 20_000;
/// The same while packets are only counted: the case has a bound of its own.
const COUNTED_FLOOD: usize = 200_000;
/// Packets that are looked at when a wait is over: some may have come in time.
const LATE: usize = 1024;

/// The tester's end of the wire.
pub(crate) struct Player<'r> {
    wire: &'r mut dyn Wire,
    peer: IpAddr,
    /// By the queue pair number of the tester.
    waiting: HashMap<u32, VecDeque<Seen>>,
    /// CNPs by the queue pair number of the tester.
    cnps: HashMap<u32, Vec<Seen>>,
    entries: Vec<Entry>,
    /// Packets of the NIC under test.
    heard: usize,
    /// Packets of other hosts.
    strangers: usize,
    /// A flood passes: its packets are counted and not written down.
    counting: bool,
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
        Player {
            wire,
            peer,
            waiting,
            cnps,
            entries: Vec::new(),
            heard: 0,
            strangers: 0,
            counting: false,
        }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.wire.address()
    }

    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
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

    /// Packets of the NIC under test so far, to any queue pair.
    pub(crate) fn heard(&self) -> usize {
        self.heard
    }

    /// From now on packets are written down, or only counted.
    pub(crate) fn only_count(&mut self, counting: bool) {
        self.counting = counting;
    }

    /// Packets are only counted.
    pub(crate) fn only_counts(&self) -> bool {
        self.counting
    }

    /// The next packet, from any sender and for any queue pair, if one comes within `wait`; it is not written down.
    pub(crate) fn take(&mut self, wait: Duration) -> Result<Option<Incoming>, Stop> {
        self.wire.receive(wait).map_err(|error| Stop::Broken(error.to_string()))
    }

    /// Takes what comes, until nothing comes for `wait`.
    pub(crate) fn drain(&mut self, wait: Duration) -> Result<(), Stop> {
        loop {
            let came = self.wire.receive(wait);
            match came.map_err(|error| Stop::Broken(error.to_string()))? {
                Some(packet) => self.sort(packet)?,
                None => return Ok(()),
            }
        }
    }

    fn keep(&mut self, entry: Entry) {
        let counted = self.counting && matches!(entry, Entry::Packet { .. });
        if self.entries.len() < KEPT && !counted {
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

    /// What frames to the peer have in common, if the tester can send any.
    pub(crate) fn frame_ends(&mut self) -> Result<FrameEnds, Stop> {
        let ends = self.wire.frame_ends(self.peer);
        ends.map_err(|why| Stop::NotApplicable(format!("needs frames of the tester's own: {why}")))
    }

    pub(crate) fn send_frame(&mut self, frame: &Frame) -> Result<(), Stop> {
        let sent = self.wire.send_frame(&frame.bytes());
        sent.map_err(|error| Stop::Broken(error.to_string()))?;
        let at = self.wire.now();
        self.keep(frame.entry(at));
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
        if packet.from != self.peer {
            self.strangers += 1;
            return match self.strangers > FLOOD {
                true => Err(Stop::Broken(format!("more than {FLOOD} packets of other hosts came"))),
                false => Ok(()),
            };
        }
        self.heard += 1;
        let most = if self.counting { COUNTED_FLOOD } else { FLOOD };
        if self.heard > most {
            return Err(Stop::Fail(format!("it sent more than {most} packets")));
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
        if self.counting {
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
