//! What simulations have met, counted by name.

use std::collections::BTreeMap;

/// Counts of what happened in one simulation, or in many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    /// Adds the counts of another simulation.
    pub fn merge(&mut self, other: &Coverage) {
        for (what, count) in &other.counts {
            self.add(what, *count);
        }
    }

    /// Names and counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(what, count)| (*what, *count))
    }

    /// The count of a name; 0 if it never happened.
    pub fn get(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }
}
