//! Packets made by hand, for the tests of the tracker.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use uroce_wire::{
    Aeth, AtomicEth, Bth, Deth, HeaderSet, NakCode, Opcode, Psn, Qpn, Reth, Syndrome,
};

use super::{Annotation, FlowId, Message, Tracker, TrackerConfig};
use crate::{Direction, IcrcStatus, Packet, Timestamp};

/// Path MTU of the packets made here.
pub(super) const MTU: u32 = 1024;

/// One end: an address and a queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) host: u8,
    pub(super) qpn: u32,
}

pub(super) const A: End = End { host: 1, qpn: 0x11 };
pub(super) const B: End = End { host: 2, qpn: 0x22 };

impl End {
    pub(super) fn address(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, self.host))
    }
}

/// A capture that grows packet by packet, and the tracker that reads it.
pub(super) struct Wire {
    pub(super) tracker: Tracker,
    frame: u64,
    now: u64,
    /// Which way the next packets go at the interface.
    pub(super) direction: Option<Direction>,
    /// Microseconds from one packet to the next.
    pub(super) step_us: u64,
}

impl Wire {
    pub(super) fn new() -> Self {
        Self::with(TrackerConfig { path_mtu: Some(MTU), ..TrackerConfig::default() })
    }

    pub(super) fn with(config: TrackerConfig) -> Self {
        Self {
            tracker: Tracker::new(config),
            frame: 0,
            now: 1_000_000,
            direction: None,
            step_us: 10,
        }
    }

    /// Lets time pass.
    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time.as_nanos() as u64;
    }

    /// A packet between two ends, with an opcode and a PSN; nothing else is set.
    pub(super) fn packet(&mut self, from: End, to: End, opcode: Opcode, psn: u32) -> Packet {
        self.frame += 1;
        self.now += self.step_us * 1000;
        Packet {
            frame: self.frame,
            time: Timestamp::from_nanos(self.now),
            direction: self.direction,
            source: SocketAddr::new(from.address(), 0xc000 | from.qpn as u16),
            destination: SocketAddr::new(to.address(), 4791),
            traffic_class: 2,
            wire_len: 62,
            icrc: IcrcStatus::Right,
            ..Packet::new(Bth::new(opcode, Qpn::new(to.qpn), Psn::new(psn)))
        }
    }

    pub(super) fn give(&mut self, packet: &Packet) -> Annotation {
        self.tracker.handle_packet(packet, &[])
    }

    /// A request or a response that carries `bytes`; a response that has an AETH says ACK.
    pub(super) fn data(
        &mut self,
        from: End,
        to: End,
        opcode: Opcode,
        psn: u32,
        bytes: u32,
    ) -> Annotation {
        let mut packet = self.packet(from, to, opcode, psn);
        (packet.payload_len, packet.wire_len) = (bytes, bytes + 62);
        let has_aeth =
            packet.opcode_info.is_some_and(|info| info.headers.contains(HeaderSet::AETH));
        let ends = packet.opcode_info.is_some_and(|info| info.ends());
        packet.bth.ack_req = ends && !has_aeth;
        packet.aeth = has_aeth.then_some(Aeth { syndrome: Syndrome::ack(31), msn: 1 });
        self.give(&packet)
    }

    /// A SEND ONLY of 100 bytes.
    pub(super) fn send(&mut self, from: End, to: End, psn: u32) -> Annotation {
        self.data(from, to, Opcode::RC_SEND_ONLY, psn, 100)
    }

    /// SENDs of 100 bytes with all these PSNs.
    pub(super) fn sends(&mut self, from: End, to: End, psns: impl IntoIterator<Item = u32>) {
        for psn in psns {
            self.send(from, to, psn);
        }
    }

    /// A WRITE of `packets` full packets; the annotations of those that `keep` lets through.
    pub(super) fn write(
        &mut self,
        from: End,
        to: End,
        first: u32,
        packets: u32,
        keep: impl Fn(u32) -> bool,
    ) -> Vec<Annotation> {
        let psns = (0..packets).map(|index| (index, Psn::new(first).add(index).get()));
        psns.filter(|(index, _)| keep(*index))
            .map(|(index, psn)| self.data(from, to, write_opcode(index, packets), psn, MTU))
            .collect()
    }

    pub(super) fn read(&mut self, from: End, to: End, psn: u32, bytes: u32) -> Annotation {
        let mut packet = self.packet(from, to, Opcode::RC_READ_REQUEST, psn);
        packet.reth = Some(Reth { va: 0x1000, rkey: 7, length: bytes });
        self.give(&packet)
    }

    pub(super) fn fetch_add(&mut self, from: End, to: End, psn: u32) -> Annotation {
        let mut packet = self.packet(from, to, Opcode::RC_FETCH_ADD, psn);
        packet.atomic_eth = Some(AtomicEth { va: 8, rkey: 7, swap_add: 1, compare: 0 });
        self.give(&packet)
    }

    fn aeth(&mut self, from: End, to: End, psn: u32, syndrome: Syndrome) -> Annotation {
        let mut packet = self.packet(from, to, Opcode::RC_ACKNOWLEDGE, psn);
        packet.aeth = Some(Aeth { syndrome, msn: 1 });
        self.give(&packet)
    }

    pub(super) fn ack(&mut self, from: End, to: End, psn: u32) -> Annotation {
        self.aeth(from, to, psn, Syndrome::ack(31))
    }

    pub(super) fn nak(&mut self, from: End, to: End, psn: u32, code: NakCode) -> Annotation {
        self.aeth(from, to, psn, Syndrome::nak(code))
    }

    pub(super) fn rnr(&mut self, from: End, to: End, psn: u32, timer: u8) -> Annotation {
        self.aeth(from, to, psn, Syndrome::rnr(timer))
    }

    /// A datagram of UD, with a payload that the tracker may read.
    pub(super) fn datagram(&mut self, from: End, to: End, psn: u32, payload: &[u8]) -> Annotation {
        let mut packet = self.packet(from, to, Opcode::UD_SEND_ONLY, psn);
        packet.deth = Some(Deth { qkey: 1, src_qpn: Qpn::new(from.qpn) });
        packet.payload_len = payload.len() as u32;
        self.tracker.handle_packet(&packet, payload)
    }

    /// All messages that are over.
    pub(super) fn messages(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.tracker.poll_message()).collect()
    }

    pub(super) fn figures(&self, id: FlowId) -> &super::Figures {
        self.tracker.flow(id).expect("a flow with this id").figures()
    }
}

/// Opcode of packet `index` of a WRITE of `packets`.
pub(super) fn write_opcode(index: u32, packets: u32) -> Opcode {
    match (index == 0, index + 1 == packets) {
        (true, true) => Opcode::RC_WRITE_ONLY,
        (true, false) => Opcode::RC_WRITE_FIRST,
        (false, true) => Opcode::RC_WRITE_LAST,
        (false, false) => Opcode::RC_WRITE_MIDDLE,
    }
}

/// Opcode of response `index` of a READ of `packets`.
pub(super) fn read_opcode(index: u32, packets: u32) -> Opcode {
    match (index == 0, index + 1 == packets) {
        (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
        (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
        (false, true) => Opcode::RC_READ_RESPONSE_LAST,
        (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
    }
}
