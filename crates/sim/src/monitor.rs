//! Rules for packets, checked from what is on the wire alone.

mod frame;
mod mads;
mod message_count;
mod psn;
mod qpn_hash;
mod requests;
mod responses;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use uroce_device::transport::QpType;
use uroce_wire::{Mtu, Opcode, Operation, Packet, Psn, Qpn, SyndromeKind};

pub(crate) use self::frame::{has_good_icrc, icrc_of};
use self::mads::MadMonitor;
pub(crate) use self::psn::PsnLine;
use self::qpn_hash::QpnHash;
use self::requests::RequestMonitor;
use self::responses::ResponseMonitor;
use crate::coverage::Coverage;
use crate::network::FaultyPacket;
use crate::sim_packet::{ArrivedPacket, SimPacket};
use crate::violation::{Check, Invariant, ensure};

/// A queue pair, by its node and its number.
pub(crate) type NodeQpn = (usize, Qpn);

/// Two queue pairs that were connected, and how.
#[derive(Debug, Clone)]
pub(crate) struct MonitoredConnection {
    pub(crate) ends: [NodeQpn; 2],
    /// First PSNs of both.
    pub(crate) psns: [u32; 2],
    pub(crate) service: QpType,
    pub(crate) mtu: Mtu,
    /// READs and atomics of each end that may be outstanding.
    pub(crate) max_rd_atomic: [u8; 2],
    /// Which of them is the model of another stack: what it sends is judged by its form only.
    pub(crate) models: [bool; 2],
}

/// One end of a connection, as it is seen in its packets.
#[derive(Debug)]
struct MonitoredQp {
    peer: NodeQpn,
    is_model: bool,
    service: QpType,
    mtu: Mtu,
    /// Its requests.
    requests: RequestMonitor,
    /// Its answers to the peer's requests.
    responses: ResponseMonitor,
    /// The PSN of its next packet, where the service has no acknowledgements.
    next: Psn,
}

/// Bytes that went to and came from a node which is no peer of anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stranger {
    bytes_in: u64,
    bytes_out: u64,
}

/// The judge of all packets of a simulation.
#[derive(Debug)]
pub(crate) struct Monitor {
    sides: HashMap<NodeQpn, MonitoredQp, QpnHash>,
    mads: MadMonitor,
    /// Who is no NIC of ours: the node behind them all.
    stranger: (usize, Stranger),
    /// Packets that were sent, by opcode.
    sent: [u64; 256],
}

impl Monitor {
    /// `stranger` is the number of the node that is no peer of anybody.
    pub(crate) fn new(stranger: usize) -> Monitor {
        let stranger = (stranger, Stranger::default());
        Monitor { sides: HashMap::default(), mads: MadMonitor::default(), stranger, sent: [0; 256] }
    }

    /// Adds the packets that were sent.
    pub(crate) fn report(&self, coverage: &mut Coverage) {
        let counts = (0..=255).map(Opcode).zip(self.sent);
        for (opcode, count) in counts.filter(|(_, count)| *count > 0) {
            coverage.add(opcode.info().map_or("unknown opcode", |info| info.name), count);
        }
    }

    /// From now on packets between these queue pairs are those of a new connection.
    pub(crate) fn handle_connection(&mut self, connection: &MonitoredConnection) {
        let MonitoredConnection { ends, psns, service, mtu, max_rd_atomic, models } = *connection;
        for index in 0..2 {
            let side = MonitoredQp {
                peer: ends[1 - index],
                is_model: models[index],
                service,
                mtu,
                requests: RequestMonitor::new(psns[index], mtu, max_rd_atomic[index]),
                responses: ResponseMonitor::new(psns[1 - index], mtu),
                next: Psn::new(psns[index]),
            };
            self.sides.insert(ends[index], side);
        }
    }

    /// A packet that a NIC has emitted.
    pub(crate) fn handle_sent(
        &mut self,
        now_ns: u64,
        from: usize,
        to: usize,
        packet: &SimPacket,
        coverage: &mut Coverage,
    ) -> Check {
        let (src, dst) = (packet.route.src, packet.route.dst);
        let parsed = frame::check_emitted(src, dst, &packet.bytes)?;
        self.sent[usize::from(parsed.bth.opcode.0)] += 1;
        count_nak(&parsed, coverage);
        let name = parsed.info.name;
        if to == self.stranger.0 {
            return self.stranger.1.check_reply(name, packet.bytes.len());
        }
        let qpn = parsed.bth.dest_qpn;
        if qpn == Qpn::GSI {
            return self.mads.handle_sent(src.ip(), dst.ip(), &parsed, now_ns, coverage);
        }
        let peer = self.sides.get(&(to, qpn)).map(|side| side.peer);
        let holds = peer.is_some_and(|(node, _)| node == from);
        ensure(holds, Invariant::Strangers, || {
            format!("node {from} sends a {name} to {qpn:?} of node {to}, which is no peer of its")
        })?;
        match peer.and_then(|peer| self.sides.get_mut(&peer)) {
            Some(side) => side.handle_sent(&parsed, now_ns, coverage),
            None => Ok(()),
        }
    }

