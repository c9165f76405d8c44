//! What the judge remembers of a flow.

use super::check_acknowledge::Answers;
use super::check_congestion::CongestionSeen;
use super::check_icrc::IcrcSeen;
use super::check_path::{self, PathSeen};
use super::check_retry::{Fatal, Repeats, RequesterEnd};
use super::check_sequence::SequenceSeen;
use super::finding::Ledger;
use super::requests::RequestsSeen;
use super::rule::{Assumption, Rule};
use super::rules::acknowledge::UNANSWERED;
use super::rules::capture::CAPTURE_INCOMPLETE;
use super::rules::retry::TIMEOUT_STORM;
use super::unanswered::{Heard, Retries};
use crate::Timestamp;
use crate::track::FlowKey;

/// What the exchange of connection management fixed for a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Agreed {
    /// Path MTU in bytes.
    pub(super) mtu: Option<u32>,
    /// READs and atomics that may be outstanding; 0 if the exchange does not say.
    pub(super) depth: u8,
    /// How often the requester of the flow sends again.
    pub(super) retries: Retries,
}

/// What is remembered of one flow.
#[derive(Debug, Default)]
pub(super) struct FlowState {
    /// What names it.
    pub(super) key: Option<FlowKey>,
    /// Times that its requests began anew, as the tracker counts.
    pub(super) restarts: u64,
    /// The flow of the other direction.
    pub(super) peer: Option<usize>,
    /// Packets that were judged.
    pub(super) packets: u64,
    /// Frame of the first packet.
    pub(super) first_frame: u64,
    /// The capture lacks packets, or nothing tells whether it does.
    pub(super) is_incomplete: bool,
    /// Packets that were acknowledged and that the capture lacks, at least.
    pub(super) lacks: u64,
    /// The network reordered or doubled packets.
    pub(super) is_disordered: bool,
    /// What connection management fixed.
    pub(super) agreed: Option<Agreed>,
    /// ICRCs.
    pub(super) icrc: IcrcSeen,
    /// Fields that stay the same.
    pub(super) path: Option<PathSeen>,
    /// Messages of several packets.
    pub(super) sequence: SequenceSeen,
    /// Congestion marks of this flow, and what the other end made of them.
    pub(super) congestion: CongestionSeen,
    /// Requests of this flow.
    pub(super) requests: RequestsSeen,
    /// What the other end said to them.
    pub(super) answers: Answers,
    /// What of them was sent again.
    pub(super) repeats: Repeats,
    /// A NAK of this flow that ended a queue pair of which the requests are not known.
    pub(super) refusal: Option<Fatal>,
    /// Such a NAK with a wrong ICRC, before it was known whether any is right.
    pub(super) doubtful: Option<Fatal>,
    /// How its requests first came to their end before the queue pair began anew.
    pub(super) past: Option<PastEnd>,
    /// Some packet came from the address that it goes to; known at the end of the capture.
    pub(super) is_heard: bool,
    /// The peer went on behind the answers of this flow; known at the end of the capture.
    pub(super) is_heeded: bool,
    /// Some answers may belong to its requests, and nobody knows whether they do; known at the end of the capture.
    pub(super) is_undecided: bool,
    /// Answers of another queue pair were taken for its own, or answers to it for those to another one.
    pub(super) is_mispaired: bool,
}

/// How the requests of a flow came to their end before they began anew.
#[derive(Debug, Clone, Copy)]
pub(super) struct PastEnd {
    pub(super) end: RequesterEnd,
    /// The peer had answered some of them.
    pub(super) is_answered: bool,
}

impl FlowState {
    /// What is known of this flow is enough to judge a rule that assumes `assumption`.
    pub(super) const fn allows(&self, assumption: Assumption) -> bool {
        match assumption {
            Assumption::Nothing => true,
            Assumption::Complete => !self.is_incomplete && !self.is_mispaired,
            Assumption::CompleteInOrder => {
                !self.is_incomplete && !self.is_mispaired && !self.is_disordered
            }
        }
    }

