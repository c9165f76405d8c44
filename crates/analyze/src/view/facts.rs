//! What the tracker says, in the terms of a page.

use std::collections::HashSet;

use uroce_wire::Service;

use super::input::{Facts, ViewConversation, ViewEnd, ViewFinding};
use crate::judge::{Finding, Judge, Severity};
use crate::track::{Annotation, Conversation, Flow, FlowId, FlowKey, Role, Tracker};

impl Facts<'static> {
    /// The facts in `annotation`.
    pub(super) fn new(annotation: &Annotation) -> Self {
        let retransmission = annotation.retransmission;
        let is_connected =
            !matches!(annotation.role, Role::Datagram | Role::Management | Role::Unknown);
        let is_cnp = annotation.role == Role::CongestionNotification;
        let is_followed = !annotation.is_second_sighting && !annotation.is_damaged;
        let bytes = annotation.outstanding.bytes;
        Self {
            flow: annotation.flow.0,
            psn: annotation.psn.0,
            is_response: is_response(annotation.role),
            is_retransmission: retransmission.is_some(),
            cause: retransmission.map_or("", |again| again.cause.name()),
            first_seen: retransmission.and_then(|again| again.first_seen),
            is_second_sighting: annotation.is_second_sighting,
            is_damaged: annotation.is_damaged,
            is_unsolicited: annotation.is_unsolicited,
            is_duplicate: annotation.is_duplicate,
            is_reordered: annotation.is_reordered,
            is_behind_gap: annotation.gap_before.is_some(),
            outstanding: Some(bytes).filter(|_| is_connected && !is_cnp && is_followed),
            round_trip: annotation.round_trip,
        }
    }
}

const fn is_response(role: Role) -> bool {
    use Role::{Acknowledgement, Nak, ReservedNak, Response, RnrNak};
    matches!(role, Response | Acknowledgement | Nak(_) | ReservedNak(_) | RnrNak)
}

/// What `judge` found, and how connections came to their end: of the flows that `is_told` takes, and
/// of no flow.
pub(super) fn findings(judge: &Judge, is_told: impl Fn(&FlowKey) -> bool) -> Vec<ViewFinding> {
    let ends = judge.explanations().into_iter().filter(|end| is_told(&end.flow));
    let ends = ends.map(|end| ViewFinding {
        rule: "end".to_owned(),
        title: "How the connection ended".to_owned(),
        meaning: String::new(),
        severity: Severity::Error,
        text: end.text,
        frames: vec![end.frame],
    });
    let found = judge.findings().into_iter();
    let found = found.filter(|finding| finding.flow.as_ref().is_none_or(&is_told));
    ends.chain(found.map(finding)).collect()
}

fn finding(from: Finding) -> ViewFinding {
    let times = if from.count > 1 { format!(" ({} times)", from.count) } else { String::new() };
    ViewFinding {
        rule: from.rule.name.to_owned(),
        title: from.rule.title.to_owned(),
        meaning: format!("{} {}", from.rule.meaning, from.rule.advice),
        severity: from.rule.severity,
        text: from.text + &times,
        frames: from.frames,
    }
}

/// The flows of `shown`, and their other directions.
pub(super) fn keys_of(tracker: &Tracker, shown: &HashSet<FlowId>) -> HashSet<FlowKey> {
    let is_told = |flow: &&Flow| {
        shown.contains(&flow.id()) || flow.peer().is_some_and(|peer| shown.contains(&peer))
    };
    tracker.flows().iter().filter(is_told).map(|flow| *flow.key()).collect()
}

/// The conversations that `tracker` found, and those of one direction only, if they have a flow of
/// `shown`.
pub(super) fn conversations(tracker: &Tracker, shown: &HashSet<FlowId>) -> Vec<ViewConversation> {
    // A flow may have another peer since, or the same one again.
    let is_current = |(number, pair): &(usize, &Conversation)| {
        let first = tracker.flow(pair.flows[0]);
        let is_last = first.and_then(Flow::conversation) == Some(*number);
        is_last && first.and_then(Flow::peer) == Some(pair.flows[1])
    };
    let numbered = || tracker.conversations().iter().enumerate();
    let current = || numbered().filter(is_current).map(|(_, pair)| pair);
    let pairs = current().filter_map(|pair| {
        let [first, second] = pair.flows.map(|id| tracker.flow(id));
        Some(conversation(first?, second, pair.paired_by.name()))
    });
    let paired: HashSet<_> = current().flat_map(|pair| pair.flows).collect();
    let alone = tracker.flows().iter().filter(|flow| !paired.contains(&flow.id()));
    let is_shown = |of: &ViewConversation| {
        of.flows.iter().flatten().any(|flow| shown.contains(&FlowId(*flow)))
    };
    let all = pairs.chain(alone.map(|flow| conversation(flow, None, "")));
    all.filter(is_shown).collect()
}

/// A conversation whose first end sends `flow`, and whose second end sends `back`.
fn conversation(flow: &Flow, back: Option<&Flow>, paired_by: &str) -> ViewConversation {
    let key = flow.key();
    let source_qpn = back.map(|back| back.key().destination_qpn).or(flow.source_qpn());
    let service = flow.service().or_else(|| back.and_then(Flow::service));
    ViewConversation {
        ends: [
            ViewEnd { address: key.source.to_string(), qpn: source_qpn.map(|qpn| qpn.get()) },
            ViewEnd { address: key.destination.to_string(), qpn: Some(key.destination_qpn.get()) },
        ],
        service: service_name(service).to_owned(),
        paired_by: paired_by.to_owned(),
        flows: [Some(flow.id().0), back.map(|back| back.id().0)],
    }
}

const fn service_name(service: Option<Service>) -> &'static str {
    match service {
        Some(Service::Rc) => "RC",
        Some(Service::Uc) => "UC",
        Some(Service::Ud) => "UD",
        Some(Service::Xrc) => "XRC",
        Some(Service::Cnp) | None => "?",
    }
}
