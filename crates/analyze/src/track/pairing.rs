//! Which two flows are one conversation.
//!
//! Packets of connected services name the queue pair that they go to, and not the one that they come
//! from. Connection management names both. Without it the PSNs tell: an answer has the PSN of a
//! request that is under way in the other flow.

use super::FlowId;

/// How much more an impossible answer counts than a possible one.
const CONTRADICTION: i32 = 8;
/// A candidate that leads by so much is the other direction.
const LEAD: i32 = 4;

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
}

/// What the answers in a flow say about which flow they answer, while that is not decided.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// At most as many as the table of flows compares with an answer.
    candidates: Vec<(FlowId, i32)>,
}

impl Claims {
    /// Forgets flows that have found their peer, so that there is room for others.
    pub(super) fn keep(&mut self, is_free: impl Fn(FlowId) -> bool) {
        self.candidates.retain(|(flow, _)| is_free(*flow));
    }

    /// Notes whether an answer fits the requests of `flow`.
    pub(super) fn note(&mut self, flow: FlowId, fits: bool) {
        let change = if fits { 1 } else { -CONTRADICTION };
        match self.candidates.iter_mut().find(|(candidate, _)| *candidate == flow) {
            Some((_, score)) => *score = score.saturating_add(change),
            None => self.candidates.push((flow, change)),
        }
    }

    /// The flow that the answers belong to, if one leads.
    pub(super) fn winner(&self) -> Option<FlowId> {
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
        best.filter(|(_, score)| *score > 0 && score - second >= LEAD).map(|(flow, _)| flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_decides_where_nothing_else_fits() {
        let mut claims = Claims::default();
        claims.note(FlowId(3), true);
        assert_eq!(claims.winner(), Some(FlowId(3)));
    }

    #[test]
    fn candidates_that_fit_alike_stay_undecided_until_one_is_impossible() {
        let mut claims = Claims::default();
        for _ in 0..10 {
            claims.note(FlowId(1), true);
            claims.note(FlowId(2), true);
            assert_eq!(claims.winner(), None);
        }
        claims.note(FlowId(1), false);
        claims.note(FlowId(2), true);
        assert_eq!(claims.winner(), Some(FlowId(2)));
    }

    #[test]
    fn answers_that_fit_nowhere_decide_nothing() {
        let mut claims = Claims::default();
        (0..20).for_each(|flow| claims.note(FlowId(flow), false));
        assert_eq!(claims.winner(), None);
        claims.keep(|flow| flow == FlowId(7));
        claims.note(FlowId(8), true);
        assert_eq!(claims.winner(), Some(FlowId(8)), "of those that are free");
    }
}
