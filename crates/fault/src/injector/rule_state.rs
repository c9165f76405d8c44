//! What a rule remembers, and which of the matching packets it takes.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::report::Refusal;
use crate::Time;
use crate::rule::{GilbertElliott, Options, Rule};

/// What a rule remembers.
#[derive(Debug)]
pub(super) struct RuleState {
    /// Its name, or its number from 1.
    pub name: String,
    /// How comments call it.
    pub label: String,
    pub text: String,
    pub matched: u64,
    pub applied: u64,
    pub not_applied: u64,
    pub reason: Option<Refusal>,
    /// False until the rule that names it in `then` is done.
    pub is_active: bool,
    random: ChaCha8Rng,
    skipped: u32,
    /// Packets since the last one that `every` chose.
    turn: u32,
    taken: u32,
    is_bad: bool,
    /// When a rate limit has sent everything that waits.
    pub busy_until: Time,
}

impl RuleState {
    pub(super) fn new(rule: &Rule, index: usize, seed: u64) -> Self {
        // Rules draw from streams of their own: one more draw of one changes nothing for the others. With a seed of its own
        // a rule draws the same wherever it stands.
        let (seed, stream) = match rule.options.seed {
            Some(own) => (own, 0),
            None => (seed, index as u64),
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        let number = (index + 1).to_string();
        Self {
            label: rule.name.as_ref().map_or(number.clone(), |name| format!("\"{name}\"")),
            name: rule.name.clone().unwrap_or(number),
            text: rule.to_string(),
            matched: 0,
            applied: 0,
            not_applied: 0,
            reason: None,
            is_active: true,
            random,
            skipped: 0,
            turn: 0,
            taken: 0,
            is_bad: false,
            busy_until: Time::ZERO,
        }
    }

    /// True if the rule may act now.
    pub(super) fn is_open(&self, options: &Options, now: Time) -> bool {
        self.is_active
            && options.from.is_none_or(|from| now >= from)
            && options.until.is_none_or(|until| now < until)
    }

    /// True if the rule takes this one of the packets that match.
    pub(super) fn takes(&mut self, options: &Options) -> bool {
        if options.count.is_some_and(|count| self.taken >= count) || !self.has_turn(options) {
            return false;
        }
        match (options.bursts, options.probability) {
            (Some(bursts), _) => self.is_lost(&bursts),
            (None, Some(probability)) => probability.takes(|| self.random.next_u64()),
            (None, None) => true,
        }
    }

    /// `skip` and `every`.
    fn has_turn(&mut self, options: &Options) -> bool {
        if self.skipped < options.skip.unwrap_or(0) {
            self.skipped += 1;
            return false;
        }
        self.turn += 1;
        let has_turn = self.turn >= options.every.unwrap_or(1);
        if has_turn {
            self.turn = 0;
        }
        has_turn
    }

    /// One step of the model: the state decides about this packet, and then may change.
    fn is_lost(&mut self, model: &GilbertElliott) -> bool {
        let (share, change) = match self.is_bad {
            true => (model.in_bad, model.to_good),
            false => (model.in_good, model.to_bad),
        };
        let is_lost = share.takes(|| self.random.next_u64());
        self.is_bad ^= change.takes(|| self.random.next_u64());
        is_lost
    }

    /// Counts a packet that the rule did something to; true if its work is done with that.
    pub(super) fn count_applied(&mut self, options: &Options) -> bool {
        self.applied += 1;
        self.taken = self.taken.saturating_add(1);
        self.taken == options.count.unwrap_or(1)
    }

    pub(super) fn count_refused(&mut self, reason: Refusal) {
        self.not_applied += 1;
        self.reason = Some(reason);
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// `time`, more or less by up to `jitter`.
    pub(super) fn jittered(&mut self, time: Duration, jitter: Duration) -> Duration {
        if jitter.is_zero() {
            return time;
        }
        // A rule names at most 24 hours: twice that in nanoseconds is far below 2^64.
        let span = 2 * jitter.as_nanos() as u64 + 1;
        (time + Duration::from_nanos(self.below(span))).saturating_sub(jitter)
    }
}
