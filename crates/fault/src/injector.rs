//! Applies a plan to packets.

mod answer;
mod connections;
mod decision;
mod edit;
mod event;
mod flows;
mod limits;
mod matching;
mod report;
mod rule_state;
mod store;
mod stream;
mod treatment;

use std::collections::VecDeque;
use std::net::IpAddr;

use connections::Connections;
use event::What;
pub use event::{FaultEvent, is_taken_away};
use flows::{Facts, FlowKey, Flows};
pub use limits::Limits;
pub use report::{Counters, Refusal, RuleReport};
use rule_state::RuleState;
pub use store::Origin;
use store::Store;
use treatment::{Mute, Treatment};

use crate::packet_view::PacketView;
use crate::rule::{Action, Rule};
use crate::{Direction, PacketMeta, Plan, Time};

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is.
    Pass,
    /// It goes on later, or changed: it comes from [`FaultInjector::poll_packet`].
    Taken,
    /// It does not go on. An answer may come from [`FaultInjector::poll_packet`].
    Dropped,
}

/// A packet that is to be sent on now.
#[derive(Debug, Clone, Copy)]
pub struct Release<'a> {
    /// Its direction, addresses, and what else is known of it.
    pub meta: PacketMeta,
    /// BTH to ICRC.
    pub packet: &'a [u8],
    /// What was done to it, as a comment for a capture: `fault: delayed by 10ms by rule 1`. Empty
    /// if the rule is quiet.
    pub faults: &'a str,
    /// Where it comes from.
    pub origin: Origin,
    /// Its ICRC is wrong on purpose: it must not be made right on the way.
    pub is_damaged: bool,
}

/// Applies a [`Plan`] to packets.
///
/// Give it every packet; send on what it lets pass; then take from [`poll_packet`] what goes on
/// instead, until that is `None`, and again at [`poll_timeout`]. Times must not go back. The same
/// packets, times and seed always give the same faults.
///
/// [`poll_packet`]: FaultInjector::poll_packet
/// [`poll_timeout`]: FaultInjector::poll_timeout
#[derive(Debug)]
pub struct FaultInjector {
    rules: Vec<Rule>,
    states: Vec<RuleState>,
    /// Indices of the rules about either direction.
    by_direction: [Vec<usize>; 2],
    /// Index of the rule that begins when this one is done.
    successors: Vec<Option<usize>>,
    needs: Needs,
    flows: Flows,
    connections: Connections,
    mutes: Vec<Mute>,
    mutes_max: usize,
    store: Store,
    treatment: Treatment,
    events: VecDeque<FaultEvent>,
    events_max: usize,
    counters: Counters,
    is_stopped: bool,
}

/// What the rules of a plan have to know about earlier packets.
#[derive(Debug, Clone, Copy)]
struct Needs {
    history: bool,
    peers: bool,
}

impl Needs {
    fn of(rules: &[Rule]) -> Self {
        let answers = |rule: &Rule| rule.actions.iter().any(|a| matches!(a, Action::Answer(_)));
        Self {
            history: rules.iter().any(|rule| rule.matcher.needs_history()),
            peers: rules.iter().any(answers),
        }
    }
}

impl FaultInjector {
    /// An injector with the default [`Limits`].
    pub fn new(plan: &Plan, seed: u64) -> Self {
        Self::with_limits(plan, seed, Limits::default())
    }

    /// An injector that keeps no more than `limits` say.
    pub fn with_limits(plan: &Plan, seed: u64, limits: Limits) -> Self {
        let rules = plan.rules().to_vec();
        let states = rules.iter().enumerate();
        let mut states =
            states.map(|(index, rule)| RuleState::new(rule, index, seed)).collect::<Vec<_>>();
        let successors = successors(&rules);
        for successor in successors.iter().flatten() {
            states[*successor].is_active = false;
        }
        let with_history = rules.iter().any(|rule| rule.matcher.needs_psn_history());
        Self {
            by_direction: [about(&rules, Direction::Tx), about(&rules, Direction::Rx)],
            needs: Needs::of(&rules),
            flows: Flows::new(limits.flows, with_history),
            connections: Connections::default(),
            mutes: Vec::new(),
            mutes_max: limits.muted,
            store: Store::new(limits.packets, limits.bytes),
            treatment: Treatment::default(),
            events: VecDeque::new(),
            events_max: limits.events,
            counters: Counters::default(),
            is_stopped: false,
            rules,
            states,
            successors,
        }
    }

