//! The network between the NICs: latency, faults by rules, and links that go down.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use slab::Slab;
use uroce_fault::{Direction, FaultInjector, PacketMeta, Plan, Verdict};
use uroce_wire::{Flow, Packet, Qpn};

use crate::buffers::PacketBuffers;
use crate::scenario::{Outage, Scenario};
use crate::sim_packet::{ArrivedPacket, SimPacket};

/// Nanoseconds between the arrivals of two packets at one NIC: 100 Gb/s with 1 KiB packets.
const SPACING_NS: u64 = 90;

/// Packets on their way, in the order in which they arrive.
#[derive(Debug, Default)]
struct InTransit {
    /// When a packet arrives, its number, which orders those that arrive at the same time, and its place.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    packets: Slab<ArrivedPacket>,
    numbered: u64,
}

impl InTransit {
    fn push(&mut self, at_ns: u64, packet: ArrivedPacket) {
        self.numbered += 1;
        let place = self.packets.insert(packet);
        self.order.push(Reverse((at_ns, self.numbered, place)));
    }

    /// When the next packet arrives.
    fn next_ns(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// The next packet that arrives by now.
    fn pop(&mut self, now_ns: u64) -> Option<ArrivedPacket> {
        self.next_ns().filter(|at_ns| *at_ns <= now_ns)?;
        let Reverse((_, _, place)) = self.order.pop()?;
        Some(self.packets.remove(place))
    }
}

/// A packet that did not arrive once, as it was sent and when it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultyPacket {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) dest_qpn: Qpn,
    pub(crate) is_response: bool,
}

/// Counts of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NetworkCounters {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
    pub(crate) altered: u64,
    pub(crate) outage: u64,
}

