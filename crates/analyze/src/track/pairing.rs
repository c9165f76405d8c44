//! Which two flows are one conversation.
//!
//! Packets of connected services name the queue pair that they go to, and not the one that they come
//! from. Connection management names both. Without it the PSNs tell: an answer has the PSN of a
//! request that is under way in the other flow.

use super::FlowId;
use crate::Packet;

/// How much more an impossible answer counts than a possible one.
const CONTRADICTION: i32 = 8;
/// A candidate that leads by so much is the other direction.
const LEAD: i32 = 4;
/// Flows that the answers of one flow are held against.
pub(super) const MAX_CANDIDATES: usize = 64;
/// Answers that wait until it is known whose they are.
const MAX_WAITING: usize = 16;
/// Answers that agree with a pair speak for it, up to so many.
const MAX_TRUST: i32 = 2 * CONTRADICTION;
/// A pair that so many answers agreed with was right, whatever comes later.
const PROVEN: u64 = 64;

/// How an answer goes with the requests of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerFit {
    /// It is an answer to a request that is under way.
    Belongs,
    /// The capture may lack the request, or have it later.
    Possible,
    /// It is none of its answers.
    Impossible,
}

impl AnswerFit {
    const fn score(self) -> i32 {
        match self {
            Self::Belongs => 1,
            Self::Possible => 0,
            Self::Impossible => -CONTRADICTION,
        }
    }
}

/// How two flows were found to be one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// REQ and REP of connection management name both queue pairs.
    ConnectionManagement,
    /// Datagrams name the queue pair that they come from.
    SourceQueuePair,
    /// Answers have PSNs that are under way in the other flow, and in no other one.
    AcknowledgedPsn,
    /// There is no other flow between the two addresses that could be meant.
    Addresses,
}

impl Pairing {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionManagement => "connection management",
            Self::SourceQueuePair => "source queue pair",
            Self::AcknowledgedPsn => "acknowledged PSNs",
            Self::Addresses => "addresses",
        }
    }
}

/// Two flows of one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversation {
    /// The two flows, the one that was seen first in front.
    pub flows: [FlowId; 2],
    /// How that was found.
    pub paired_by: Pairing,
    /// Answers that agree with it.
    pub agreeing: u64,
    /// Answers that do not: with many of them the two flows are not one conversation.
    pub contradicting: u64,
}

impl Conversation {
    /// Connection management said so, or the answers do.
    pub const fn is_certain(&self) -> bool {
        match self.paired_by {
            Pairing::ConnectionManagement | Pairing::SourceQueuePair => true,
            Pairing::AcknowledgedPsn => self.agreeing > 8 * self.contradicting,
            Pairing::Addresses => false,
        }
    }

    /// So many answers agreed that it was right as long as it lasted.
    pub(super) const fn is_proven(&self) -> bool {
        self.agreeing >= PROVEN
    }
}

/// What the answers in a flow say about which flow they answer, while that is not decided.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// At most [`MAX_CANDIDATES`].
    candidates: Vec<(FlowId, i32)>,
    /// Answers that were compared.
    answers: u64,
    /// More flows fit than have room.
    is_crowded: bool,
    waiting: Vec<Packet>,
    /// More answers wait than have room.
    is_overfull: bool,
    /// How much the answers speak for the peer, if there is one.
    trust: i32,
    /// The peer that the answers turned out not to belong to; no flow if there were several.
    mistaken: Option<FlowId>,
}

impl Claims {
    /// The answers belong to a flow, as far as is known.
    pub(super) fn decide(&mut self) -> UndecidedAnswers {
        let mistaken = self.mistaken;
        let before = std::mem::replace(self, Self { mistaken, ..Self::default() });
        UndecidedAnswers { answers: before.waiting, is_overfull: before.is_overfull }
    }

    /// An answer waits until it is known whose it is.
    pub(super) fn wait(&mut self, answer: &Packet) {
        match self.waiting.len() < MAX_WAITING {
            true => self.waiting.push(*answer),
            false => self.is_overfull = true,
        }
    }

    /// An answer agrees with the peer.
    pub(super) fn agree(&mut self) {
        self.trust = (self.trust + 1).min(MAX_TRUST);
        if self.trust == MAX_TRUST && !self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
    }

    /// An answer does not agree with the peer: true if another one must be looked for.
    pub(super) fn contradict(&mut self) -> bool {
        self.trust -= CONTRADICTION;
        self.trust <= 0
    }

    /// The answers do not belong to `peer`. `is_mistake`: they never did.
    pub(super) fn leave(&mut self, peer: FlowId, is_mistake: bool) {
        self.trust = 0;
        self.note(peer, AnswerFit::Impossible);
        if is_mistake {
            let is_other = self.mistaken.is_some_and(|mistaken| mistaken != peer);
            self.mistaken = Some(if is_other { FlowId::UNTRACKED } else { peer });
        }
    }

    /// The peer that the answers turned out not to belong to.
    pub(super) const fn mistaken(&self) -> Option<FlowId> {
        self.mistaken
    }

    /// Forgets flows that have found their peer, so that there is room for others.
    pub(super) fn keep(&mut self, is_free: impl Fn(FlowId) -> bool) {
        self.candidates.retain(|(flow, _)| is_free(*flow));
    }

