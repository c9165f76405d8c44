//! The network between the NICs: latency, faults by rules, and links that go down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use uroce_fault::{Direction, FaultInjector, PacketMeta, Plan, Verdict};
use uroce_wire::Flow;

use crate::port::SimPacket;
use crate::scenario::{Outage, Scenario};

/// Nanoseconds between the arrivals of two packets at one NIC: 100 Gb/s with 1 KiB packets.
const SPACING_NS: u64 = 90;

/// A packet on its way.
#[derive(Debug)]
struct InTransit {
    at_ns: u64,
    /// Orders packets that arrive at the same time.
    number: u64,
    from: usize,
    to: usize,
    packet: SimPacket,
    /// No fault rule has held or altered it.
    is_intact: bool,
}

/// A packet that has arrived at a NIC.
#[derive(Debug)]
pub(crate) struct ArrivedPacket {
    /// Who has sent it, whatever its source address.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packet: SimPacket,
    /// No fault rule has held or altered it.
    pub(crate) is_intact: bool,
}

impl InTransit {
    fn key(&self) -> Reverse<(u64, u64)> {
        Reverse((self.at_ns, self.number))
    }
}

impl PartialEq for InTransit {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for InTransit {}

impl PartialOrd for InTransit {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InTransit {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
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
    in_transit: BinaryHeap<InTransit>,
    numbered: u64,
    latency_ns: u64,
    coalesce_ns: u64,
    /// When the next packet may arrive at each NIC.
    free_at_ns: Vec<u64>,
    outages: Vec<Outage>,
    has_faults: bool,
    pub(crate) counters: NetworkCounters,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario) -> Network {
        let plan = match scenario.faults.as_str() {
            "" => Plan::default(),
            rules => rules.parse().expect("rules that the scenario has made"),
        };
        Network {
            has_faults: !plan.is_empty(),
            injector: FaultInjector::new(&plan, scenario.seed),
            in_transit: BinaryHeap::new(),
            numbered: 0,
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
            return;
        }
        if !self.has_faults {
            return self.dispatch(now_ns, [from, to], packet, true);
        }
        let meta = meta_of(&packet, from, to);
        match self.injector.handle_packet(Duration::from_nanos(now_ns), &meta, &packet.bytes) {
            Verdict::Pass => self.dispatch(now_ns, [from, to], packet, true),
            Verdict::Dropped => self.counters.dropped += 1,
            Verdict::Taken => self.counters.altered += 1,
        }
        self.release(now_ns);
        while self.injector.poll_event().is_some() {}
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
        [self.in_transit.peek().map(|next| next.at_ns), held].into_iter().flatten().min()
    }

    /// The next packet that has arrived by now.
    pub(crate) fn poll_arrival(&mut self, now_ns: u64) -> Option<ArrivedPacket> {
        self.release(now_ns);
        loop {
            if self.in_transit.peek()?.at_ns > now_ns {
                return None;
            }
            let InTransit { from, to, packet, is_intact, .. } = self.in_transit.pop()?;
            if self.is_down(now_ns, to) {
                self.counters.outage += 1;
                continue;
            }
            self.counters.delivered += 1;
            return Some(ArrivedPacket { from, to, packet, is_intact });
        }
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
            let packet = SimPacket { route, bytes: release.packet.to_vec() };
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
        self.numbered += 1;
        self.in_transit.push(InTransit {
            at_ns,
            number: self.numbered,
            from,
            to,
            packet,
            is_intact,
        });
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
