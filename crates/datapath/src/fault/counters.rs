//! How often each rule had something to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// Counters of the rules of `plan`, all 0.
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
pub struct FaultTally {
    counters: Arc<FaultCounters>,
    counted: Vec<[u64; 3]>,
}

impl FaultTally {
    /// Nothing.
    #[must_use]
    pub fn new(counters: Arc<FaultCounters>) -> Self {
        Self { counted: vec![[0; 3]; counters.rules.len()], counters }
    }

    /// Adds what is new.
    pub fn update(&mut self, injector: &FaultInjector) {
        for (now, (before, rule)) in
            injector.report().zip(self.counted.iter_mut().zip(&self.counters.rules))
        {
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
