//! How connections came to their end.

use std::fmt;

use uroce_wire::NakCode;

use super::check_retry::{Fatal, RequesterEnd};
use super::finding::words_of;
use super::flow_state::FlowState;
use super::rule::Assumption;
use super::unanswered::{NotReady, Stuck};
use crate::Timestamp;
use crate::track::FlowKey;

/// Why a requester stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndKind {
    /// A NAK refused a request for good.
    FatalNak,
    /// The responder was not ready too often.
    RnrRetriesExceeded,
    /// Repetitions stayed without an answer.
    RetriesExceeded,
    /// No answer was ever seen.
    NeverAnswered,
}

/// How the requests of a flow came to their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The flow of the requests; that of the answers if the requests are not known.
    pub flow: FlowKey,
    /// In a word.
    pub kind: EndKind,
    /// The frame that shows it.
    pub frame: u64,
    /// In one or two sentences, with what to check.
    pub text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", words_of(&self.flow), self.text)
    }
}

/// Explains the flows that came to an end in a capture that lasts until `end`.
pub(super) fn explain(flows: &[FlowState], end: Timestamp) -> Vec<Explanation> {
    let explain = |state: &FlowState| {
        let flow = state.key?;
        let now = state.end(end).map(|end| (end, state.is_answered()));
        let past = || state.past.map(|past| (past.end, past.is_answered));
        let refusal = || state.refusal.map(|fatal| (RequesterEnd::Fatal(fatal), true));
        let is_sure = |(end, _): &(RequesterEnd, bool)| is_certain(*end, state, flows);
        let now = now.filter(is_sure);
        let (end, is_answered) = now.or_else(|| past().filter(is_sure)).or_else(refusal)?;
        let (kind, frame, text) = match end {
            RequesterEnd::Fatal(fatal) => fatal_nak(&fatal),
            RequesterEnd::NotReady(not_ready) => rnr(&not_ready),
            RequesterEnd::Stuck(stuck) => silence(&stuck, is_answered),
        };
        Some(Explanation { flow, kind, frame, text })
    };
    flows.iter().filter_map(explain).collect()
}

/// A NAK shows it by itself; silence does only if the capture has all packets of both flows.
fn is_certain(end: RequesterEnd, state: &FlowState, flows: &[FlowState]) -> bool {
    let peer = state.peer.and_then(|peer| flows.get(peer));
    let is_complete = |flow: &FlowState| flow.allows(Assumption::Complete);
    matches!(end, RequesterEnd::Fatal(_)) || is_complete(state) && peer.is_none_or(is_complete)
}

fn fatal_nak(fatal: &Fatal) -> (EndKind, u64, String) {
    let text = format!(
        "frame {} refuses PSN {:#x}: {}. {}",
        fatal.frame,
        fatal.psn & 0xff_ffff,
        fatal.code.name(),
        advice(fatal.code)
    );
    (EndKind::FatalNak, fatal.frame, text)
}

const fn advice(code: NakCode) -> &'static str {
    match code {
        NakCode::RemoteAccess => {
            "Check the rkey, the address and length, and the access flags of the region and of the \
             responder's queue pair."
        }
        NakCode::InvalidRequest => {
            "Check that the receive is long enough, that both ends have the same path MTU, the \
             access flags of the responder's queue pair, and the number of READs outstanding."
        }
        NakCode::RemoteOperational => {
            "The responder could not do it: check the lkey and memory of its receives and its log."
        }
        NakCode::PsnSequence | NakCode::InvalidRdRequest => "Check the responder.",
    }
}

fn rnr(not_ready: &NotReady) -> (EndKind, u64, String) {
    let text = format!(
        "PSN {:#x} met {} RNR NAKs, the last in frame {}, and was not sent again: the requester gave \
         up (rnr_retry). Check that the peer posts receives before they are needed.",
        not_ready.psn & 0xff_ffff,
        not_ready.naks,
        not_ready.frame
    );
    (EndKind::RnrRetriesExceeded, not_ready.frame, text)
}

fn silence(stuck: &Stuck, is_answered: bool) -> (EndKind, u64, String) {
    let (psn, copies) = (stuck.psn & 0xff_ffff, stuck.copies);
    let what = format!(
        "PSN {psn:#x} was sent {copies} times until frame {} without an answer",
        stuck.frame
    );
    if is_answered {
        let text = format!(
            "{what}, then not again: the requester gave up (retry_cnt). The peer answered before: \
             check whether its queue pair still exists, and loss or path MTU on the way."
        );
        return (EndKind::RetriesExceeded, stuck.frame, text);
    }
    let text = format!(
        "{what}, and nothing ever came back. Check that the peer has this queue pair in RTR or RTS, \
         the destination address, and firewalls for UDP port 4791."
    );
    (EndKind::NeverAnswered, stuck.frame, text)
}
