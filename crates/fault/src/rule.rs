//! One rule: which packets, which of them, and what is done to them.

mod action;
mod draft;
mod field;
mod matcher;
mod operation;
mod options;
mod quantity;
mod sentence;

use std::fmt;

pub(crate) use action::{ACTIONS, Action, Answer, Area, is_action};
pub(crate) use draft::{Draft, Problem, is_match_key};
pub(crate) use field::{Field, NewValue};
pub(crate) use matcher::{Matcher, PsnMatch, QueuePairMatch};
pub(crate) use options::{GilbertElliott, Options};
pub(crate) use quantity::{Expected, NumberRange, Probability, ShowTime};

/// One rule of a [`Plan`](crate::Plan).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub name: Option<String>,
    pub matcher: Matcher,
    pub actions: Vec<Action>,
    pub options: Options,
}

impl Rule {
    /// True if it draws random numbers from the seed of the run.
    pub(crate) fn is_random(&self) -> bool {
        let Options { probability, bursts, seed, .. } = &self.options;
        let draws = |action: &Action| match action {
            Action::Delay { jitter, .. } => !jitter.is_zero(),
            Action::Corrupt { byte, bit, .. } => byte.is_none() || bit.is_none(),
            _ => false,
        };
        let is_chance = probability.is_some_and(Probability::is_chance);
        seed.is_none() && (is_chance || bursts.is_some() || self.actions.iter().any(draws))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        write!(f, "{} ->", self.matcher)?;
        for (index, action) in self.actions.iter().enumerate() {
            write!(f, "{} {action}", if index == 0 { "" } else { "," })?;
        }
        write!(f, "{}", self.options)
    }
}
