//! Captured traffic held against the rules of the protocol.
//!
//! ```text
//!  packets with their annotations -> [`Judge`] -> [`Finding`]: a rule, a flow, frame numbers, text
//!                                        |
//!                                        +-> [`Explanation`]: how a connection came to its end
//! ```
//!
//! What implementations are known to do differently is a note; what only a capture that is complete
//! can show is not told of a flow of which the capture lacks packets.

mod check_acknowledge;
mod check_congestion;
mod check_icrc;
mod check_packet;
mod check_path;
mod check_response;
mod check_retry;
mod check_sequence;
mod close;
mod connection;
mod explanation;
mod finding;
mod flow_state;
mod page;
mod requests;
mod rule;
mod rules;
mod sight;
#[cfg(test)]
mod tests;
mod unanswered;
mod words;

use std::collections::{HashMap, HashSet};

pub(crate) use check_packet::is_undefined;
use close::Close;
pub use explanation::{EndKind, Explanation};
pub use finding::{Finding, MAX_FRAMES};
use finding::{FlowIndex, Ledger};
use flow_state::FlowState;
pub use page::findings_page;
use rule::Assumption;
pub use rule::{Rule, Severity};
pub use rules::RULES;
use sight::Sight;
use uroce_wire::Service;

use crate::track::{Annotation, FlowId, FlowKey, Tracker};
use crate::{Packet, Timestamp};

/// Holds packets against [`RULES`].
///
/// It gets each packet with its payload and its annotation, in the order of the capture, and
/// [`Judge::finish`] at the end. Memory is bounded by the tracker's limit of flows.
#[derive(Debug, Default)]
pub struct Judge {
    flows: Vec<FlowState>,
    by_key: HashMap<FlowKey, usize>,
    connections: connection::CmExchanges,
    ledger: Ledger,
    end: Timestamp,
}

impl Judge {
    /// A judge that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the next packet; `annotation` is what `tracker` said about it.
    pub fn handle_packet(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        annotation: &Annotation,
        tracker: &Tracker,
    ) {
        self.end = self.end.max(packet.time);
        if annotation.is_damaged {
            self.handle_damaged(packet, payload, annotation, tracker);
            return;
        }
        if annotation.flow == FlowId::UNTRACKED || annotation.is_second_sighting {
            return;
        }
        let sight = Sight::new(packet, payload, annotation);
        self.prepare(&sight, annotation, tracker);
        let state = &mut self.flows[sight.flow];
        state.packets += 1;
        if !state.icrc.check(&sight, &mut self.ledger) {
            state.doubtful = state.doubtful.or_else(|| check_retry::fatal_of(&sight));
            return;
        }
        check_packet::check(&sight, &mut self.ledger);
        state.congestion.note_packet(&sight);
        if sight.is_cnp() {
            self.handle_cnp(&sight);
        } else if sight.connected().is_some() {
            self.handle_connected(&sight);
        } else if sight.is_management() {
            self.connections.check(&sight, &mut self.ledger);
            self.begin_connections();
            self.close_connections(&sight);
        }
    }

    /// Tells of a damaged packet, and believes nothing in it.
    #[cold]
    fn handle_damaged(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        annotation: &Annotation,
        tracker: &Tracker,
    ) {
        if annotation.flow == FlowId::UNTRACKED {
            check_icrc::note_of_no_flow(packet, &mut self.ledger);
            return;
        }
        let sight = Sight::new(packet, payload, annotation);
        self.prepare(&sight, annotation, tracker);
        let icrc = &mut self.flows[sight.flow].icrc;
        icrc.note_damaged();
        icrc.check(&sight, &mut self.ledger);
    }

    /// Makes room for the flow, and takes over what is known about it.
    fn prepare(&mut self, sight: &Sight<'_>, annotation: &Annotation, tracker: &Tracker) {
        let peer = sight.peer.unwrap_or(0).max(sight.flow);
        if self.flows.len() <= peer {
            self.flows.resize_with(peer + 1, FlowState::default);
        }
        let restarts = tracker.flow(annotation.flow).map_or(0, |flow| flow.figures().restarts);
        let state = &mut self.flows[sight.flow];
        if state.key.is_none() {
            let key = FlowKey::of(sight.packet);
            state.key = Some(key);
            state.first_frame = sight.packet.frame;
            state.agreed = self.connections.agreed(&key);
            self.by_key.insert(key, sight.flow);
        }
        state.peer = sight.peer.or(state.peer);
        if state.restarts != restarts {
            state.restarts = restarts;
            self.begin_anew(sight.flow, false);
        }
    }