    /// A packet that a NIC takes in.
    pub(crate) fn handle_arrived(&mut self, now_ns: u64, arrival: &ArrivedPacket) {
        let ArrivedPacket { from, to, packet, is_intact } = arrival;
        let (src, dst) = (packet.route.src, packet.route.dst);
        if *from == self.stranger.0 {
            self.stranger.1.bytes_in += packet.bytes.len() as u64;
            return self.note_forged(now_ns, packet);
        }
        if !*is_intact && !frame::has_good_icrc(src, dst, &packet.bytes) {
            return;
        }
        let Ok(parsed) = Packet::parse(&packet.bytes) else { return };
        if parsed.bth.dest_qpn == Qpn::GSI {
            return self.mads.handle_arrived(now_ns, src.ip(), dst.ip(), &parsed);
        }
        let Some(side) = self.sides.get_mut(&(*to, parsed.bth.dest_qpn)) else { return };
        if !side.service.is_reliable() || side.peer.0 != *from || side.is_model {
            return;
        }
        if parsed.info.is_response() {
            side.requests.handle_arrived(&parsed, now_ns);
        } else if parsed.info.is_request() {
            side.responses.handle_arrived(&parsed);
        }
    }
}

impl Monitor {
    /// A packet that the network has lost, changed, doubled or held back.
    pub(crate) fn handle_faulty(&mut self, now_ns: u64, faulty: &FaultyPacket) {
        let FaultyPacket { from, to, dest_qpn, is_response } = *faulty;
        let addressed = (to, dest_qpn);
        let Some(peer) = self.sides.get(&addressed).map(|side| side.peer) else { return };
        let requester = if is_response { addressed } else { peer };
        if from == peer.0
            && let Some(side) = self.sides.get_mut(&requester)
        {
            side.requests.note_fault(now_ns);
        }
    }

    /// Requests of this queue pair, and responses to it, up to seven, that have met a fault since its last acknowledgement,
    /// or so shortly before that they may still have been on their way. Behind an acknowledgement after which it has sent
    /// nothing it may have failed before, and its application not have seen it.
    pub(crate) fn recent_faults(&self, requester: NodeQpn, on_their_way_ns: u64) -> usize {
        let side = self.sides.get(&requester);
        side.map_or(0, |side| side.requests.recent_faults_if_silent(on_their_way_ns))
    }

    /// A MAD under a forged address may be answered to who has that address.
    fn note_forged(&mut self, now_ns: u64, packet: &SimPacket) {
        let Ok(parsed) = Packet::parse(&packet.bytes) else { return };
        if parsed.bth.dest_qpn == Qpn::GSI {
            let (src, dst) = (packet.route.src.ip(), packet.route.dst.ip());
            self.mads.handle_arrived(now_ns, src, dst, &parsed);
        }
    }
}

impl MonitoredQp {
    fn handle_sent(&mut self, packet: &Packet<'_>, now_ns: u64, coverage: &mut Coverage) -> Check {
        let (name, length) = (packet.info.name, packet.payload().len());
        ensure(length <= self.mtu.bytes(), Invariant::Frames, || {
            format!("a {name} carries {length} bytes, but the path MTU is {}", self.mtu.bytes())
        })?;
        if packet.info.operation == Operation::Cnp || self.is_model {
            return Ok(());
        }
        if !self.service.is_reliable() {
            let psn = packet.bth.psn;
            let due = std::mem::replace(&mut self.next, psn.add(1));
            return ensure(psn == due, Invariant::Sequence, || {
                format!("a {name} has the PSN {psn}, not {due}")
            });
        }
        if packet.info.is_response() {
            return self.responses.handle_sent(packet);
        }
        if self.requests.handle_sent(packet, now_ns)? {
            coverage.count("a request that is sent again");
        }
        Ok(())
    }
}

impl Stranger {
    /// I9: nobody is sent more than it has sent.
    fn check_reply(&mut self, name: &str, bytes: usize) -> Check {
        self.bytes_out += bytes as u64;
        let Stranger { bytes_in, bytes_out } = *self;
        ensure(bytes_out <= bytes_in, Invariant::Strangers, || {
            format!("a stranger has sent {bytes_in} bytes, and with a {name} is sent {bytes_out}")
        })
    }
}

/// The syndromes of acknowledgements.
fn count_nak(packet: &Packet<'_>, coverage: &mut Coverage) {
    let Some(aeth) = packet.aeth() else { return };
    match aeth.syndrome.kind() {
        SyndromeKind::Rnr { .. } => coverage.count("RNR NAK"),
        SyndromeKind::Nak(code) => coverage.count_nak(code),
        _ => {}
    }
}
