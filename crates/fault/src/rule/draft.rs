//! A rule while it is read: keys come one by one, from text or from a table.

use super::matcher::{Ecn, Part, Prefix, PsnMatch, QueuePairMatch};
use super::operation::OperationSet;
use super::quantity::NumberRange;
use super::quantity::{count, integer, time};
use super::{Action, Expected, GilbertElliott, Matcher, Options, Probability, Rule};
use crate::Direction;

/// Actions of one rule at most.
const ACTIONS_MAX: usize = 16;
/// Letters of a name at most.
const NAME_MAX: usize = 64;

/// The keys that say which packets.
const MATCH_KEYS: [&str; 13] =
    ["op", "part", "qp", "psn", "iter", "msg", "pkt", "len", "ip", "src", "dst", "ecn", "syndrome"];

/// True if this key says which packets a rule is about.
pub(crate) fn is_match_key(key: &str) -> bool {
    MATCH_KEYS.contains(&key)
}

/// Why a part of a rule cannot be.
#[derive(Debug)]
pub(crate) enum Problem {
    /// It is not what is expected here.
    Expected(Expected),
    /// There is no such key.
    UnknownKey,
}

impl<T: Into<Expected>> From<T> for Problem {
    fn from(expected: T) -> Self {
        Self::Expected(expected.into())
    }
}

/// A rule while it is read.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    name: Option<String>,
    matcher: Matcher,
    actions: Vec<Action>,
    options: Options,
}

impl Draft {
    pub(crate) fn set_name(&mut self, name: &str) -> Result<(), Problem> {
        self.name = Some(parse_name(name)?);
        Ok(())
    }

    /// `tx`, `rx` or `any`.
    pub(crate) fn set_direction(&mut self, text: &str) -> Result<(), Problem> {
        self.matcher.direction = match text {
            "tx" => Some(Direction::Tx),
            "rx" => Some(Direction::Rx),
            "any" => None,
            _ => return Err("tx, rx or any".into()),
        };
        Ok(())
    }

    /// A key that says which packets, and its value.
    pub(crate) fn set_match(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let to = &mut self.matcher;
        match key {
            "op" => put(&mut to.operations, OperationSet::parse(value)),
            "part" => put(&mut to.part, Part::parse(value)),
            "qp" => put(&mut to.queue_pair, QueuePairMatch::parse(value)),
            "psn" => put(&mut to.psn, PsnMatch::parse(value)),
            "iter" => put(&mut to.iteration, NumberRange::parse_ordinal(value)),
            "msg" => put(&mut to.message, NumberRange::parse_ordinal(value)),
            "pkt" => put(&mut to.packet, NumberRange::parse_ordinal(value)),
            "len" => put(&mut to.length, NumberRange::parse_comparison(value)),
            "ip" => put(&mut to.either, Prefix::parse(value)),
            "src" => put(&mut to.source, Prefix::parse(value)),
            "dst" => put(&mut to.destination, Prefix::parse(value)),
            "ecn" => put(&mut to.ecn, Ecn::parse(value)),
            "syndrome" => put(&mut to.syndrome, NumberRange::parse(value)),
            _ => Err(Problem::UnknownKey),
        }
    }

    /// An option and its value.
    pub(crate) fn set_option(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let to = &mut self.options;
        match key {
            "p" => put(&mut to.probability, Probability::parse(value)),
            "ge" => put(&mut to.bursts, GilbertElliott::parse(value)),
            "count" => put(&mut to.count, count(value)),
            "skip" => put(&mut to.skip, count(value)),
            "every" => put(&mut to.every, count(value)),
            "from" => put(&mut to.from, time(value)),
            "until" => put(&mut to.until, time(value)),
            "seed" => put(&mut to.seed, integer(value).ok_or("a whole number".into())),
            "then" => put(&mut to.then, parse_name(value)),
            _ => Err(Problem::UnknownKey),
        }
    }

    /// `also` or `quiet`.
    pub(crate) fn set_flag(&mut self, word: &str) -> Result<(), Problem> {
        match word {
            "also" => self.options.also = true,
            "quiet" => self.options.quiet = true,
            _ => return Err(Problem::UnknownKey),
        }
        Ok(())
    }

    /// One more action.
    pub(crate) fn add_action(&mut self, word: &str) -> Result<(), Problem> {
        self.add(Action::parse(word)?)
    }

    /// One more action.
    pub(crate) fn add(&mut self, action: Action) -> Result<(), Problem> {
        let drops = |action: &Action| matches!(action, Action::Drop);
        let keeps = |action: &Action| {
            use Action::{Delay, Duplicate, Hold, Pass, Rate};
            matches!(action, Pass | Duplicate(_) | Delay { .. } | Hold { .. } | Rate { .. })
        };
        let clash = |a: fn(&Action) -> bool, b: fn(&Action) -> bool| {
            a(&action) && self.actions.iter().any(b)
        };
        if clash(drops, keeps) || clash(keeps, drops) {
            return Err("an action that does not contradict 'drop' in the same rule".into());
        }
        if self.actions.len() == ACTIONS_MAX {
            return Err(format!("at most {ACTIONS_MAX} actions in one rule").into());
        }
        self.actions.push(action);
        Ok(())
    }

    pub(crate) fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    /// A rule about the same packets, without name, actions and options.
    pub(crate) fn same_matches(&self) -> Self {
        Self { matcher: self.matcher.clone(), ..Self::default() }
    }

    /// The rule, if its parts agree with each other.
    pub(crate) fn finish(self) -> Result<Rule, Problem> {
        let Self { name, matcher, actions, options } = self;
        if actions.is_empty() {
            return Err(format!("an action: {}", super::ACTIONS).into());
        }
        if options.probability.is_some() && options.bursts.is_some() {
            return Err("either p= or ge=, not both".into());
        }
        if matches!((options.from, options.until), (Some(from), Some(until)) if until <= from) {
            return Err("until= later than from=".into());
        }
        Ok(Rule { name, matcher, actions, options })
    }
}

/// Fills an empty place.
fn put<T>(place: &mut Option<T>, value: Result<T, Expected>) -> Result<(), Problem> {
    if place.is_some() {
        return Err("each key once".into());
    }
    *place = Some(value?);
    Ok(())
}

fn parse_name(text: &str) -> Result<String, Expected> {
    let is_start = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    (is_start && text.len() <= NAME_MAX && text.chars().all(is_name))
        .then(|| text.to_owned())
        .ok_or("a name of at most 64 letters, digits, '-' and '_' that begins with a letter".into())
}
