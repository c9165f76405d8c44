//! Two ends that talk to each other, and the application that drives both.

mod completion;
pub(crate) mod crash;
mod lookup;
mod managed;
mod overflow;
mod posting;
mod restart;
mod verb;
mod withdrawal;

use uroce_device::transport::QpType;
use uroce_wire::Service;

use self::crash::Mishap;
use self::lookup::Lookup;
use self::managed::{CmTurn, Managed};
use self::overflow::SmallQueue;
use self::withdrawal::Withdrawal;
use crate::adversary::{AttackTarget, CmTarget};
use crate::coverage::Coverage;
use crate::end::End;
use crate::monitor::{Monitor, MonitoredConnection};
use crate::nic::Nic;
use crate::random::Random;
use crate::scenario::{PairPlan, Scenario};
use crate::violation::{AtTime as _, Check, Invariant, Violation, ensure};

/// What a turn of the application needs besides the pair.
pub(crate) struct Turn<'a> {
    pub(crate) now_ns: u64,
    /// Since when there have been no faults; `None` while there are.
    pub(crate) calm_since_ns: Option<u64>,
    /// How long packets of a queue pair may be on their way after it was reset.
    pub(crate) drain_ns: u64,
    pub(crate) monitor: &'a Monitor,
    pub(crate) coverage: &'a mut Coverage,
}

/// What the application of a pair is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// One end has called the other one, or will.
    Connecting,
    /// One end asks for the queue pair of the other one.
    Resolving,
    /// Requests are posted and complete.
    Running,
    /// Nobody polls a completion queue of one entry, until this time at the latest.
    Overflowing { until_ns: u64 },
    /// The process of one end is no more, or its queue pair does not answer: the requests of the other one fail until this time.
    Bereaved { until_ns: u64 },
    /// The connection ends: old packets leave the network until the first time, and at the second one an end that
    /// has heard nothing of it acts by itself.
    Disconnecting { until_ns: u64, hears_ns: u64 },
    /// Both queue pairs have failed or were ended; old packets leave the network until this time.
    Draining { until_ns: u64, restart: Restart },
    /// Everything has completed.
    Done,
}

/// What happens to the queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restart {
    /// They are moved to RESET.
    Reset,
    /// They are destroyed, others take their place.
    Destroy,
}

/// Two connected queue pairs.
pub(crate) struct Pair {
    plan: PairPlan,
    /// Connection management, if the connection is made by it.
    managed: Option<Box<Managed>>,
    /// Questions for a queue pair, if one of datagrams is found by them.
    lookup: Option<Box<Lookup>>,
    /// The network may double and reorder packets: an unreliable service then may do so, too.
    network_reorders: bool,
    /// Short WRITEs leave in parts, as WRITE ONLYs.
    splits_writes: bool,
    pub(crate) ends: [End; 2],
    phase: Phase,
    random: Random,
    /// A request with a mistake was posted: both queue pairs will fail.
    has_mistake: bool,
    /// Both queue pairs are in the error state because the application has moved them there.
    is_ending: bool,
    /// Regions that are deregistered at work.
    withdrawals: Vec<Withdrawal>,
    /// Completion queues that are still to overflow.
    overflows_left: usize,
    /// The one that does so now, or has done so in this connection.
    small_queue: Option<SmallQueue>,
    /// The application has slept for so long that a queue pair may have failed because the other one had.
    has_slept: bool,
    /// Connections that nobody was told of.
    pub(crate) new_connections: Vec<MonitoredConnection>,
    /// When the application looks for completions that came of what it has done itself.
    look_ns: Option<u64>,
    /// The application has done more than to poll since it was asked.
    has_acted: bool,
}

