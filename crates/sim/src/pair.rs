//! Two ends that talk to each other, and the application that drives both.

mod completion;
mod posting;
mod restart;
mod verb;
mod withdrawal;

use uroce_device::transport::QpType;
use uroce_wire::Service;

use self::restart::Restart;
use self::withdrawal::Withdrawal;
use crate::adversary::AttackTarget;
use crate::coverage::Coverage;
use crate::end::End;
use crate::monitor::MonitoredConnection;
use crate::nic::Nic;
use crate::random::Random;
use crate::scenario::PairPlan;
use crate::violation::{AtTime as _, Check, Invariant, Violation, ensure};

/// What a turn of the application needs besides the pair.
pub(crate) struct Turn<'a> {
    pub(crate) now_ns: u64,
    /// Since when there have been no faults; `None` while there are.
    pub(crate) calm_since_ns: Option<u64>,
    /// How long packets of a queue pair may be on their way after it was reset.
    pub(crate) drain_ns: u64,
    pub(crate) coverage: &'a mut Coverage,
}

/// What the application of a pair is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Requests are posted and complete.
    Running,
    /// Both queue pairs have failed or were ended; old packets leave the network until this time.
    Draining { until_ns: u64, restart: Restart },
    /// Everything has completed.
    Done,
}

/// Two connected queue pairs.
pub(crate) struct Pair {
    plan: PairPlan,
    /// The network may double and reorder packets: an unreliable service then may do so, too.
    network_reorders: bool,
    pub(crate) ends: [End; 2],
    phase: Phase,
    random: Random,
    /// A request with a mistake was posted: both queue pairs will fail.
    has_mistake: bool,
    /// Both queue pairs are in the error state because the application has moved them there.
    is_ending: bool,
    /// Regions that are deregistered at work.
    withdrawals: Vec<Withdrawal>,
    /// Connections that nobody was told of.
    new_connections: Vec<MonitoredConnection>,
    /// When the application looks for completions that came of what it has done itself.
    look_ns: Option<u64>,
    /// The application has done more than to poll since it was asked.
    has_acted: bool,
}

impl Pair {
    pub(crate) fn new(
        plan: &PairPlan,
        network_reorders: bool,
        nics: &[Nic],
        mut random: Random,
    ) -> Pair {
        let mut plan = plan.clone();
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
            plan,
            network_reorders,
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
        format!("{first}; {second}{mistake}")
    }

    /// True if nothing that arrives is of interest now.
    pub(crate) fn is_waiting(&self, now_ns: u64) -> bool {
        match self.phase {
            Phase::Running => false,
            Phase::Draining { until_ns, .. } => now_ns < until_ns,
            Phase::Done => true,
        }
    }

    /// True if a completion waits for the application, at nodes that are busy or not in the list.
    pub(crate) fn has_completions(&self, busy: &[bool]) -> bool {
        let may_have = |end: &&End| busy.get(end.node).is_none_or(|busy| *busy);
        self.ends.iter().filter(may_have).any(End::has_completions)
    }

    /// The application looks for completions at this time.
    pub(crate) fn look_at(&mut self, at_ns: u64) {
        self.look_ns = Some(at_ns);
    }

    /// When the application acts next, whatever happens on the network.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        match self.phase {
            Phase::Running => {
                let wakes = self.ends.iter().filter_map(|end| end.wake_ns);
                wakes.chain(self.look_ns).chain(self.next_withdrawal()).min()
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

    fn connect(&mut self) {
        let psns = [start_psn(&mut self.random), start_psn(&mut self.random)];
        let peers = self.ends.each_ref().map(End::peer);
        self.ends[0].connect(&self.plan, &peers[1], psns);
        self.ends[1].connect(&self.plan, &peers[0], [psns[1], psns[0]]);
        for end in &mut self.ends {
            end.wake_ns = Some(0);
        }
        let connection = |from: usize, to: usize| MonitoredConnection {
            ends: [
                (self.ends[from].node, self.ends[from].qpn),
                (self.ends[to].node, self.ends[to].responder()),
            ],
            psns: [psns[from], psns[to]],
            service: self.plan.service,
            mtu: self.plan.mtu,
            max_rd_atomic: self.plan.rd_atomic,
            models: [self.ends[from].nic.is_model(), self.ends[to].nic.is_model()],
        };
        // With XRC, each direction has queue pairs of its own.
        self.new_connections = match self.plan.service.is_xrc() {
            true => vec![connection(0, 1), connection(1, 0)],
            false => vec![connection(0, 1)],
        };
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

    /// The connections that have begun since the last call.
    pub(crate) fn take_connections(&mut self) -> Vec<MonitoredConnection> {
        std::mem::take(&mut self.new_connections)
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
        }
    }

    fn run(&mut self, turn: &mut Turn<'_>) -> Check {
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
        if has_failed {
            return self.begin_restart(Restart::Reset, turn);
        }
        for index in 0..2 {
            if self.ends[index].wake_ns.is_some_and(|at| at <= turn.now_ns) {
                self.act(index, turn)?;
            }
        }
        if self.random.below(1000) < self.plan.restarts && turn.calm_since_ns.is_none() {
            let restart = if self.random.chance(50) { Restart::Destroy } else { Restart::Reset };
            return self.begin_restart(restart, turn);
        }
        if self.ends.iter().all(|end| end.left == 0 && end.sends.is_empty()) {
            return self.finish(turn);
        }
        Ok(())
    }

    /// Everything has completed: what arrived must be all.
    fn finish(&mut self, turn: &mut Turn<'_>) -> Check {
        if !self.is_reliable() {
            return self.begin_restart(Restart::Reset, turn);
        }
        for end in &self.ends {
            ensure(end.awaited.is_empty(), Invariant::Messages, || {
                let first = end.awaited[0].number;
                format!("message {first} was acknowledged and never received ({:?})", end.qpn)
            })?;
        }
        self.begin_restart(Restart::Reset, turn)
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
