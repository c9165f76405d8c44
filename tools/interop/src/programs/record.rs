//! What became of each test of rdma-core.

use std::collections::BTreeMap;
use std::fmt;

/// What became of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It did not run, for this reason.
    Skipped(String),
    /// It failed, with this error.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("ok"),
            Outcome::Skipped(why) => write!(f, "skipped ({why})"),
            Outcome::Failed(why) => write!(f, "failed ({why})"),
        }
    }
}

/// What became of each test, by its name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Record(pub BTreeMap<String, Outcome>);

impl Record {
    /// Lines of `outcome name reason`. A test that ran twice has its last outcome.
    pub fn parse(text: &str) -> Record {
        Record(text.lines().filter_map(entry).collect())
    }

    /// Tests that passed.
    pub fn passed(&self) -> usize {
        self.0.values().filter(|outcome| **outcome == Outcome::Passed).count()
    }

    /// Tests that did not run.
    pub fn skipped(&self) -> usize {
        self.0.values().filter(|outcome| matches!(outcome, Outcome::Skipped(_))).count()
    }

    /// Names of the tests that failed.
    pub fn failed(&self) -> Vec<&str> {
        let failed = self.0.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
        failed.map(|(name, _)| name.as_str()).collect()
    }

    /// How many tests each reason keeps from running, most first.
    pub fn reasons(&self) -> Vec<(usize, String)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for outcome in self.0.values() {
            if let Outcome::Skipped(reason) = outcome {
                *counts.entry(reason).or_default() += 1;
            }
        }
        let mut all: Vec<_> = counts.into_iter().map(|(why, n)| (n, why.to_owned())).collect();
        all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        all
    }
}

fn entry(line: &str) -> Option<(String, Outcome)> {
    let (outcome, rest) = line.split_once(' ')?;
    let (name, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let outcome = match outcome {
        "ok" => Outcome::Passed,
        "skipped" => Outcome::Skipped(reason.to_owned()),
        "failed" => Outcome::Failed(reason.to_owned()),
        _ => return None,
    };
    Some((name.to_owned(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_outcome_counts() {
        let record =
            Record::parse("failed a.b boom\nok c.d\nskipped e.f no such thing\nok a.b\nfailed g\n");
        assert_eq!((record.passed(), record.skipped(), record.failed()), (2, 1, vec!["g"]));
        assert_eq!(record.0["e.f"], Outcome::Skipped("no such thing".to_owned()));
    }
}