    /// The queue pair begins anew at `time`: what the end of its life before shows is told now or never.
    /// A jump of PSNs alone may be what the capture lacks: behind it silence proves nothing, and a NAK does.
    pub(super) fn conclude_life(
        &mut self,
        index: usize,
        time: Timestamp,
        is_connected: bool,
        ledger: &mut Ledger,
    ) {
        let end = self.end(time);
        if is_connected || matches!(end, Some(RequesterEnd::Fatal(_))) {
            let is_answered = self.is_answered();
            self.repeats.conclude(index, time, self.heard_answers(), self.retries(), ledger);
            self.past = self.past.or(end.map(|end| PastEnd { end, is_answered }));
        }
    }

    /// How its requests came to their end, if they did, in a capture that lasts until `end`. Silence is none where answers may
    /// be there, or took another way.
    pub(super) fn end(&self, end: Timestamp) -> Option<RequesterEnd> {
        let is_known = |end: &RequesterEnd| match end {
            RequesterEnd::Fatal(_) => true,
            RequesterEnd::Stuck(_) => {
                !self.is_undecided && self.heard_answers() != Heard::Elsewhere
            }
            _ => !self.is_undecided,
        };
        self.repeats.end(end, self.retries()).filter(is_known)
    }

    fn retries(&self) -> Retries {
        self.agreed.map(|agreed| agreed.retries).unwrap_or_default()
    }

    /// The queue pair began anew: other PSNs, perhaps another path MTU.
    pub(super) fn begin_anew(&mut self) {
        self.forget_path();
        self.requests = RequestsSeen::default();
        self.answers = Answers::default();
        self.repeats = Repeats::default();
    }

    /// The path may be another one from now on.
    pub(super) fn forget_path(&mut self) {
        self.path = None;
        self.sequence = SequenceSeen::default();
    }

    /// At the end of the capture at `end`: tells what only the end can show.
    pub(super) fn conclude(
        &self,
        index: usize,
        peer: Option<&Self>,
        end: Timestamp,
        ledger: &mut Ledger,
    ) {
        self.icrc.conclude(index, self.has_effect(), ledger);
        check_path::conclude(index, self.path, peer.and_then(|peer| peer.path), ledger);
        if !self.is_undecided {
            self.repeats.conclude(index, end, self.heard(), self.retries(), ledger);
        }
        self.answers.conclude(index, end, ledger);
        self.congestion.conclude(index, ledger);
        if self.lacks > 0 {
            ledger.record(&CAPTURE_INCOMPLETE, Some(index), self.first_frame, || {
                format!("{} packets at least are missing", self.lacks)
            });
        }
    }

    /// What came back, at the end of the capture.
    fn heard(&self) -> Heard {
        match (self.heard_answers(), self.key.map(|key| key.destination)) {
            (Heard::NoAnswer, Some(address)) if self.is_heard => Heard::Others(address),
            (Heard::NoAnswer, Some(address)) => Heard::Nothing(address),
            (heard, _) => heard,
        }
    }

    /// Whether answers came, as far as its requests tell.
    fn heard_answers(&self) -> Heard {
        let went_on =
            || self.requests.first().is_some_and(|first| self.repeats.is_stuck_behind(first));
        match self.is_answered() {
            true => Heard::Answers,
            false if went_on() => Heard::Elsewhere,
            false => Heard::NoAnswer,
        }
    }

    /// A finding by `rule` about the flow `index` is told by a graver one.
    pub(super) fn explains(&self, rule: &Rule, index: usize, ledger: &Ledger) -> bool {
        let is_answered = self.is_answered();
        let is_told = *rule == TIMEOUT_STORM && !is_answered && ledger.has(&UNANSWERED, index);
        is_told || self.icrc.explains(rule, self.has_effect())
    }

    /// The other end answers the requests of this flow, or heeds its answers.
    const fn has_effect(&self) -> bool {
        self.is_answered() || self.is_heeded
    }

    /// A response or an acknowledgement came to one of its requests.
    pub(super) const fn is_answered(&self) -> bool {
        self.answers.count() > 0
    }

    /// Path MTU in bytes, as far as it is known.
    pub(super) fn mtu(&self) -> Option<u32> {
        self.sequence.mtu().or_else(|| self.agreed.and_then(|agreed| agreed.mtu))
    }
}