/// All links of a simulation.
pub(crate) struct Network {
    injector: FaultInjector,
    in_transit: InTransit,
    latency_ns: u64,
    coalesce_ns: u64,
    /// When the next packet may arrive at each NIC.
    free_at_ns: Vec<u64>,
    outages: Vec<Outage>,
    has_faults: bool,
    faulty: VecDeque<FaultyPacket>,
    buffers: PacketBuffers,
    pub(crate) counters: NetworkCounters,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, buffers: PacketBuffers) -> Network {
        let plan = match scenario.faults.as_str() {
            "" => Plan::default(),
            rules => rules.parse().expect("rules that the scenario has made"),
        };
        Network {
            has_faults: !plan.is_empty(),
            injector: FaultInjector::new(&plan, scenario.seed),
            in_transit: InTransit::default(),
            faulty: VecDeque::new(),
            buffers,
            latency_ns: scenario.latency_ns,
            coalesce_ns: scenario.coalesce_ns.max(1),
            // One more, for who is no NIC.
            free_at_ns: vec![0; scenario.nodes + 1],
            outages: scenario.outages.clone(),
            counters: NetworkCounters::default(),
        }
    }

    /// Sends a packet to the NIC number `to`.
    pub(crate) fn send(&mut self, now_ns: u64, from: usize, to: usize, packet: SimPacket) {
        self.counters.sent += 1;
        if self.is_down(now_ns, from) || self.is_down(now_ns, to) {
            self.counters.outage += 1;
            return self.note_fault([from, to], &packet.bytes);
        }
        if !self.has_faults {
            return self.dispatch(now_ns, [from, to], packet, true);
        }
        let meta = meta_of(&packet, from, to);
        let (waiting, _) = self.injector.waiting();
        let verdict =
            self.injector.handle_packet(Duration::from_nanos(now_ns), &meta, &packet.bytes);
        // One that passes may leave a copy behind.
        if verdict != Verdict::Pass || self.injector.waiting().0 != waiting {
            self.note_fault([from, to], &packet.bytes);
        }
        match verdict {
            Verdict::Pass => self.dispatch(now_ns, [from, to], packet, true),
            verdict => {
                let is_dropped = verdict == Verdict::Dropped;
                self.counters.dropped += u64::from(is_dropped);
                self.counters.altered += u64::from(!is_dropped);
                self.buffers.give_back(packet.bytes);
            }
        }
        self.release(now_ns);
        while self.injector.poll_event().is_some() {}
    }

    /// A node has no link for a while.
    pub(crate) fn add_outage(&mut self, outage: Outage) {
        self.outages.push(outage);
    }

    /// From now on there are no faults. Packets that wait go on.
    pub(crate) fn end_faults(&mut self) {
        self.outages.clear();
        self.has_faults = false;
    }

    /// When a packet arrives, or goes on, next.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let held = match self.injector.waiting() {
            (0, _) => None,
            _ => self.injector.poll_timeout().map(|at| at.as_nanos() as u64),
        };
        self.in_transit.next_ns().into_iter().chain(held).min()
    }

    /// The next packet that has arrived by now.
    pub(crate) fn poll_arrival(&mut self, now_ns: u64) -> Option<ArrivedPacket> {
        self.release(now_ns);
        loop {
            let arrived = self.in_transit.pop(now_ns)?;
            if !self.is_down(now_ns, arrived.to) {
                self.counters.delivered += 1;
                return Some(arrived);
            }
            self.counters.outage += 1;
            self.note_fault([arrived.from, arrived.to], &arrived.packet.bytes);
            self.buffers.give_back(arrived.packet.bytes);
        }
    }

    /// The next packet that met a fault.
    pub(crate) fn poll_faulty(&mut self) -> Option<FaultyPacket> {
        self.faulty.pop_front()
    }

    fn note_fault(&mut self, [from, to]: [usize; 2], bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let (dest_qpn, is_response) = (packet.bth.dest_qpn, packet.info.is_response());
        self.faulty.push_back(FaultyPacket { from, to, dest_qpn, is_response });
    }

    fn is_down(&self, now_ns: u64, node: usize) -> bool {
        self.outages.iter().any(|outage| outage.node == node && outage.covers(now_ns))
    }

    /// Takes from the fault injector what goes on by now.
    fn release(&mut self, now_ns: u64) {
        if self.injector.waiting() == (0, 0) {
            return;
        }
        while let Some(release) = self.injector.poll_packet(Duration::from_nanos(now_ns)) {
            let Flow { src, dst, src_port, dst_port } = release.meta.flow;
            let route = uroce_datapath::Route {
                src: (src, src_port).into(),
                dst: (dst, dst_port).into(),
                hop_limit: 64,
                traffic_class: release.meta.traffic_class,
            };
            let [from, to] = nodes_of(release.meta.tag);
            let packet = SimPacket { route, bytes: self.buffers.copy_of(release.packet) };
            self.dispatch(now_ns, [from, to], packet, false);
        }
    }

    fn dispatch(
        &mut self,
        now_ns: u64,
        [from, to]: [usize; 2],
        packet: SimPacket,
        is_intact: bool,
    ) {
        let at_ns = (now_ns + self.latency_ns).max(self.free_at_ns[to]);
        self.free_at_ns[to] = at_ns + SPACING_NS;
        let at_ns = at_ns.next_multiple_of(self.coalesce_ns);
        self.in_transit.push(at_ns, ArrivedPacket { from, to, packet, is_intact });
    }
}

/// The nodes that a tag of [`meta_of`] names.
fn nodes_of(tag: u32) -> [usize; 2] {
    [(tag >> 16) as usize, (tag & 0xffff) as usize]
}

fn meta_of(packet: &SimPacket, from: usize, to: usize) -> PacketMeta {
    let (src, dst) = (packet.route.src, packet.route.dst);
    PacketMeta {
        direction: Direction::Tx,
        flow: Flow { src: src.ip(), dst: dst.ip(), src_port: src.port(), dst_port: dst.port() },
        ip_id: 0,
        traffic_class: packet.route.traffic_class,
        tag: (from as u32) << 16 | to as u32,
    }
}
