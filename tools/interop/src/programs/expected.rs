//! What is expected of each test of rdma-core: a list in the repository, so that a test that passes no
//! more, or for the first time, is noticed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::workspace;

use super::record::{Outcome, Record};

const LIST: &str = "tools/interop/src/programs/pyverbs.txt";
/// The heading above the tests that pass.
const PASS: &str = "ok";
/// What a reason says when it is the machine's that a test cannot run, not the device's.
const OF_THE_MACHINE: &[&str] = &["/dev/dri", "huge pages", "cuda"];

/// The list: what stands above each test.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expected(BTreeMap<String, String>);

fn path() -> PathBuf {
    workspace::root().join(LIST)
}

impl Expected {
    /// The list of the repository.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read() -> Result<Expected> {
        let text = fs::read_to_string(path()).context(|| format!("could not read {LIST}"))?;
        Ok(Expected::parse(&text))
    }

    /// Headings, with indented names below them.
    fn parse(text: &str) -> Expected {
        let (mut list, mut heading) = (BTreeMap::new(), String::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix("    ") {
                Some(name) => drop(list.insert(name.to_owned(), heading.clone())),
                None => line.clone_into(&mut heading),
            }
        }
        Expected(list)
    }

    /// What a run says, as a list.
    fn of(record: &Record) -> Expected {
        let heading = |outcome: &Outcome| match outcome {
            Outcome::Passed => PASS.to_owned(),
            Outcome::Skipped(reason) => format!("skipped: {reason}"),
            Outcome::Failed(_) => "failed".to_owned(),
        };
        Expected(record.0.iter().map(|(name, o)| (name.clone(), heading(o))).collect())
    }

    /// The lists of tests below their headings, the tests that pass first.
    fn text(&self) -> String {
        let mut groups: BTreeMap<(bool, &str), Vec<&str>> = BTreeMap::new();
        for (name, heading) in &self.0 {
            groups.entry((heading != PASS, heading)).or_default().push(name);
        }
        let mut text =
            "# The tests of rdma-core. Written by `cargo xtask programs --write`.\n".to_owned();
        for ((_, heading), names) in groups {
            writeln!(text, "{heading}\n    {}", names.join("\n    ")).expect("a string grows");
        }
        text
    }

    /// Replaces the list of the repository.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(record: &Record) -> Result<()> {
        fs::write(path(), Expected::of(record).text()).context(|| format!("could not write {LIST}"))
    }

    /// Forgets the tests whose modules have this name.
    pub fn leave_out(&mut self, module: &str) {
        self.0.retain(|name, _| !name.starts_with(&format!("{module}.")));
    }

    /// Compares a run with the list.
    ///
    /// # Errors
    /// Each test that differs, but for those that depend on what the machine has.
    pub fn check(&self, record: &Record) -> Result<()> {
        let mut differences = String::new();
        for (name, outcome) in &record.0 {
            let expected = self.0.get(name).map_or("not in the list", String::as_str);
            let differs = match outcome {
                Outcome::Passed => expected != PASS && !of_the_machine(expected),
                Outcome::Skipped(reason) => expected == PASS && !of_the_machine(reason),
                Outcome::Failed(_) => true,
            };
            if differs {
                writeln!(differences, "{name}: {outcome}; expected: {expected}")
                    .expect("a string grows");
            }
        }
        for name in self.0.keys().filter(|name| !record.0.contains_key(*name)) {
            writeln!(differences, "{name}: did not run").expect("a string grows");
        }
        if differences.is_empty() { Ok(()) } else { Err(Error::new(differences)) }
    }
}

fn of_the_machine(reason: &str) -> bool {
    OF_THE_MACHINE.iter().any(|word| reason.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str =
        "ok a.B.one\nskipped a.B.two needs an mlx5 NIC\nskipped a.B.three no huge pages here\n";

    #[test]
    fn the_list_is_written_and_read() {
        let record = Record::parse(RUN);
        let expected = Expected::of(&record);
        let text = expected.text();
        assert!(
            text.contains("\nok\n    a.B.one\nskipped: needs an mlx5 NIC\n    a.B.two\n"),
            "{text}"
        );
        assert_eq!(Expected::parse(&text), expected);
        assert!(expected.check(&record).is_ok());
    }

    #[test]
    fn every_difference_is_noticed_but_the_machines() {
        let expected = Expected::of(&Record::parse(RUN));
        let differs = |run: &str| expected.check(&Record::parse(run)).is_err();
        assert!(differs(&RUN.replace("ok a.B.one", "failed a.B.one why")));
        assert!(differs(&RUN.replace("ok a.B.one", "skipped a.B.one why")));
        assert!(differs(&RUN.replace("skipped a.B.two", "ok a.B.two")));
        assert!(differs("ok a.B.one\n"), "two did not run");
        assert!(differs(&format!("{RUN}ok a.B.new\n")));
        assert!(!differs(&RUN.replace("skipped a.B.three no huge pages here", "ok a.B.three")));
    }

    #[test]
    fn the_list_of_the_repository_has_no_failure() {
        let list = Expected::read().expect("it is there");
        assert!(list.0.values().all(|heading| heading == PASS || heading.starts_with("skipped: ")));
        assert!(list.0.values().filter(|heading| *heading == PASS).count() >= 129);
    }
}