    /// A packet has come: BTH to ICRC. Any bytes are allowed.
    pub fn handle_packet(&mut self, now: Time, meta: &PacketMeta, packet: &[u8]) -> Verdict {
        self.counters.seen += 1;
        self.treatment.begin(meta);
        let verdict = if self.is_stopped { Verdict::Pass } else { self.treat(now, meta, packet) };
        match verdict {
            Verdict::Pass => self.counters.passed += 1,
            Verdict::Dropped => self.counters.dropped += 1,
            Verdict::Taken => {}
        }
        if verdict == Verdict::Pass && self.store.has_holds() {
            let key = FlowKey::new(meta, &PacketView::new(packet));
            self.store.note_passed(now, key);
        }
        verdict
    }

    /// What the last [`FaultInjector::handle_packet`] did to its packet, as a comment for a
    /// capture; empty if nothing.
    pub fn faults(&self) -> &str {
        self.treatment.comment()
    }

    /// The next packet that is to be sent on by now.
    pub fn poll_packet(&mut self, now: Time) -> Option<Release<'_>> {
        let direction = self.store.first_direction()?;
        self.poll_packet_of(direction, now)
    }

    /// The next packet of one direction that is to be sent on by now.
    pub fn poll_packet_of(&mut self, direction: Direction, now: Time) -> Option<Release<'_>> {
        let packet = self.store.take(now, direction)?;
        let (meta, origin) = (packet.meta?, packet.origin);
        if origin == Origin::Packet {
            self.counters.released += 1;
            let key = FlowKey::new(&meta, &PacketView::new(&packet.bytes));
            self.store.note_passed(now, key);
        } else {
            self.counters.added += 1;
        }
        let packet = self.store.current();
        Some(Release {
            meta,
            packet: &packet.bytes,
            faults: &packet.comment,
            origin,
            is_damaged: packet.is_damaged,
        })
    }

    /// When [`FaultInjector::poll_packet`] has something again.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.store.next_time()
    }

    /// When [`FaultInjector::poll_packet_of`] has something of this direction again.
    pub fn poll_timeout_of(&self, direction: Direction) -> Option<Time> {
        self.store.next_time_of(direction)
    }

    /// The oldest event that was not fetched yet.
    pub fn poll_event(&mut self) -> Option<FaultEvent> {
        self.events.pop_front()
    }

    /// Name of the rule of an event; its number from 1 if it has none.
    pub fn rule_name(&self, event: &FaultEvent) -> &str {
        self.states.get(event.rule).map_or("", |state| &state.name)
    }

    /// Two queue pairs are connected. Answers need that; otherwise they learn it from
    /// connection management and from acknowledgements.
    pub fn learn_peer(&mut self, local: (IpAddr, u32), remote: (IpAddr, u32)) {
        let (src, dst) = (local.0, remote.0);
        let key = FlowKey { direction: Direction::Tx, src, dst, dest_qp: remote.1 };
        self.flows.pair(key, local.1);
    }

    /// What each rule has done so far, in the order of the plan.
    pub fn report(&self) -> impl Iterator<Item = RuleReport<'_>> {
        self.states.iter().map(|state| RuleReport {
            name: &state.name,
            text: &state.text,
            matched: state.matched,
            applied: state.applied,
            not_applied: state.not_applied,
            reason: state.reason,
        })
    }

    /// Packets so far.
    pub fn counters(&self) -> Counters {
        Counters { flows_forgotten: self.flows.forgotten(), ..self.counters }
    }

    /// Packets that wait, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        (self.store.len(), self.store.bytes())
    }
}

/// Indices of the rules about a direction.
fn about(rules: &[Rule], direction: Direction) -> Vec<usize> {
    let rules = rules.iter().enumerate();
    rules.filter(|(_, rule)| rule.matcher.is_about(direction)).map(|(index, _)| index).collect()
}

/// Index of the rule that each rule names in `then`.
fn successors(rules: &[Rule]) -> Vec<Option<usize>> {
    let named = |then: &String| rules.iter().position(|rule| rule.name.as_ref() == Some(then));
    rules.iter().map(|rule| rule.options.then.as_ref().and_then(named)).collect()
}
