//! What a seed stands for: nodes, connections, faults.

use std::fmt;

use uroce_device::transport::{QpCaps, QpType};
use uroce_device::wire::{Mtu, ack_timeout_ns, rnr_timer_ns};

use crate::cm_plan::CmPlan;
use crate::engine_plan::EnginePlan;
use crate::lookup_plan::LookupPlan;
use crate::random::Random;
use crate::rxe::TICK_NS;
use crate::windows::WINDOWS;

/// Whether faults end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Faults last as long as the simulation. Requests may fail; nothing else may go wrong.
    Safety,
    /// Faults end. Everything that is posted afterwards succeeds within a bound.
    Liveness,
}

/// Part of a run in which a node has no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The node.
    pub node: usize,
    /// Its begin in nanoseconds.
    pub from_ns: u64,
    /// Its end in nanoseconds.
    pub until_ns: u64,
}

impl Outage {
    pub(crate) fn covers(&self, now_ns: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&now_ns)
    }
}

/// The process of a node that ends without a word, and another one in its place, with the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// The node.
    pub node: usize,
    /// When the process ends, in nanoseconds.
    pub at_ns: u64,
    /// When the next one answers.
    pub back_ns: u64,
}

/// Two queue pairs that talk to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairPlan {
    /// The nodes of both ends.
    pub nodes: [usize; 2],
    /// How connection management connects both ends; `None` if they are connected by their numbers.
    pub cm: Option<CmPlan>,
    /// How the queue pair of one end is looked up, if it is one of datagrams.
    pub lookup: Option<LookupPlan>,
    /// Service of both ends: RC, UC, UD, or XRC by the name of its initiators.
    pub service: QpType,
    /// Path MTU.
    pub mtu: Mtu,
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Retries after a timeout.
    pub retry_cnt: u8,
    /// Retries after an RNR NAK; 7 is for ever.
    pub rnr_retry: u8,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// READs and atomics in flight.
    pub rd_atomic: u8,
    /// Sizes of both queue pairs.
    pub caps: QpCaps,
    /// Receives come from shared receive queues.
    pub shared_receives: bool,
    /// Every request is signalled.
    pub signal_all: bool,
    /// Percentage of requests that are signalled otherwise.
    pub signalled: usize,
    /// Requests that each end posts.
    pub operations: usize,
    /// Each message is one to eight packets that are full.
    pub full_packets: bool,
    /// Of 1,000 requests, those that ask for something forbidden.
    pub mistakes: usize,
    /// Of 1,000 receives, those with a buffer that is too short or has a wrong key.
    pub bad_receives: usize,
    /// Of 1,000 WRITEs, those whose region is deregistered meanwhile.
    pub withdrawals: usize,
    /// Windows of each end that are of type 1; the others are of type 2.
    pub type_1: usize,
    /// Completion queues that overflow.
    pub overflows: usize,
    /// Percentage of turns in which an application leaves its completions where they are.
    pub idle_turns: usize,
    /// Longest pause of an application between two of its turns, in nanoseconds.
    pub pause_ns: u64,
    /// Of 1,000 turns of an application, those after which it destroys or resets its queue pairs.
    pub restarts: usize,
}

impl PairPlan {
    /// RNR retries of an end: of those that connection management connects, what the other end has asked for.
    pub fn rnr_retry_of(&self, index: usize) -> u8 {
        self.cm.as_ref().map_or(self.rnr_retry, |cm| cm.rnr_retries[1 - index])
    }

    /// Leaves away what the model of another stack does not have.
    pub(crate) fn suit_model(&mut self) {
        (self.service, self.cm) = (QpType::Rc, None);
        (self.shared_receives, self.bad_receives, self.withdrawals) = (false, 0, 0);
    }