    /// The next answer is to be compared with all of `flows`. Where they are many, that is done with ever fewer of
    /// the answers, so that the work for all answers together stays small.
    pub(super) fn takes_all(&mut self, flows: usize) -> bool {
        self.answers += 1;
        let all = flows <= MAX_CANDIDATES || self.answers.is_power_of_two();
        self.is_crowded &= !all;
        all
    }

    /// Notes how an answer fits the requests of `flow`.
    pub(super) fn note(&mut self, flow: FlowId, fit: AnswerFit) {
        let change = fit.score();
        if let Some((_, score)) = self.candidates.iter_mut().find(|(known, _)| *known == flow) {
            *score = score.saturating_add(change);
        } else if self.candidates.len() < MAX_CANDIDATES {
            self.candidates.push((flow, change));
        } else if fit != AnswerFit::Impossible {
            let worst = self.candidates.iter_mut().min_by_key(|(_, score)| *score);
            match worst.filter(|(_, score)| *score < change) {
                Some(worst) => *worst = (flow, change),
                None => self.is_crowded = true,
            }
        }
    }

    /// Notes how an answer fits the flows that those before it were compared with.
    pub(super) fn note_again(&mut self, fits: impl Fn(FlowId) -> Option<AnswerFit>) {
        for (flow, score) in &mut self.candidates {
            *score = score.saturating_add(fits(*flow).map_or(0, AnswerFit::score));
        }
    }

    /// Nothing was compared.
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// The answers may belong to `flow`.
    pub(super) fn may_be(&self, flow: FlowId) -> bool {
        let fits =
            |(candidate, score): &(FlowId, i32)| *candidate == flow && *score > -CONTRADICTION;
        self.is_crowded || self.candidates.iter().any(fits)
    }

    /// The flow that the answers belong to, if one leads.
    pub(super) fn winner(&self) -> Option<FlowId> {
        self.leading_by(LEAD)
    }

    /// The flow that the answers fit best.
    pub(super) fn best(&self) -> Option<FlowId> {
        self.leading_by(1)
    }

    fn leading_by(&self, lead: i32) -> Option<FlowId> {
        if self.is_crowded {
            return None;
        }
        let mut best: Option<(FlowId, i32)> = None;
        let mut second = -CONTRADICTION;
        for (flow, score) in self.candidates.iter().copied() {
            match best {
                Some((_, leading)) if leading >= score => second = second.max(score),
                _ => {
                    second = best.map_or(second, |(_, leading)| second.max(leading));
                    best = Some((flow, score));
                }
            }
        }
        best.filter(|(_, score)| *score > 0 && score - second >= lead).map(|(flow, _)| flow)
    }
}

/// Answers that have waited until it was known whose they are.
#[derive(Debug)]
pub(super) struct UndecidedAnswers {
    pub(super) answers: Vec<Packet>,
    /// There were more.
    pub(super) is_overfull: bool,
}

#[cfg(test)]
mod tests {
    use super::AnswerFit::{Belongs, Impossible, Possible};
    use super::*;

    const fn fit(fits: bool) -> AnswerFit {
        if fits { Belongs } else { Impossible }
    }

    #[test]
    fn one_answer_decides_where_nothing_else_fits() {
        let mut claims = Claims::default();
        claims.note(FlowId(3), Belongs);
        assert_eq!(claims.winner(), Some(FlowId(3)));
    }

    #[test]
    fn candidates_that_fit_alike_stay_undecided_until_one_is_impossible() {
        let mut claims = Claims::default();
        for _ in 0..10 {
            claims.note(FlowId(1), Belongs);
            claims.note(FlowId(2), Belongs);
            assert_eq!(claims.winner(), None);
        }
        claims.note(FlowId(1), Impossible);
        claims.note(FlowId(2), Belongs);
        assert_eq!(claims.winner(), Some(FlowId(2)));
    }

    #[test]
    fn a_flow_that_may_be_meant_is_left_behind_before_another_one_is_taken() {
        let mut claims = Claims::default();
        for _ in 1..LEAD {
            claims.note(FlowId(1), Possible);
            claims.note(FlowId(2), Belongs);
            assert_eq!(claims.winner(), None);
        }
        claims.note(FlowId(2), Belongs);
        assert_eq!(claims.winner(), Some(FlowId(2)));
    }

    #[test]
    fn answers_that_fit_nowhere_decide_nothing() {
        let mut claims = Claims::default();
        (0..20).for_each(|flow| claims.note(FlowId(flow), Impossible));
        assert_eq!(claims.winner(), None);
        claims.keep(|flow| flow == FlowId(7));
        claims.note(FlowId(8), Belongs);
        assert_eq!(claims.winner(), Some(FlowId(8)), "of those that are free");
    }

    #[test]
    fn of_more_flows_than_have_room_none_is_taken_while_more_of_them_fit() {
        let mut claims = Claims::default();
        let flows = MAX_CANDIDATES as u32 + 10;
        let mut compare = |fits: &dyn Fn(u32) -> bool| {
            match claims.takes_all(flows as usize) {
                true => (0..flows).for_each(|flow| claims.note(FlowId(flow), fit(fits(flow)))),
                false => claims.note_again(|flow| Some(fit(fits(flow.0)))),
            }
            assert!(claims.candidates.len() <= MAX_CANDIDATES);
            (claims.winner(), claims.may_be(FlowId(flows - 1)))
        };
        assert_eq!(compare(&|_| true), (None, true));
        assert_eq!(compare(&|flow| flow == flows - 1), (Some(FlowId(flows - 1)), true));
        assert_eq!(compare(&|_| false).0, None);
    }
}
