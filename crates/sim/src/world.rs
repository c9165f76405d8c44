//! A running simulation: one clock, all nodes, the network, and the applications.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use uroce_device::{Device, ResourceKind, VirtualClock};
use uroce_wire::Flow;

use crate::adversary::{Adversary, AttackTarget, CmTarget, Forgery};
use crate::buffers::PacketBuffers;
use crate::coverage::Coverage;
use crate::monitor::Monitor;
use crate::network::Network;
use crate::nic::Nic;
use crate::node::{Node, address_of};
use crate::packet_event::{PacketEvent, Passage};
use crate::pair::crash::Mishap;
use crate::pair::{Pair, Turn};
use crate::port::{PortEvent, PortHandle};
use crate::random::Random;
use crate::scenario::{Crash, LONGEST_DELAY_NS, Mode, Outage, Scenario};
use crate::sim_packet::{ArrivedPacket, SimPacket};
use crate::trace::TraceHash;
use crate::violation::{AtTime as _, Check, Invariant, Violation, ensure};

/// The stream of random numbers of the adversary.
const ADVERSARY: usize = 1 << 32;
/// Poll iterations of a device at one moment before it counts as never idle.
const MAX_ITERATIONS: usize = 10_000;
/// Packets of a device at one moment.
const MAX_PACKETS: usize = 4096;
/// A call to a listener that has just gone is answered within this time.
const LATE_CALLS_NS: u64 = 2_100_000_000;
/// Time of a simulation whose faults do not end: it stops there.
const SAFETY_END_NS: u64 = 60_000_000_000;

/// What a simulation gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What happened how often.
    pub coverage: Coverage,
    /// Packets that were sent.
    pub packets: u64,
    /// Time that passed, in nanoseconds of the simulation's clock.
    pub end_ns: u64,
    /// A number for all packets, their times and their order: equal runs have equal ones.
    pub trace_hash: u64,
}

/// A simulation.
pub(crate) struct World<'a> {
    observer: &'a mut dyn FnMut(&PacketEvent<'_>),
    monitor: Monitor,
    adversary: Option<Adversary>,
    scenario: Scenario,
    clock: VirtualClock,
    now_ns: u64,
    nodes: Vec<Node>,
    network: Network,
    pairs: Vec<Pair>,
    /// When the application of each pair acts next.
    due_ns: Vec<Option<u64>>,
    calm_since_ns: Option<u64>,
    /// I14: when all has completed at the latest, and since when it might.
    latest: (u64, u64),
    coverage: Coverage,
    trace: TraceHash,
    /// Nodes at which something happens now, and who is no NIC.
    busy: Vec<bool>,
    /// Processes that are to end, the last one first.
    crashes: Vec<Crash>,
    buffers: PacketBuffers,
    /// What a node has just done.
    outbox: VecDeque<PortEvent>,
}