    /// Adapts it to what the ports of both nodes carry, and to what connection management does by itself.
    pub(crate) fn suit_ports(&mut self, largest: [Mtu; 2]) {
        let mtu = largest[0].min(largest[1]);
        self.mtu = self.mtu.min(mtu);
        if !matches!(self.service, QpType::Rc | QpType::Uc) {
            self.cm = None;
        }
        if self.cm.is_some() {
            (self.mtu, self.min_rnr_timer) = (mtu, CM_RNR_TIMER);
        }
    }

    /// The plan of questions for a queue pair, where there are any.
    pub(crate) fn lookup(&self) -> Option<&LookupPlan> {
        self.lookup.as_ref().filter(|_| self.service == QpType::Ud)
    }

    /// Windows of each end that are of type 1: with XRC, all or none, since a target serves none of type 2.
    pub(crate) fn type_1_windows(&self) -> usize {
        if self.service.is_xrc() && self.type_1 > 0 { WINDOWS } else { self.type_1 }
    }

    /// The longest wait for a receive.
    pub(crate) fn not_ready_ns(&self) -> u64 {
        rnr_timer_ns(self.min_rnr_timer) + TICK_NS
    }

    /// Time after which a request to a peer that is no more has failed.
    pub(crate) fn give_up_ns(&self) -> u64 {
        let timeout_ns = ack_timeout_ns(self.timeout).unwrap_or_default() + TICK_NS;
        // R75: a try waits up to four times the timeout.
        4 * timeout_ns * (1 + u64::from(self.retry_cnt))
    }

    /// Time in which all requests complete when there are no faults: what is under way gives up at the latest, and
    /// each request takes its round trip, its waits for receives, and the pauses of both applications.
    fn liveness_bound_ns(&self, drain_ns: u64) -> u64 {
        // The timers of a model tick slowly.
        let give_up_ns = self.give_up_ns();
        let not_ready_ns = self.not_ready_ns();
        // After each mistake the connection is made again.
        let pauses = 4 * 100 / (100 - self.idle_turns.min(99) as u64);
        let step_ns = 4 * not_ready_ns + pauses * self.pause_ns + drain_ns;
        let call_ns = self.cm.as_ref().map_or(0, CmPlan::longest_ns);
        let calls = self.cm.as_ref().map_or(0, |cm| 2 + cm.failures as u64);
        let lookup_ns = self.lookup().map_or(0, LookupPlan::longest_ns);
        let call_ns = call_ns + lookup_ns;
        (4 + 2 * self.overflows as u64) * (give_up_ns + drain_ns)
            + calls * call_ns
            + 2 * self.operations as u64 * (step_ns + call_ns)
    }
}

/// Everything that a seed decides before the first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Whether faults end.
    pub mode: Mode,
    /// Number of nodes.
    pub nodes: usize,
    /// How many of them, the last ones, are models of rxe. The others are NICs of ours.
    pub models: usize,
    /// Largest path MTU of nodes whose port carries less than 4096 bytes.
    pub mtus: Vec<(usize, Mtu)>,
    /// NICs of ours with several engines.
    pub engines: Vec<EnginePlan>,
    /// They have IPv6 addresses, not IPv4 ones.
    pub is_ipv6: bool,
    /// Latency from NIC to NIC in nanoseconds.
    pub latency_ns: u64,
    /// A NIC takes in what has arrived once in so many nanoseconds.
    pub coalesce_ns: u64,
    /// Fault rules, in the language of docs/faults.md.
    pub faults: String,
    /// When which node has no link.
    pub outages: Vec<Outage>,
    /// Processes that end and come back.
    pub crashes: Vec<Crash>,
    /// Packets that a host forges which is no peer of anybody.
    pub forged: usize,
    /// NICs have GSO and GRO: short WRITEs leave as WRITE ONLYs, and what arrives together, of one flow and one length, comes
    /// as one buffer.
    pub has_gso: bool,
    /// When faults end, in [`Mode::Liveness`].
    pub faults_end_ns: u64,
    /// Connections.
    pub pairs: Vec<PairPlan>,
}

