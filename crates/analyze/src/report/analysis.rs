//! From frames to a report.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use uroce_cm::{Mad, Message};
use uroce_wire::Qpn;

use super::conversation::service_name;
use super::remark::is_dropped;
use super::seen::Seen;
use super::{
    CaptureSummary, ConversationRow, EndRow, FindingRow, FlowRow, Known, MessageRow,
    REPORT_VERSION, Report, Verdict,
};
use crate::judge::{EndKind, Explanation, Finding, Judge};
use crate::track::{Annotation, Conversation, Flow, FlowId, Role, Tracker, TrackerConfig};
use crate::{Dissector, DissectorConfig, Filter, Frame, FrameKind, Learned, Packet};

/// Most closed connections that are remembered.
const MOST_CLOSED: usize = 65_536;

/// How a capture is analysed.
#[derive(Debug, Clone, Default)]
pub struct AnalysisConfig {
    /// UDP port of RoCE.
    pub dissector: DissectorConfig,
    /// Limits of what is remembered.
    pub tracker: TrackerConfig,
    /// Conversations that the report is about: those with a packet that passes.
    pub filter: Filter,
    /// Slowest messages that are told.
    pub slowest_messages: usize,
}

/// Takes the frames of a capture, one after the other, and makes a [`Report`]. Memory is bounded by
/// the limits of its tracker and not by the length of the capture.
#[derive(Debug)]
pub struct Analysis {
    config: AnalysisConfig,
    dissector: Dissector,
    tracker: Tracker,
    judge: Judge,
    capture: CaptureSummary,
    /// Flows with a packet that passed the filter; not kept without a filter.
    chosen: HashSet<FlowId>,
    /// A packet passed the filter, but for [`Filter::only_errors`].
    has_chosen: bool,
    /// Ends whose connection was closed.
    closed: HashSet<(IpAddr, Qpn)>,
}

impl Analysis {
    /// An analysis that has seen nothing.
    pub fn new(mut config: AnalysisConfig) -> Self {
        // All of the slowest may be of one flow.
        let of_flow = &mut config.tracker.slowest_messages;
        *of_flow = (*of_flow).max(config.slowest_messages);
        Self {
            dissector: Dissector::new(config.dissector),
            tracker: Tracker::new(config.tracker),
            judge: Judge::new(),
            capture: CaptureSummary::default(),
            chosen: HashSet::new(),
            has_chosen: false,
            closed: HashSet::new(),
            config,
        }
    }