impl<'a> World<'a> {
    pub(crate) fn new(
        scenario: &Scenario,
        observer: &'a mut dyn FnMut(&PacketEvent<'_>),
    ) -> World<'a> {
        let clock = VirtualClock::new();
        let buffers = PacketBuffers::default();
        let nodes: Vec<Node> =
            (0..scenario.nodes).map(|index| Node::new(scenario, index, &clock, &buffers)).collect();
        let nics: Vec<Nic> = nodes.iter().map(|node| node.nic.clone()).collect();
        let random = |index| Random::new(scenario.seed, 1 + index as u64);
        let pair = |index| Pair::new(index, scenario, &nics, random(index));
        let pairs: Vec<Pair> = (0..scenario.pairs.len()).map(pair).collect();
        let adversary = (scenario.forged > 0).then(|| {
            Adversary::new(address_of(scenario, nodes.len()), scenario.forged, random(ADVERSARY))
        });
        World {
            observer,
            monitor: Monitor::new(nodes.len()),
            adversary,
            network: Network::new(scenario, buffers.clone()),
            buffers,
            crashes: in_order(&scenario.crashes),
            scenario: scenario.clone(),
            clock,
            now_ns: 0,
            busy: vec![false; nodes.len() + 1],
            nodes,
            due_ns: pairs.iter().map(Pair::poll_timeout).collect(),
            pairs,
            calm_since_ns: scenario.is_sound().then_some(0),
            latest: match scenario.mode {
                Mode::Safety => (SAFETY_END_NS + scenario.longest_calls_ns(), 0),
                Mode::Liveness => (scenario.liveness_end_ns(), scenario.faults_end_ns),
            },
            coverage: Coverage::default(),
            trace: TraceHash::default(),
            outbox: VecDeque::new(),
        }
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Result<Report, Violation> {
        for index in 0..self.pairs.len() {
            self.note_connection(index);
        }
        for index in 0..self.nodes.len() {
            self.settle(index)?;
        }
        while let Some(next_ns) = self.next_event() {
            self.check_end(next_ns)?;
            self.advance(next_ns)?;
        }
        // I14: it has not ended because nothing more will ever happen.
        let left = self.pairs.iter().find(|pair| !pair.is_done());
        ensure(left.is_none(), Invariant::Liveness, || {
            let left = left.map(Pair::describe).unwrap_or_default();
            format!("requests are left, and nothing will happen any more: {left}")
        })
        .at(self.now_ns)?;
        self.finish()
    }

    /// The next time at which something happens; `None` when all requests have completed.
    fn next_event(&self) -> Option<u64> {
        if self.pairs.iter().all(Pair::is_done) {
            return None;
        }
        let devices = self.nodes.iter().filter_map(|node| node.deadline_ns);
        let applications = self.due_ns.iter().filter_map(|due_ns| *due_ns);
        let adversary = self.adversary.as_ref().and_then(Adversary::poll_timeout);
        let network = self.network.poll_timeout();
        let crash = self.crashes.last().map(|crash| crash.at_ns);
        let others = network.into_iter().chain(adversary).chain(crash);
        let next = devices.chain(applications).chain(others).min()?;
        Some(next.max(self.now_ns))
    }

    /// I14: the simulation ends in time.
    fn check_end(&self, next_ns: u64) -> Result<(), Violation> {
        let (end_ns, since_ns) = self.latest;
        let what = || format!("requests are left after {} ns", next_ns - since_ns);
        ensure(next_ns <= end_ns, Invariant::Liveness, what).at(self.now_ns)
    }

    fn advance(&mut self, next_ns: u64) -> Result<(), Violation> {
        self.clock.advance(Duration::from_nanos(next_ns - self.now_ns));
        self.now_ns = next_ns;
        if self.scenario.mode == Mode::Liveness && next_ns >= self.scenario.faults_end_ns {
            self.end_faults();
        }
        self.crash()?;
        self.forge();
        let mut busy = std::mem::take(&mut self.busy);
        busy.fill(false);
        while let Some(arrival) = self.network.poll_arrival(next_ns) {
            busy[arrival.to] = true;
            self.deliver(arrival);
        }
        self.note_faults();
        for (index, node) in self.nodes.iter().enumerate() {
            busy[index] |= node.deadline_ns.is_some_and(|at| at <= next_ns);
        }
        for index in (0..self.nodes.len()).filter(|index| busy[*index]) {
            self.settle(index)?;
        }
        self.serve_applications(&busy)?;
        self.busy = busy;
        Ok(())
    }

    /// Sends what the adversary has for now.
    fn forge(&mut self) {
        let Some(adversary) = &mut self.adversary else { return };
        if adversary.poll_timeout().is_none_or(|at| at > self.now_ns) {
            return;
        }
        let nodes: Vec<IpAddr> = self.nodes.iter().map(|node| node.address).collect();
        let targets: Vec<AttackTarget> = self.pairs.iter().flat_map(Pair::targets).collect();
        let connections: Vec<CmTarget> = self.pairs.iter().flat_map(Pair::cm_targets).collect();
        while let Some(Forgery { to, packet }) =
            adversary.poll_packet(self.now_ns, &nodes, &targets, &connections)
        {
            self.coverage.count("a packet that is forged");
            self.network.send(self.now_ns, self.nodes.len(), to, packet);
        }
    }

    /// Ends the processes whose time has come.
    fn crash(&mut self) -> Result<(), Violation> {
        while let Some(Crash { node, back_ns, .. }) =
            self.crashes.pop_if(|crash| crash.at_ns <= self.now_ns)
        {
            self.coverage.count("a process that ends without a word");
            for pair in &mut self.pairs {
                let mut turn = Turn {
                    now_ns: self.now_ns,
                    calm_since_ns: self.calm_since_ns,
                    drain_ns: self.scenario.drain_ns(),
                    monitor: &self.monitor,
                    coverage: &mut self.coverage,
                };
                Mishap { pair }.note_crash(node, &mut turn).at(self.now_ns)?;
            }
            let times = 1 + self.crashes.len() as u64;
            self.nodes[node].replace((&self.scenario, node, times), &self.clock, &self.buffers);
            for pair in &mut self.pairs {
                Mishap { pair }.handle_crash(node, &self.nodes[node].nic, self.now_ns);
            }
            self.due_ns = self.pairs.iter().map(Pair::poll_timeout).collect();
            let outage = Outage { node, from_ns: self.now_ns, until_ns: back_ns };
            self.network.add_outage(outage);
        }
        Ok(())
    }

    fn end_faults(&mut self) {
        if self.calm_since_ns.is_none() {
            self.network.end_faults();
            self.calm_since_ns = Some(self.now_ns + LONGEST_DELAY_NS);
        }
    }

    /// Lets the applications act that have completions, or whose time has come.
    fn serve_applications(&mut self, busy: &[bool]) -> Result<(), Violation> {
        for index in 0..self.pairs.len() {
            let nodes = self.pairs[index].nodes();
            let is_due = self.due_ns[index].is_some_and(|at| at <= self.now_ns);
            let pair = &mut self.pairs[index];
            if pair.is_waiting(self.now_ns) || !is_due && !pair.has_completions(busy) {
                continue;
            }
            let mut turn = Turn {
                now_ns: self.now_ns,
                calm_since_ns: self.calm_since_ns,
                drain_ns: self.scenario.drain_ns(),
                monitor: &self.monitor,
                coverage: &mut self.coverage,
            };
            self.pairs[index].handle_turn(&mut turn)?;
            self.note_connection(index);
            let has_acted = self.pairs[index].take_has_acted();
            for node in nodes {
                // To poll a completion queue is to poll the device, which may send.
                if has_acted || self.nodes[node].port.has_acted() || !self.note_deadline(node) {
                    self.settle(node)?;
                }
            }
            if has_acted && self.pairs[index].has_completions(&[]) {
                self.pairs[index].look_at(self.now_ns + 1);
            }
            self.due_ns[index] = self.pairs[index].poll_timeout();
        }
        Ok(())
    }

    /// Polls a device until it has nothing to do at this moment, and sends what it has sent.
    fn settle(&mut self, index: usize) -> Result<(), Violation> {
        let mut sent = 0;
        for _ in 0..MAX_ITERATIONS {
            let waiting = self.nodes[index].drive(self.now_ns, &mut self.outbox);
            while let Some(event) = self.outbox.pop_front() {
                match event {
                    PortEvent::Sent(packet) => {
                        sent += 1;
                        self.send(index, packet).at(self.now_ns)?;
                    }
                    PortEvent::TookIn(arrival) => {
                        self.monitor.handle_arrived(self.now_ns, &arrival);
                        self.buffers.give_back(arrival.packet.bytes);
                    }
                }
            }
            ensure(sent <= MAX_PACKETS, Invariant::Bounds, || {
                format!("node {index} sends {sent} packets at one moment")
            })
            .at(self.now_ns)?;
            if waiting == 0 && self.note_deadline(index) {
                return Ok(());
            }
        }
        let what = format!("node {index} is busy for ever");
        ensure(false, Invariant::Bounds, || what).at(self.now_ns)
    }

    /// Takes note of when a device wants to be polled next. False: now.
    fn note_deadline(&mut self, index: usize) -> bool {
        let deadline = self.nodes[index].poll_timeout();
        self.nodes[index].deadline_ns = deadline.map(|at| at.max(self.now_ns + 1));
        deadline.is_none_or(|at| at > self.now_ns)
    }

    fn send(&mut self, from: usize, packet: SimPacket) -> Check {
        let dst = packet.route.dst.ip();
        let stranger = self.adversary.as_ref().map(Adversary::address);
        let mut addresses = self.nodes.iter().map(|node| node.address).chain(stranger);
        let to = addresses.position(|address| address == dst);
        let Some(to) = to else {
            let what = format!("node {from} sends to {dst}, which is no node");
            return Err((Invariant::Strangers, what));
        };
        self.monitor.handle_sent(self.now_ns, from, to, &packet, &mut self.coverage)?;
        self.observe(Passage::Sent { from }, &packet);
        self.network.send(self.now_ns, from, to, packet);
        self.note_faults();
        Ok(())
    }

    fn note_faults(&mut self) {
        while let Some(faulty) = self.network.poll_faulty() {
            self.monitor.handle_faulty(self.now_ns, &faulty);
        }
    }

    fn deliver(&mut self, arrival: ArrivedPacket) {
        self.trace.add(self.now_ns);
        self.trace.add(arrival.to as u64);
        let bytes = &arrival.packet.bytes;
        match bytes.last_chunk::<4>() {
            // The ICRC stands for everything else.
            Some(icrc) if arrival.is_intact => self.trace.add(u32::from_le_bytes(*icrc).into()),
            _ => self.trace.add_bytes(bytes),
        }
        let to = arrival.to;
        self.observe(Passage::Arrived { to }, &arrival.packet);
        // What is for several engines has arrived when one of them takes it in.
        let is_noted = arrival.from < self.nodes.len()
            && self.nodes.get(to).is_some_and(|node| node.port.engines() > 1);
        if !is_noted {
            self.monitor.handle_arrived(self.now_ns, &arrival);
        }
        match self.nodes.get(to) {
            Some(node) if is_noted => node.port.deliver_noted(arrival),
            Some(node) => node.port.deliver(arrival.packet),
            // Who is no NIC takes nothing in.
            None => {}
        }
    }

    fn observe(&mut self, passage: Passage, packet: &SimPacket) {
        let (src, dst) = (packet.route.src, packet.route.dst);
        (self.observer)(&PacketEvent {
            at_ns: self.now_ns,
            passage,
            flow: Flow { src: src.ip(), dst: dst.ip(), src_port: src.port(), dst_port: dst.port() },
            traffic_class: packet.route.traffic_class,
            bytes: &packet.bytes,
        });
    }

    fn note_connection(&mut self, index: usize) {
        for connection in std::mem::take(&mut self.pairs[index].new_connections) {
            self.monitor.handle_connection(&connection);
        }
    }

    fn finish(mut self) -> Result<Report, Violation> {
        for pair in &mut self.pairs {
            pair.destroy().map_err(|what| (Invariant::Resources, what)).at(self.now_ns)?;
        }
        self.answer_late_calls()?;
        self.tear_down().at(self.now_ns)?;
        for node in &self.nodes {
            node.report(&mut self.coverage);
        }
        let counters = self.network.counters;
        self.coverage.add("packets that faults dropped", counters.dropped);
        self.coverage.add("packets that faults altered or delayed", counters.altered);
        self.coverage.add("packets that met a link that is down", counters.outage);
        self.monitor.report(&mut self.coverage);
        Ok(Report {
            coverage: self.coverage,
            packets: counters.sent,
            end_ns: self.now_ns,
            trace_hash: self.trace.finish(),
        })
    }

    /// Calls that came when nobody looked any more are rejected, and those that wait for a listener, too.
    fn answer_late_calls(&mut self) -> Result<(), Violation> {
        if !self.scenario.has_cm() {
            return Ok(());
        }
        let end_ns = self.now_ns + LATE_CALLS_NS;
        for _ in 0..MAX_ITERATIONS {
            for index in 0..self.nodes.len() {
                self.settle(index)?;
            }
            let next_ns = self.nodes.iter().filter_map(|node| node.deadline_ns).min();
            let Some(next_ns) = next_ns.filter(|next_ns| *next_ns <= end_ns) else { break };
            self.clock.advance(Duration::from_nanos(next_ns.saturating_sub(self.now_ns)));
            self.now_ns = self.now_ns.max(next_ns);
        }
        Ok(())
    }

    /// I10: nothing is left on a device whose objects were destroyed.
    fn tear_down(&mut self) -> Check {
        for (index, node) in self.nodes.iter().enumerate() {
            let Nic::Uroce(device) = &node.nic else {
                node.check_model(index)?;
                continue;
            };
            device.drive();
            let is_lasting = |kind| matches!(kind, ResourceKind::Device | ResourceKind::Counters);
            let left = device.resources().into_iter().find(|left| !is_lasting(left.kind()));
            ensure(left.is_none(), Invariant::Resources, || {
                format!("node {index} has {left:?} when all is destroyed")
            })?;
            check_silence(index, device, &node.port, &self.clock)?;
        }
        Ok(())
    }
}

/// The last one first.
fn in_order(crashes: &[Crash]) -> Vec<Crash> {
    let mut crashes = crashes.to_vec();
    crashes.sort_by_key(|crash| std::cmp::Reverse(crash.at_ns));
    crashes
}

/// I10: the timers that are left are stale; they run out, and nothing is sent.
fn check_silence(index: usize, device: &Device, port: &PortHandle, clock: &VirtualClock) -> Check {
    for _ in 0..MAX_ITERATIONS {
        let Some(at_ns) = device.poll_timeout() else { return Ok(()) };
        clock.advance(Duration::from_nanos(at_ns).saturating_sub(clock.now()));
        device.drive();
        ensure(!port.has_acted(), Invariant::Resources, || {
            format!("node {index} sends at {at_ns} ns, although all is destroyed")
        })?;
    }
    let what = || format!("node {index} has timers for ever, although all is destroyed");
    ensure(false, Invariant::Resources, what)
}