/// Longest time a packet waits in a fault rule.
pub(crate) const LONGEST_DELAY_NS: u64 = 25_000_000;
/// RNR timer code of queue pairs that connection management connects.
const CM_RNR_TIMER: u8 = 12;
/// The stream of random numbers of what was added to the scenarios later: what was drawn before stays as it was.
const ADDED: u64 = 1 << 48;
/// The stream of random numbers of NICs with several engines.
const ENGINES: u64 = 1 << 49;
/// The stream of random numbers of packets that arrive as one buffer.
const JOINED: u64 = 1 << 51;
/// The stream of random numbers of windows of type 1.
const TYPE_1: u64 = 1 << 50;
/// The stream of random numbers of queue pairs that are looked up.
const LOOKUPS: u64 = 1 << 51;

impl Scenario {
    /// Time after which no packet of a queue pair is on its way any more.
    pub(crate) fn drain_ns(&self) -> u64 {
        2 * self.latency_ns + LONGEST_DELAY_NS
    }

    /// I14: when everything has completed at the latest, in [`Mode::Liveness`].
    pub(crate) fn liveness_end_ns(&self) -> u64 {
        let bounds = self.pairs.iter().map(|pair| pair.liveness_bound_ns(self.drain_ns()));
        self.faults_end_ns + LONGEST_DELAY_NS + bounds.max().unwrap_or_default()
    }

    /// The time that connection management may take, in [`Mode::Safety`].
    pub(crate) fn longest_calls_ns(&self) -> u64 {
        let plans = self.pairs.iter().filter_map(|pair| pair.cm.as_ref());
        let calls = plans.map(|cm| 20 * cm.longest_ns());
        let lookups = self.pairs.iter().filter_map(PairPlan::lookup);
        // After each restart the queue pair is looked up again.
        let most = |lookup: &LookupPlan| 60 * lookup.longest_ns();
        calls.chain(lookups.map(most)).max().unwrap_or_default()
    }

    /// The largest path MTU of a node's port.
    pub(crate) fn mtu_of(&self, node: usize) -> Mtu {
        let known = self.mtus.iter().find(|(index, _)| *index == node);
        known.map_or(Mtu::M4096, |(_, mtu)| *mtu)
    }

    /// The engines of a node's NIC; `None` if there is one.
    pub(crate) fn engines_of(&self, node: usize) -> Option<EnginePlan> {
        let is_ours = node + self.models < self.nodes;
        self.engines.iter().find(|plan| plan.node == node && is_ours).copied()
    }

    /// True if the network never loses, alters or delays a packet.
    pub(crate) fn is_sound(&self) -> bool {
        self.faults.is_empty() && self.outages.is_empty() && self.crashes.is_empty()
    }

    /// True if the network may double packets, or change their order.
    pub(crate) fn reorders(&self) -> bool {
        ["dup", "hold", "delay"].iter().any(|action| self.faults.contains(action))
    }

    /// The scenario of a seed.
    pub fn new(seed: u64) -> Scenario {
        let mut random = Random::new(seed, 0);
        let mode = if random.chance(50) { Mode::Safety } else { Mode::Liveness };
        let nodes = if random.chance(80) { random.range(2, 4) } else { random.range(5, 16) };
        let models = if random.chance(20) { random.range(1, nodes - 1) } else { 0 };
        let latency_ns = random.pick(&[500, 2_000, 10_000, 50_000, 1_000_000]);
        let count = random.range(1, nodes + 1);
        let pairs =
            (0..count).map(|_| pair(mode, [nodes, models], latency_ns, &mut random)).collect();
        let faults_end_ns = random.range(100_000, 20_000_000) as u64;
        let mut scenario = Scenario {
            seed,
            mode,
            nodes,
            models,
            is_ipv6: random.chance(30),
            latency_ns,
            coalesce_ns: random.pick(&[1, 1_000, 5_000]),
            faults: faults(&mut random),
            outages: outages(nodes, &mut random),
            forged: if random.chance(30) { random.range(1, 400) } else { 0 },
            faults_end_ns,
            pairs,
            mtus: vec![],
            crashes: vec![],
            engines: vec![],
            has_gso: Random::new(seed, JOINED).chance(60),
        };
        scenario.add(&mut Random::new(seed, ADDED));
        scenario.add_engines(&mut Random::new(seed, ENGINES));
        scenario.add_windows(&mut Random::new(seed, TYPE_1));
        scenario.add_lookups(&mut Random::new(seed, LOOKUPS));
        scenario
    }

