//! How often each rule had something to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use uroce_fault::{FaultInjector, Plan, Refusal};

/// What one rule did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCount {
    /// Its name.
    pub name: String,
    /// The rule as text.
    pub text: String,
    /// Packets that it is about.
    pub matched: u64,
    /// Those of them that it did something to.
    pub applied: u64,
    /// Those of them that it could do nothing to.
    pub not_applied: u64,
    /// Why, the last time.
    pub reason: Option<Refusal>,
}

#[derive(Debug)]
struct Rule {
    name: String,
    text: String,
    /// Matched, applied, not applied.
    counts: [AtomicU64; 3],
    reason: Mutex<Option<Refusal>>,
}

/// Counters of the rules of a plan, over all engines of a device.
#[derive(Debug)]
pub struct FaultCounters {
    rules: Vec<Rule>,
}

impl FaultCounters {
    /// All 0.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let injector = FaultInjector::new(plan, 0);
        let rules = injector.report().map(|rule| Rule {
            name: rule.name.to_string(),
            text: rule.text.to_string(),
            counts: Default::default(),
            reason: Mutex::new(None),
        });
        Self { rules: rules.collect() }
    }

    /// The rules in their order, as they are counted now.
    #[must_use]
    pub fn rules(&self) -> Vec<RuleCount> {
        let now = |rule: &Rule| {
            let [matched, applied, not_applied] =
                [0, 1, 2].map(|which| rule.counts[which].load(Ordering::Relaxed));
            RuleCount {
                name: rule.name.clone(),
                text: rule.text.clone(),
                matched,
                applied,
                not_applied,
                reason: *rule.reason.lock().unwrap_or_else(PoisonError::into_inner),
            }
        };
        self.rules.iter().map(now).collect()
    }
}

/// What one injector has added to the counters so far.
#[derive(Debug)]
pub(super) struct Counted(Vec<[u64; 3]>);

impl Counted {
    /// Nothing.
    pub(super) fn new(counters: &FaultCounters) -> Self {
        Self(vec![[0; 3]; counters.rules.len()])
    }

    /// Adds what is new.
    pub(super) fn update(&mut self, injector: &FaultInjector, counters: &FaultCounters) {
        for (now, (before, rule)) in injector.report().zip(self.0.iter_mut().zip(&counters.rules)) {
            let counts = [now.matched, now.applied, now.not_applied];
            if counts == *before {
                continue;
            }
            for ((counter, count), before) in rule.counts.iter().zip(counts).zip(*before) {
                counter.fetch_add(count.saturating_sub(before), Ordering::Relaxed);
            }
            if now.reason.is_some() {
                *rule.reason.lock().unwrap_or_else(PoisonError::into_inner) = now.reason;
            }
            *before = counts;
        }
    }
}
