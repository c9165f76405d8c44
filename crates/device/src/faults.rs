//! Faults that a device makes on purpose: rules, and the seed that makes a run repeatable.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;
use uroce_fault::{Plan, RuleError};

/// The rules of a device's faults (docs/faults.md), and their seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    plan: Plan,
    seed: u64,
    /// The seed was drawn, not given.
    is_drawn: bool,
}

/// Why rules cannot be read; the text says what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FaultError {
    /// Rules on the command line or in a variable.
    #[error("the fault rules {text:?} are wrong at {error}")]
    Rule {
        /// The rules as they were given.
        text: String,
        /// What is wrong, and where.
        error: RuleError,
    },
    /// Rules in a file.
    #[error("the fault rules in {path} are wrong at {error}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: RuleError,
    },
    /// The file of rules cannot be read.
    #[error("the file of fault rules {path} cannot be read: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The file is too long for a file of rules: it is probably another file.
    #[error("{0} is no file of fault rules: it is longer than 1 MiB")]
    TooLong(PathBuf),
}

/// Bytes of a file of rules at most.
const LONGEST: u64 = 1 << 20;

impl Faults {
    /// The rules of `plan`, with a seed that the operating system draws if none is given.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub fn new(plan: Plan, seed: Option<u64>) -> io::Result<Self> {
        let is_drawn = seed.is_none();
        let seed = match seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?,
        };
        Ok(Faults { plan, seed, is_drawn })
    }

    /// Reads rules: `RULES`, or `@FILE` for those in a file, which is TOML if its name ends with `.toml`.
    ///
    /// # Errors
    /// [`FaultError`]: a mistake in the rules, with line and column, or a file that cannot be read.
    pub fn read(text: &str) -> Result<Plan, FaultError> {
        match text.strip_prefix('@') {
            Some(path) => read_file(Path::new(path)),
            None => text.parse().map_err(|error| FaultError::Rule { text: text.to_owned(), error }),
        }
    }

    /// The rules.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Seed of the random choices. The same seed makes the same choices about the same packets.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The seed, if it was drawn and another one might make other choices: to be told before anything happens, so that
    /// a run that is killed can be repeated.
    pub fn drawn_seed(&self) -> Option<u64> {
        (self.is_drawn && self.plan.is_random()).then_some(self.seed)
    }

    /// The seed of an engine: each makes choices of its own.
    pub(crate) fn seed_of(&self, engine: usize) -> u64 {
        self.seed.wrapping_add(engine as u64)
    }
}

fn read_file(path: &Path) -> Result<Plan, FaultError> {
    let unread = |error| FaultError::File { path: path.to_owned(), error };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unread)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unread)?;
    if text.len() as u64 > LONGEST {
        return Err(FaultError::TooLong(path.to_owned()));
    }
    let toml = path.extension().is_some_and(|extension| extension == "toml");
    let plan = if toml { Plan::from_toml(&text) } else { text.parse() };
    plan.map_err(|error| FaultError::InFile { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("uroce-faults-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("writable");
        path
    }

    #[test]
    fn rules_come_from_text_and_from_files() {
        let plan = Faults::read("tx -> drop count=1").expect("a rule");
        assert_eq!(plan.len(), 1);
        let path = file("rules", "# two\ntx -> drop count=1\nrx -> drop count=2\n");
        let read = Faults::read(&format!("@{}", path.display())).expect("two rules");
        assert_eq!(read.len(), 2);
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let error = Faults::read("tx -> drop count=1; rx -> dorp").expect_err("a typo");
        assert!(error.to_string().contains("line 1, column 27"), "{error}");
        let path = file("wrong", "tx -> drop\nrx -> dorp\n");
        let error = Faults::read(&format!("@{}", path.display())).expect_err("a typo");
        assert!(error.to_string().contains("line 2, column 7"), "{error}");
        std::fs::remove_file(path).expect("it is there");
        let error = Faults::read("@/nonexistent/rules.toml").expect_err("no file");
        assert!(error.to_string().contains("/nonexistent/rules.toml cannot be read"), "{error}");
    }

    #[test]
    fn a_seed_is_drawn_unless_it_is_given() {
        let plan = || Faults::read("drop 1%").expect("a rule");
        let seed = |given| Faults::new(plan(), given).expect("random numbers").seed();
        assert_eq!(seed(Some(7)), 7);
        assert_ne!(seed(None), seed(None));
        let told = |rule: &str, given| {
            let plan = rule.parse().expect("a rule");
            Faults::new(plan, given).expect("random numbers").drawn_seed().is_some()
        };
        let rules = ["rx -> drop p=0.5", "rx -> drop count=1"];
        assert_eq!(rules.map(|rule| told(rule, None)), [true, false], "no choice, no seed");
        assert!(!told(rules[0], Some(7)));
    }
}