    /// Draws connection management, small ports, and processes that end.
    fn add(&mut self, random: &mut Random) {
        if random.chance(15) {
            let small = (0..self.nodes).filter(|_| random.chance(50)).collect::<Vec<_>>();
            self.mtus = small.into_iter().map(|node| (node, random.pick(&Mtu::ALL))).collect();
        }
        let crashes = if random.chance(15) { random.range(1, 2) } else { 0 };
        for _ in 0..crashes {
            self.crashes.push(self.draw_crash(random));
        }
        if random.chance(20) {
            self.pairs.iter_mut().for_each(|pair| pair.overflows = random.below(3));
        }
        if random.chance(40) {
            let is_live = self.mode == Mode::Liveness;
            for pair in &mut self.pairs {
                pair.cm = random.chance(60).then(|| CmPlan::draw(is_live, random));
            }
            // Its messages are sent again after 100 ms at the earliest: faults last as long.
            if random.chance(50) {
                self.faults_end_ns = random.range(100_000_000, 700_000_000) as u64;
            }
            if random.chance(30) {
                self.outages.push(long_outage(self.nodes, random));
            }
        }
    }
}

impl Scenario {
    fn add_engines(&mut self, random: &mut Random) {
        if random.chance(20) {
            let ours = 0..self.nodes - self.models;
            let several = ours.filter(|_| random.chance(60)).collect::<Vec<_>>();
            self.engines = several.into_iter().map(|node| EnginePlan::draw(node, random)).collect();
        }
    }
}

impl Scenario {
    fn add_windows(&mut self, random: &mut Random) {
        if random.chance(30) {
            self.pairs.iter_mut().for_each(|pair| pair.type_1 = random.below(WINDOWS + 1));
        }
    }
}

impl Scenario {
    fn add_lookups(&mut self, random: &mut Random) {
        for pair in self.pairs.iter_mut().filter(|pair| pair.service == QpType::Ud) {
            pair.lookup = random.chance(40).then(|| LookupPlan::draw(random));
        }
    }

    /// True if connection management is used.
    pub(crate) fn has_cm(&self) -> bool {
        self.pairs.iter().any(|pair| pair.cm.is_some() || pair.lookup().is_some())
    }
}

/// Sizes are extreme now and then: queues of one entry, one READ in flight.
fn depth(random: &mut Random) -> u32 {
    if random.chance(20) { 1 } else { random.range(2, 16) as u32 }
}

fn pair(mode: Mode, [nodes, models]: [usize; 2], latency_ns: u64, random: &mut Random) -> PairPlan {
    // One end at least is a NIC of ours.
    let first = random.below(nodes - models);
    let second = (first + random.range(1, nodes - 1)) % nodes;
    let liveness = mode == Mode::Liveness;
    let service = match random.below(10) {
        0..6 => QpType::Rc,
        6 => QpType::XrcIni,
        7 => QpType::Uc,
        _ => QpType::Ud,
    };
    let mistakes = if random.chance(25) { random.range(1, 50) } else { 0 };
    PairPlan {
        nodes: [first, second],
        cm: None,
        lookup: None,
        service,
        mtu: random.pick(&Mtu::ALL),
        timeout: random.range(shortest_timeout(latency_ns), 13) as u8,
        retry_cnt: if liveness { 7 } else { random.below(8) as u8 },
        rnr_retry: if liveness { 7 } else { random.below(8) as u8 },
        min_rnr_timer: random.range(1, 14) as u8,
        rd_atomic: if random.chance(25) { 1 } else { random.range(2, 16) as u8 },
        caps: QpCaps {
            max_send_wr: depth(random),
            max_recv_wr: depth(random),
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline: random.pick(&[0, 64, 256]),
        },
        shared_receives: random.chance(20),
        signal_all: random.chance(20),
        signalled: random.pick(&[10, 60, 100]),
        operations: random.range(1, 120),
        full_packets: random.chance(5),
        mistakes,
        bad_receives: if random.chance(15) { random.range(1, 60) } else { 0 },
        withdrawals: if random.chance(20) { random.range(1, 100) } else { 0 },
        type_1: 0,
        overflows: 0,
        idle_turns: if random.chance(20) { random.range(1, 80) } else { 0 },
        pause_ns: random.pick(&[1_000, 20_000, 200_000, 3_000_000]),
        restarts: if random.chance(20) { random.range(1, 40) } else { 0 },
    }
}

