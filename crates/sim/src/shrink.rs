//! Smaller scenarios that fail in the same way.

use crate::cm_plan::CmPlan;
use crate::scenario::{PairPlan, Scenario};
use crate::violation::Violation;

/// Simulations that are tried at most.
const MAX_TRIES: usize = 300;

/// A smaller scenario that breaches the same invariant, with its breach: fewer connections, requests,
/// faults and kinds of trouble. That of `scenario` itself where nothing smaller fails.
///
/// `run` runs a scenario and gives its breach.
pub fn shrink(
    scenario: &Scenario,
    violation: Violation,
    mut run: impl FnMut(&Scenario) -> Option<Violation>,
) -> (Scenario, Violation) {
    let (mut best, mut breach) = (scenario.clone(), violation);
    let mut tries = 0;
    loop {
        let mut is_smaller = false;
        for candidate in candidates(&best) {
            if tries == MAX_TRIES {
                return (best, breach);
            }
            tries += 1;
            let same = run(&candidate).filter(|found| found.invariant == breach.invariant);
            if let Some(found) = same {
                (best, breach) = (candidate, found);
                is_smaller = true;
                break;
            }
        }
        if !is_smaller {
            return (best, breach);
        }
    }
}

/// Pairs that do less of what makes trouble.
const LESS_TROUBLE: [fn(&mut PairPlan); 10] = [
    |pair| pair.restarts = 0,
    |pair| pair.overflows = 0,
    |pair| pair.mistakes = 0,
    |pair| pair.bad_receives = 0,
    |pair| pair.withdrawals = 0,
    |pair| pair.idle_turns = 0,
    |pair| pair.type_1 = 0,
    |pair| pair.lookup = None,
    |pair| pair.shared_receives = false,
    |pair| pair.signal_all = true,
];

/// Scenarios that are smaller by one step, the largest steps first.
fn candidates(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = vec![];
    let mut add = |change: &dyn Fn(&mut Scenario)| {
        let mut smaller = scenario.clone();
        change(&mut smaller);
        if smaller != *scenario {
            all.push(smaller);
        }
    };
    for index in 0..scenario.pairs.len() {
        if scenario.pairs.len() > 1 {
            add(&|smaller| {
                smaller.pairs.remove(index);
            });
        }
    }
    add(&|smaller| {
        smaller.pairs.iter_mut().for_each(|pair| pair.operations = pair.operations.div_ceil(2))
    });
    let rules: Vec<&str> = scenario.faults.split("; ").filter(|rule| !rule.is_empty()).collect();
    for index in 0..rules.len() {
        let mut left = rules.clone();
        left.remove(index);
        add(&|smaller| smaller.faults = left.join("; "));
    }
    for index in 0..scenario.outages.len() {
        add(&|smaller| {
            smaller.outages.remove(index);
        });
    }
    for index in 0..scenario.crashes.len() {
        add(&|smaller| {
            smaller.crashes.remove(index);
        });
    }
    add(&|smaller| smaller.forged = 0);
    add(&|smaller| smaller.models = 0);
    add(&|smaller| smaller.is_ipv6 = false);
    add(&|smaller| smaller.mtus.clear());
    add(&|smaller| smaller.engines.clear());
    add(&|smaller| smaller.pairs.iter_mut().for_each(|pair| pair.cm = None));
    let cm = |change: fn(&mut CmPlan)| {
        move |smaller: &mut Scenario| {
            smaller.pairs.iter_mut().filter_map(|pair| pair.cm.as_mut()).for_each(change);
        }
    };
    add(&cm(|cm| cm.failures /= 2));
    add(&cm(|cm| cm.releases = 0));
    add(&cm(|cm| cm.decision_ns = 1_000));
    add(&|smaller| smaller.forged = smaller.forged.div_ceil(2));
    for change in LESS_TROUBLE {
        add(&|smaller| smaller.pairs.iter_mut().for_each(change));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::violation::Invariant;

    fn breach() -> Violation {
        Violation { invariant: Invariant::Bytes, what: "a byte differs".into(), at_ns: 1 }
    }

    #[test]
    fn only_what_a_failure_needs_is_left() {
        let scenario = (0..).map(Scenario::new);
        let mut scenario = scenario.filter(|s| s.faults.contains("dup") && s.pairs.len() > 2);
        let scenario = scenario.find(|s| s.faults.split("; ").count() > 1);
        let scenario = scenario.expect("some seed has it");
        let fails = |s: &Scenario| s.faults.contains("dup").then(breach);
        let (small, found) = shrink(&scenario, breach(), fails);
        assert_eq!(found, breach());
        assert_eq!(small.pairs.len(), 1);
        assert_eq!(small.pairs[0].operations, 1);
        assert_eq!(small.faults.split("; ").count(), 1);
        assert!(small.faults.contains("dup") && small.outages.is_empty());
    }

    #[test]
    fn a_failure_of_another_kind_does_not_count() {
        let scenario = Scenario::new(1);
        let other = Violation { invariant: Invariant::Liveness, ..breach() };
        let (same, found) = shrink(&scenario, breach(), |_| Some(other.clone()));
        assert_eq!((same, found), (scenario, breach()));
    }
}