impl Pair {
    /// The pair with this number.
    pub(crate) fn new(
        number: usize,
        scenario: &Scenario,
        nics: &[Nic],
        mut random: Random,
    ) -> Pair {
        let network_reorders = scenario.reorders();
        let mut plan = scenario.pairs[number].clone();
        let largest = plan.nodes.map(|node| scenario.mtu_of(node));
        plan.suit_ports(largest);
        // A datagram that is held back may come to the next connection of a queue pair, which these would begin.
        if network_reorders && !plan.service.is_reliable() {
            plan.bad_receives = 0;
        }
        let [first, second] = plan.nodes;
        if nics[first].is_model() || nics[second].is_model() {
            plan.suit_model();
        }
        let ends = [
            End::new(first, &nics[first], &plan, &mut random),
            End::new(second, &nics[second], &plan, &mut random),
        ];
        let mut pair = Pair {
            managed: plan
                .cm
                .as_ref()
                .map(|cm| Box::new(Managed::new(cm, number, scenario.pairs.len()))),
            lookup: plan.lookup().map(|lookup| Box::new(Lookup::new(lookup, number))),
            overflows_left: plan.overflows,
            small_queue: None,
            has_slept: false,
            plan,
            network_reorders,
            splits_writes: scenario.has_gso,
            ends,
            phase: Phase::Running,
            random,
            has_mistake: false,
            is_ending: false,
            withdrawals: vec![],
            new_connections: vec![],
            look_ns: None,
            has_acted: true,
        };
        pair.connect();
        pair
    }