/// The shortest timeout code that a round trip does not exceed by itself.
fn shortest_timeout(latency_ns: u64) -> usize {
    if latency_ns < 20_000 {
        8
    } else if latency_ns < 200_000 {
        10
    } else {
        12
    }
}

/// Rules for the fault injector, of none to several kinds.
fn faults(random: &mut Random) -> String {
    let mut rules = Vec::new();
    let mut add = |percent: usize, random: &mut Random, rule: &dyn Fn(&mut Random) -> String| {
        if random.chance(percent) {
            rules.push(format!("{} quiet", rule(random)));
        }
    };
    let share = |random: &mut Random| format!("0.{:02}", random.range(1, 15));
    add(40, random, &|r| format!("any -> drop p={} also", share(r)));
    add(15, random, &|r| format!("any -> drop ge=0.0{},0.3,1,0 also", r.range(1, 5)));
    add(10, random, &|r| format!("op=acknowledge -> drop p=0.{} also", r.range(1, 7)));
    add(10, random, &|r| format!("op=read-resp -> drop p=0.{} also", r.range(1, 3)));
    add(20, random, &|r| format!("any -> dup p={} also", share(r)));
    add(15, random, &|r| format!("any -> corrupt=any p={} also", share(r)));
    add(5, random, &|r| format!("any -> truncate={} p=0.05 also", r.range(0, 60)));
    add(15, random, &|r| format!("any -> hold={} p={} also", r.range(1, 8), share(r)));
    add(15, random, &|r| format!("any -> ce p={} also", share(r)));
    add(20, random, &|r| {
        let us = r.pick(&[5, 50, 500, 5_000]);
        format!("any -> delay={us}us~{us}us p={} also", share(r))
    });
    rules.join("; ")
}

fn outages(nodes: usize, random: &mut Random) -> Vec<Outage> {
    let count = if random.chance(15) { random.range(1, 3) } else { 0 };
    let outage = |_| {
        let from_ns = random.below(20_000_000) as u64;
        let length = random.pick(&[100_000, 2_000_000, 50_000_000]);
        Outage { node: random.below(nodes), from_ns, until_ns: from_ns + length }
    };
    (0..count).map(outage).collect()
}

impl Scenario {
    /// The process of one of our nodes ends while faults last.
    fn draw_crash(&self, random: &mut Random) -> Crash {
        let at_ns = random.below(self.faults_end_ns as usize) as u64;
        let away_ns = random.pick(&[1, 100_000, 5_000_000, 800_000_000]);
        let back_ns = match self.mode {
            Mode::Safety => at_ns + away_ns,
            Mode::Liveness => (at_ns + away_ns).min(self.faults_end_ns),
        };
        Crash { node: random.below(self.nodes - self.models), at_ns, back_ns }
    }
}