    /// The requests of a flow begin anew, perhaps since connection management says so; the other end
    /// has another path MTU, perhaps.
    fn begin_anew(&mut self, flow: usize, is_connected: bool) {
        self.flows[flow].conclude_life(flow, self.end, is_connected, &mut self.ledger);
        self.flows[flow].begin_anew();
        if let Some(peer) = self.flows[flow].peer {
            self.flows[peer].forget_path();
        }
    }

    fn begin_connections(&mut self) {
        while let Some(key) = self.connections.poll_changed() {
            let agreed = self.connections.agreed(&key);
            if let Some(&flow) = self.by_key.get(&key) {
                self.flows[flow].agreed = agreed;
                self.begin_anew(flow, true);
            }
        }
    }

    /// A DREQ names one direction of a connection, and the other one is closed with it.
    fn close_connections(&mut self, sight: &Sight<'_>) {
        while let Some(key) = self.connections.poll_closed() {
            let Some(&flow) = self.by_key.get(&key) else { continue };
            for flow in [Some(flow), self.flows[flow].peer].into_iter().flatten() {
                self.flows[flow].repeats.note_close(Close::of(sight));
            }
        }
    }

    fn handle_cnp(&mut self, sight: &Sight<'_>) {
        self.flows[sight.flow].congestion.check_cnp(sight, &mut self.ledger);
        if let Some(peer) = sight.peer {
            self.flows[peer].congestion.note_notification(sight.packet.frame);
        }
    }

    fn handle_connected(&mut self, sight: &Sight<'_>) {
        let Self { flows, ledger, .. } = self;
        let state = &mut flows[sight.flow];
        let agreed_mtu = state.agreed.and_then(|agreed| agreed.mtu);
        check_path::check(sight, &mut state.path, agreed_mtu, ledger);
        if let Some(info) = sight.request() {
            check_response::check_request(sight, state, ledger);
            let sent_below = state.requests.sent_below();
            state.answers.note_request(sight, sent_below, ledger);
            let mtu = state.mtu();
            let span = state.requests.note(sight, info, mtu);
            state.sequence.check(sight, span, ledger);
            state.repeats.check_request(sight, ledger);
            return;
        }
        state.sequence.check(sight, None, ledger);
        let mtu = state.sequence.mtu();
        match sight.peer {
            Some(peer) => self.handle_answer(sight, mtu, peer),
            None => {
                let refusal = check_retry::check_unpaired(sight, ledger);
                state.refusal = state.refusal.or(refusal);
            }
        }
    }

    fn handle_answer(&mut self, sight: &Sight<'_>, mtu: Option<u32>, peer: usize) {
        let Self { flows, ledger, .. } = self;
        let requester = &mut flows[peer];
        let mtu = mtu.or_else(|| requester.mtu());
        check_response::check(sight, requester, mtu, ledger);
        requester.is_disordered |= requester.answers.check(sight, &requester.requests, ledger);
        let mtu = requester.mtu();
        requester.repeats.check_answer(sight, &requester.requests, mtu, ledger);
        if check_retry::fatal_of(sight).is_some() {
            flows[sight.flow].repeats.note_own_refusal();
        }
    }