    /// Nodes of both ends.
    pub(crate) fn nodes(&self) -> [usize; 2] {
        self.ends.each_ref().map(|end| end.node)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// What both ends wait for.
    pub(crate) fn describe(&self) -> String {
        let end = |end: &End| {
            let (sends, receives) = (end.sends.len(), end.receives.len());
            format!("{} to post, {sends} sends and {receives} receives posted", end.left)
        };
        let [first, second] = self.ends.each_ref().map(end);
        let mistake = if self.has_mistake { ", after a mistake" } else { "" };
        let managed = self.managed.as_ref().map(|managed| format!("; {}", managed.describe()));
        format!("{first}; {second}{mistake}{}", managed.unwrap_or_default())
    }

    /// True if nothing that arrives is of interest now.
    pub(crate) fn is_waiting(&self, now_ns: u64) -> bool {
        match self.phase {
            Phase::Connecting
            | Phase::Resolving
            | Phase::Running
            | Phase::Overflowing { .. }
            | Phase::Bereaved { .. }
            | Phase::Disconnecting { .. } => false,
            Phase::Draining { until_ns, .. } => now_ns < until_ns,
            Phase::Done => true,
        }
    }

    /// True if a completion waits for the application, or an event, at nodes that are busy or not in the list.
    pub(crate) fn has_completions(&mut self, busy: &[bool]) -> bool {
        let may_have = |end: &End| busy.get(end.node).is_none_or(|busy| *busy);
        if let Some(managed) = &mut self.managed
            && managed.fetch(self.ends.each_ref().map(may_have))
        {
            return true;
        }
        if self.phase == Phase::Resolving
            && let Some(lookup) = &mut self.lookup
            && lookup.fetch(self.ends.each_ref().map(may_have))
        {
            return true;
        }
        self.ends.iter().filter(|end| may_have(end)).any(End::has_completions)
    }

    /// The application looks for completions at this time.
    pub(crate) fn look_at(&mut self, at_ns: u64) {
        self.look_ns = Some(at_ns);
    }

    /// When the application acts next, whatever happens on the network.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        match self.phase {
            Phase::Connecting => self.managed.as_ref()?.next_action(),
            Phase::Resolving => self.lookup.as_ref().map(|lookup| lookup.poll_timeout()),
            Phase::Running => {
                let wakes = self.ends.iter().filter_map(|end| end.wake_ns);
                let managed = self.managed.as_ref().and_then(|managed| managed.poll_timeout());
                wakes.chain(self.look_ns).chain(self.next_withdrawal()).chain(managed).min()
            }
            Phase::Overflowing { until_ns } => Some(until_ns),
            Phase::Bereaved { until_ns } => {
                let managed = self.managed.as_ref().and_then(|managed| managed.poll_timeout());
                managed.into_iter().chain(self.look_ns).chain([until_ns]).min()
            }
            Phase::Disconnecting { until_ns, hears_ns } => {
                let managed = self.managed.as_ref()?;
                let next_ns = if managed.is_over() { until_ns } else { hears_ns };
                managed.poll_timeout().into_iter().chain([next_ns]).min()
            }
            Phase::Draining { until_ns, .. } => Some(until_ns),
            Phase::Done => None,
        }
    }

    /// True if one end is the model of another stack.
    fn has_model(&self) -> bool {
        self.ends.iter().any(|end| end.nic.is_model())
    }

    fn is_reliable(&self) -> bool {
        self.plan.service.is_reliable()
    }

    /// True if the application of this end may post requests.
    fn may_send(&self, index: usize) -> bool {
        self.managed.as_ref().is_none_or(|managed| managed.may_send(index))
    }

    fn connect(&mut self) {
        if self.managed.is_some() {
            self.phase = Phase::Connecting;
            return;
        }
        self.phase = Phase::Running;
        let psns = [start_psn(&mut self.random), start_psn(&mut self.random)];
        let peers = self.ends.each_ref().map(End::peer);
        self.ends[0].connect(&self.plan, &peers[1], psns);
        self.ends[1].connect(&self.plan, &peers[0], [psns[1], psns[0]]);
        for end in &mut self.ends {
            end.wake_ns = Some(0);
        }
        if let Some(lookup) = &mut self.lookup {
            lookup.begin(&self.ends);
            self.phase = Phase::Resolving;
        }
        let depths = [self.plan.rd_atomic; 2];
        // With XRC, each direction has queue pairs of its own.
        self.new_connections = match self.plan.service.is_xrc() {
            true => vec![self.monitored(0, 1, psns, depths), self.monitored(1, 0, psns, depths)],
            false => vec![self.monitored(0, 1, psns, depths)],
        };
    }

    /// The connection between two ends, as it is seen in its packets. `psns` and `depths` are those of both ends.
    fn monitored(
        &self,
        from: usize,
        to: usize,
        psns: [u32; 2],
        depths: [u8; 2],
    ) -> MonitoredConnection {
        MonitoredConnection {
            ends: [
                (self.ends[from].node, self.ends[from].qpn),
                (self.ends[to].node, self.ends[to].responder()),
            ],
            psns: [psns[from], psns[to]],
            service: self.plan.service,
            mtu: self.plan.mtu,
            max_rd_atomic: [depths[from], depths[to]],
            models: [self.ends[from].nic.is_model(), self.ends[to].nic.is_model()],
        }
    }

    /// True if the application has done more than to poll since the last call.
    pub(crate) fn take_has_acted(&mut self) -> bool {
        std::mem::take(&mut self.has_acted)
    }

    /// All queue pairs, for an adversary.
    pub(crate) fn targets(&self) -> Vec<AttackTarget> {
        let service = match self.plan.service {
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcIni | QpType::XrcTgt => Service::Xrc,
            QpType::Rc => Service::Rc,
        };
        let mut targets = Vec::with_capacity(4);
        for (end, other) in [(&self.ends[0], &self.ends[1]), (&self.ends[1], &self.ends[0])] {
            if end.nic.is_model() {
                continue;
            }
            let mut add = |qpn| {
                targets.push(AttackTarget { end: (end.node, qpn), peer: other.node, service });
            };
            add(end.qpn);
            if end.responder() != end.qpn {
                add(end.responder());
            }
        }
        targets
    }

    /// The ends of its connection, for an adversary, if connection management has made it.
    pub(crate) fn cm_targets(&self) -> Vec<CmTarget> {
        let Some(ids) = self.managed.as_ref().and_then(|managed| managed.ids()) else {
            return vec![];
        };
        let target = |index: usize| CmTarget {
            end: (self.ends[index].node, self.ends[index].qpn),
            peer: self.ends[1 - index].node,
            ids: [ids[index], ids[1 - index]],
        };
        vec![target(0), target(1)]
    }

    /// One turn: takes completions, and posts what is due.
    pub(crate) fn handle_turn(&mut self, turn: &mut Turn<'_>) -> Result<(), Violation> {
        self.turn(turn).at(turn.now_ns)
    }

    fn turn(&mut self, turn: &mut Turn<'_>) -> Check {
        match self.phase {
            Phase::Done => Ok(()),
            Phase::Draining { until_ns, .. } if turn.now_ns < until_ns => Ok(()),
            Phase::Draining { restart, .. } => self.finish_restart(restart, turn),
            Phase::Running => self.run(turn),
            Phase::Resolving => lookup::resolve(self, turn),
            Phase::Overflowing { until_ns } => Mishap { pair: self }.overflowing(until_ns, turn),
            Phase::Bereaved { until_ns } => Mishap { pair: self }.bereaved(until_ns, turn),
            Phase::Connecting => {
                self.with_managed(|pair, managed| CmTurn { pair }.connecting(managed, turn))
            }
            Phase::Disconnecting { until_ns, hears_ns } => self.with_managed(|pair, managed| {
                CmTurn { pair }.disconnecting(managed, [until_ns, hears_ns], turn)
            }),
        }
    }

    /// Lends connection management to a call.
    fn with_managed<T: Default>(
        &mut self,
        call: impl FnOnce(&mut Pair, &mut Managed) -> Result<T, (Invariant, String)>,
    ) -> Result<T, (Invariant, String)> {
        let Some(mut managed) = self.managed.take() else { return Ok(T::default()) };
        let outcome = call(self, &mut managed);
        self.managed = Some(managed);
        outcome
    }

    /// Ends the connection, in the way in which it was made.
    fn end(&mut self, restart: Restart, turn: &mut Turn<'_>) -> Check {
        if self.managed.is_none() {
            return self.begin_restart(restart, turn);
        }
        self.with_managed(|pair, managed| CmTurn { pair }.end_connection(managed, turn))
    }

    fn run(&mut self, turn: &mut Turn<'_>) -> Check {
        let is_over =
            self.with_managed(|pair, managed| CmTurn { pair }.check_connection(managed, turn))?;
        if is_over {
            return self.end(Restart::Reset, turn);
        }
        self.withdraw(turn.now_ns, turn);
        self.look_ns = None;
        if self.random.chance(self.plan.idle_turns) {
            let at = turn.now_ns + 1 + self.pause();
            for end in &mut self.ends {
                let later = end.wake_ns.filter(|wake| *wake > turn.now_ns);
                end.wake_ns = Some(later.unwrap_or(at));
            }
            return Ok(());
        }
        let has_failed = self.take_completions(turn)?;
        self.has_slept = false;
        if has_failed {
            return self.end(Restart::Reset, turn);
        }
        for index in 0..2 {
            if self.ends[index].wake_ns.is_some_and(|at| at <= turn.now_ns) {
                self.act(index, turn)?;
            }
        }
        if self.random.below(1000) < self.plan.restarts && turn.calm_since_ns.is_none() {
            let restart = if self.random.chance(50) { Restart::Destroy } else { Restart::Reset };
            return self.end(restart, turn);
        }
        let mut mishap = Mishap { pair: self };
        if mishap.draws_overflow() && mishap.begin_overflow(turn)? {
            return Ok(());
        }
        if self.ends.iter().all(|end| end.left == 0 && end.sends.is_empty()) {
            return self.finish(turn);
        }
        Ok(())
    }

    /// Everything has completed: what arrived must be all.
    fn finish(&mut self, turn: &mut Turn<'_>) -> Check {
        if !self.is_reliable() {
            return self.end(Restart::Reset, turn);
        }
        for end in &self.ends {
            ensure(end.awaited.is_empty(), Invariant::Messages, || {
                let first = end.awaited[0].number;
                format!("message {first} was acknowledged and never received ({:?})", end.qpn)
            })?;
        }
        self.end(Restart::Reset, turn)
    }

    /// Destroys everything.
    pub(crate) fn destroy(&mut self) -> Result<(), String> {
        if let Some(managed) = &mut self.managed {
            managed.destroy(self.ends.each_ref().map(|end| end.nic.device()));
        }
        if let Some(lookup) = &mut self.lookup {
            lookup.destroy(&self.ends);
        }
        self.ends.iter_mut().try_for_each(End::destroy)
    }
}

/// The first PSN of a connection: often shortly before the wrap, or half of the sequence space.
fn start_psn(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => 0x100_0000 - random.range(1, 64) as u32,
        1 => 0x80_0000 - random.range(1, 64) as u32,
        _ => random.below(0x100_0000) as u32,
    }
}