    /// Takes the next frame, and calls `sink` for each packet in it.
    #[inline]
    pub fn handle_frame(&mut self, frame: &Frame<'_>, sink: &mut dyn FnMut(Seen<'_>)) -> FrameKind {
        let Self { config, dissector, tracker, judge, capture, chosen, has_chosen, closed } = self;
        let kind = dissector.dissect(frame, &mut |packet, payload, _| {
            let annotation = tracker.handle_packet(packet, payload);
            judge.handle_packet(packet, payload, &annotation, tracker);
            capture.note_packet(packet);
            let seen = Seen { packet, payload, annotation: &annotation, tracker };
            if !config.filter.is_empty() {
                *has_chosen |= choose(&config.filter, &seen, frame.comment, chosen);
            }
            if let Some(end) = closed_by(packet, &annotation, payload)
                && closed.len() < MOST_CLOSED
            {
                closed.insert(end);
            }
            sink(seen);
        });
        capture.note_frame(frame, &kind);
        capture.dropped_packets += u64::from(is_dropped(frame.comment));
        // The finished messages are not needed one by one; flows keep the slowest.
        while tracker.poll_message().is_some() {}
        kind
    }

    /// The capture could not be read any further.
    pub fn handle_error(&mut self, error: impl ToString) {
        self.capture.error = Some(error.to_string());
    }

    /// The capture says that so many packets are missing in it, altogether.
    pub fn handle_not_captured(&mut self, packets: u64) {
        self.capture.not_captured = packets;
    }

    /// There are packets, and none of them is what the filter asks for: it names a queue pair, an address or the like
    /// that the capture does not have. Where it asks for signs of trouble only, that there are none is an answer.
    pub fn misses_all(&self) -> bool {
        !self.config.filter.is_empty() && !self.has_chosen && self.capture.packets() > 0
    }

    /// The queue pairs that the capture has, whatever the filter: `10.0.0.1 0x11`, in the order of their addresses.
    pub fn queue_pairs(&self) -> Vec<String> {
        let ends = self.tracker.flows().iter().flat_map(|flow| {
            let key = flow.key();
            let source = flow.source_qpn().map(|qpn| (key.source, qpn));
            [source, Some((key.destination, key.destination_qpn))]
        });
        let ends: BTreeSet<_> = ends.flatten().collect();
        ends.into_iter().map(|(address, qpn)| EndRow::new(address, Some(qpn)).text()).collect()
    }

    /// What the capture called `name` tells.
    pub fn finish(mut self, name: &str) -> Report {
        self.tracker.finish();
        self.judge.finish(&self.tracker);
        self.capture.lost_by_capture =
            self.tracker.flows().iter().map(|flow| flow.figures().lost_by_capture).sum();
        self.capture.untracked_packets = self.tracker.summary().untracked_packets;
        let explanations = self.judge.explanations();
        let conversations = self.conversations(&explanations);
        let findings = self.findings(name);
        Report {
            version: REPORT_VERSION,
            source: name.to_owned(),
            verdict: Verdict::new(&self.capture, &conversations, &findings),
            slowest_messages: self.slowest(name),
            capture: self.capture,
            conversations,
            findings,
        }
    }

    fn findings(&self, name: &str) -> Vec<FindingRow> {
        let row = |finding: &Finding| {
            let source = finding.flow.and_then(|key| {
                let flow = self.tracker.flows().iter().find(|flow| *flow.key() == key)?;
                self.is_chosen(flow).then(|| EndRow::new(key.source, flow.source_qpn()))
            });
            let is_told = finding.flow.is_none() || source.is_some();
            is_told.then(|| FindingRow::new(finding, name, source))
        };
        self.judge.findings().iter().filter_map(row).collect()
    }

    fn slowest(&self, name: &str) -> Vec<MessageRow> {
        let flows = self.tracker.flows().iter().filter(|flow| self.is_chosen(flow));
        let mut slowest: Vec<_> = flows
            .flat_map(|flow| flow.slowest().iter().map(move |message| (message, flow)))
            .collect();
        slowest.sort_by_key(|(message, _)| std::cmp::Reverse(message.duration));
        slowest.truncate(self.config.slowest_messages);
        slowest.iter().map(|(message, flow)| MessageRow::new(message, flow, name)).collect()
    }

    fn conversations(&self, explanations: &[Explanation]) -> Vec<ConversationRow> {
        let flows = self.tracker.flows().iter();
        let is_first = |flow: &&Flow| flow.peer().is_none_or(|peer| flow.id() <= peer);
        let firsts = flows.filter(is_first).filter(|flow| self.is_chosen(flow));
        firsts
            .enumerate()
            .map(|(index, flow)| self.conversation(index + 1, flow, explanations))
            .collect()
    }

    fn conversation(
        &self,
        number: usize,
        first: &Flow,
        explanations: &[Explanation],
    ) -> ConversationRow {
        let second = first.peer().and_then(|peer| self.tracker.flow(peer));
        let mut flows: Vec<_> = [Some(first), second].into_iter().flatten().collect();
        flows.dedup_by_key(|flow| flow.id());
        // The flow with requests comes first; with both or none of them, the one that was seen first.
        flows.sort_by_key(|flow| flow.figures().requests == 0);
        let ids: Vec<_> = flows.iter().map(|flow| flow.id()).collect();
        let is_it = |pair: &&Conversation| pair.flows.iter().all(|id| ids.contains(id));
        let pairing = self.tracker.conversations().iter().find(is_it);
        let failure = failure(&flows, explanations);
        let service = flows.iter().find_map(|flow| flow.service());
        ConversationRow {
            number,
            service: service_name(service),
            paired_by: pairing.map_or("", |pair| pair.paired_by.name()),
            path_mtu: flows.iter().filter_map(|flow| flow.path_mtu()).max(),
            state: self.state(&flows, failure.is_some()),
            failure,
            flows: flows.iter().map(|flow| FlowRow::new(flow)).collect(),
        }
    }

    fn state(&self, flows: &[&Flow], has_failed: bool) -> &'static str {
        let is_closed = |flow: &&Flow| {
            let key = flow.key();
            self.closed.contains(&(key.destination, key.destination_qpn))
        };
        match has_failed {
            true => "failed",
            false if flows.iter().any(is_closed) => "closed",
            false => "open",
        }
    }

    /// The report is about this flow.
    fn is_chosen(&self, flow: &Flow) -> bool {
        self.config.filter.is_empty()
            || self.chosen.contains(&flow.id())
            || flow.peer().is_some_and(|peer| self.chosen.contains(&peer))
    }
}

/// Takes the flow of a packet that passes. True if it does, or would if it were a sign of trouble.
#[cold]
fn choose(filter: &Filter, seen: &Seen<'_>, comment: &str, chosen: &mut HashSet<FlowId>) -> bool {
    let learned = Known::default().learn(seen, comment);
    if filter.matches(seen.packet, seen.payload, learned) {
        chosen.insert(seen.annotation.flow);
        return true;
    }
    let as_error = || Learned { is_error: true, ..learned };
    filter.only_errors() && filter.matches(seen.packet, seen.payload, as_error())
}

/// Why a conversation failed. A NAK says so; silence of the other direction may only follow from it.
fn failure(flows: &[&Flow], explanations: &[Explanation]) -> Option<String> {
    let is_its = |end: &&Explanation| flows.iter().any(|flow| *flow.key() == end.flow);
    let is_silence = |end: &&Explanation| end.kind != EndKind::FatalNak;
    explanations.iter().filter(is_its).min_by_key(is_silence).map(|end| end.text.clone())
}

/// The queue pair that a packet asks to close, if it is a DREQ.
pub fn closed_by(
    packet: &Packet,
    annotation: &Annotation,
    payload: &[u8],
) -> Option<(IpAddr, Qpn)> {
    if annotation.role != Role::Management || annotation.is_damaged {
        return None;
    }
    match Mad::parse(payload).ok()?.message {
        Message::Dreq(dreq) => Some((packet.destination_ip(), dreq.remote_qpn)),
        _ => None,
    }
}