    /// The capture has ended, and `tracker` was told so: judges what only the end can show.
    pub fn finish(&mut self, tracker: &Tracker) {
        for (state, flow) in self.flows.iter_mut().zip(tracker.flows()) {
            let figures = flow.figures();
            // Nothing tells whether the network lost what UC skipped, or the capture.
            let may_lack = flow.service() == Some(Service::Uc) && figures.lost_unknown > 0;
            state.is_incomplete |= figures.lost_by_capture > 0 || may_lack;
            state.lacks = figures.lost_by_capture;
            state.is_undecided = flow.is_undecided();
            state.is_mispaired = flow.is_mispaired();
            state.is_disordered |= figures.reordered > 0 || figures.duplicates > 0;
            state.peer = flow.peer().and_then(|peer| usize::try_from(peer.0).ok());
        }
        self.note_heard();
        self.note_heeded(tracker);
        self.believe_refusals();
        let Self { flows, by_key, connections, ledger, end } = self;
        for (index, state) in flows.iter().enumerate() {
            let peer = state.peer.and_then(|peer| flows.get(peer));
            state.conclude(index, peer, *end, ledger);
        }
        connections.conclude(*end, |key| by_key.contains_key(key), ledger);
    }

    /// Notes for each flow whether anything came from where it goes to, of whatever queue pair.
    fn note_heard(&mut self) {
        let mut flows_of: HashMap<_, u32> = HashMap::new();
        for key in self.by_key.keys() {
            *flows_of.entry((key.source, key.destination)).or_default() += 1;
        }
        for state in &mut self.flows {
            let Some(key) = state.key else { continue };
            let back = flows_of.get(&(key.destination, key.source)).copied().unwrap_or(0);
            // Between queue pairs of one address the flow itself goes that way, too.
            state.is_heard = back > u32::from(key.source == key.destination);
        }
    }

    /// Notes for each flow whether its answers were heeded: the peer went on behind them, and sent nothing again that they
    /// had answered.
    fn note_heeded(&mut self, tracker: &Tracker) {
        for index in 0..self.flows.len() {
            let Some(peer) = self.flows[index].peer else { continue };
            let repeats =
                tracker.flows().get(peer).is_none_or(|flow| flow.figures().answered_before > 0);
            let went_on = self.flows.get(peer).is_some_and(|peer| peer.answers.has_gone_on());
            self.flows[index].is_heeded = went_on && !repeats;
        }
    }

    /// Where no ICRC from one address to another is right, the first packets are believed, too: a NAK
    /// that ended a queue pair is often one of them.
    fn believe_refusals(&mut self) {
        let way = |state: &FlowState| state.key.map(|key| (key.source, key.destination));
        let right = self.flows.iter().filter(|state| state.icrc.is_right());
        let right: HashSet<_> = right.filter_map(way).collect();
        for (index, state) in self.flows.iter_mut().enumerate() {
            let is_damage = way(state).is_some_and(|way| right.contains(&way));
            if let Some(fatal) = state.doubtful.take().filter(|_| !is_damage) {
                fatal.record(index, &mut self.ledger);
                state.refusal.get_or_insert(fatal);
            }
        }
    }

    /// How often the packets so far break `rule`. What only the end can show is not among it, and what turns out
    /// to be uncertain later is.
    pub fn instances(&self, rule: &Rule) -> u64 {
        self.ledger.instances(rule)
    }

    /// What was found so far, the gravest first.
    pub fn findings(&self) -> Vec<Finding> {
        let key = |flow: usize| self.flows.get(flow).and_then(|state| state.key);
        let mut findings = self.ledger.findings(key, |rule, flow| self.is_certain(rule, flow));
        if self.ledger.refused() > 0 {
            findings.push(Finding {
                rule: &rules::capture::FINDINGS_LIMIT,
                flow: None,
                count: self.ledger.refused(),
                frames: Vec::new(),
                last_frame: 0,
                text: format!("{} findings were not kept", self.ledger.refused()),
            });
        }
        findings
    }

    /// How connections came to their end, in the order of their first packets; those that nothing
    /// is known about are left out.
    pub fn explanations(&self) -> Vec<Explanation> {
        explanation::explain(&self.flows, self.end)
    }

    fn is_certain(&self, rule: &Rule, flow: FlowIndex) -> bool {
        let Some((index, state)) = flow.and_then(|flow| Some((flow, self.flows.get(flow)?))) else {
            return true;
        };
        let peer = state.peer.and_then(|peer| self.flows.get(peer));
        let allows = |state: &FlowState| state.allows(rule.assumption);
        allows(state) && peer.is_none_or(allows) && !state.explains(rule, index, &self.ledger)
    }
}