/// A link that is down for so long that connection management gives up now and then.
fn long_outage(nodes: usize, random: &mut Random) -> Outage {
    let from_ns = random.pick(&[0, 1_000_000, 200_000_000]) + random.below(20_000_000) as u64;
    let length = random.pick(&[150_000_000, 600_000_000, 2_500_000_000]);
    Outage { node: random.below(nodes), from_ns, until_ns: from_ns + length }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario {
            seed, mode, nodes, models, latency_ns, faults, outages, forged, pairs, ..
        } = self;
        let (family, interval) = (if self.is_ipv6 { "IPv6" } else { "IPv4" }, self.coalesce_ns);
        writeln!(f, "seed {seed}: {mode:?}, {nodes} nodes, {latency_ns} ns from NIC to NIC")?;
        if *models > 0 {
            writeln!(f, "  nodes {} to {} are models of rxe", nodes - models, nodes - 1)?;
        }
        let joined =
            if self.has_gso { ", and what is alike as one buffer; WRITEs are split" } else { "" };
        writeln!(f, "  {family}, a NIC takes packets in every {interval} ns{joined}")?;
        if *mode == Mode::Liveness {
            writeln!(f, "  faults end at {} ns", self.faults_end_ns)?;
        }
        writeln!(f, "  faults: {}", if faults.is_empty() { "none" } else { faults })?;
        for (node, mtu) in &self.mtus {
            writeln!(f, "  the port of node {node} carries {mtu} bytes")?;
        }
        for plan in &self.engines {
            writeln!(f, "  {plan}")?;
        }
        for Outage { node, from_ns, until_ns } in outages {
            writeln!(f, "  node {node} has no link from {from_ns} to {until_ns} ns")?;
        }
        for Crash { node, at_ns, back_ns } in &self.crashes {
            writeln!(
                f,
                "  the process of node {node} ends at {at_ns} ns and is back at {back_ns} ns"
            )?;
        }
        if *forged > 0 {
            writeln!(f, "  {forged} packets are forged")?;
        }
        for (index, pair) in pairs.iter().enumerate() {
            writeln!(f, "  pair {index}: {pair}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PairPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PairPlan { nodes: [first, second], service, mtu, operations, caps, .. } = self;
        let PairPlan { timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic, .. } = self;
        let (service, mtu) = (service.name(), mtu.bytes());
        write!(f, "{service} between nodes {first} and {second}, path MTU {mtu}, ")?;
        writeln!(f, "{operations} requests each way, full packets: {}", self.full_packets)?;
        write!(f, "    timeout {timeout}, retry_cnt {retry_cnt}, rnr_retry {rnr_retry}, ")?;
        writeln!(f, "min_rnr_timer {min_rnr_timer}, rd_atomic {rd_atomic}")?;
        let QpCaps { max_send_wr, max_recv_wr, max_inline, .. } = caps;
        write!(f, "    {max_send_wr} send and {max_recv_wr} receive requests, ")?;
        write!(f, "{max_inline} bytes inline, SRQ: {}, ", self.shared_receives)?;
        writeln!(f, "sq_sig_all: {}, signaled: {} %", self.signal_all, self.signalled)?;
        write!(
            f,
            "    of 1,000: {} mistakes, {} bad receives, ",
            self.mistakes, self.bad_receives
        )?;
        write!(f, "{} regions deregistered, {} restarts; ", self.withdrawals, self.restarts)?;
        write!(f, "{} completion queues overflow, ", self.overflows)?;
        writeln!(f, "{} windows are of type 1", self.type_1_windows())?;
        write!(f, "    pauses up to {} ns, {} % idle turns", self.pause_ns, self.idle_turns)?;
        self.cm.as_ref().map_or(Ok(()), |cm| write!(f, "\n    {cm}"))?;
        self.lookup().map_or(Ok(()), |lookup| write!(f, "\n    {lookup}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scenario_prints_tells_two_that_differ_apart() {
        let scenario = Scenario::new(3);
        let mut other = scenario.clone();
        other.pairs[0].restarts += 1;
        assert_ne!(scenario.to_string(), other.to_string());
        other = scenario.clone();
        other.is_ipv6 = !other.is_ipv6;
        assert_ne!(scenario.to_string(), other.to_string());
        other = scenario.clone();
        other.pairs[0].caps.max_inline += 1;
        assert_ne!(scenario.to_string(), other.to_string());
    }
}
