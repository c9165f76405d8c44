//! What a step is, and what becomes of it.

use std::process::Command;

use uroce_testbed::error::Result;
use uroce_testbed::process::{self, describe, find_program};

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It could not be tried here, and why.
    Skipped(String),
    /// It does not hold, and why.
    Failed(String),
}

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// One thing that CI checks.
#[derive(Debug)]
pub struct Step {
    /// Name on the command line.
    pub name: &'static str,
    /// What holds when it passes.
    pub about: &'static str,
    /// Does it.
    pub run: fn() -> Outcome,
}

/// Runs `command` with its output going to the terminal.
pub fn shown(command: &mut Command) -> Outcome {
    let line = describe(command);
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("`{line}` failed ({status})")),
        Err(error) => Outcome::Failed(format!("could not start `{line}`: {error}")),
    }
}

/// The words that run a program as the user nobody when this process is root; nothing otherwise.
pub fn as_nobody() -> &'static [&'static str] {
    let possible = process::is_root() && find_program("setpriv").is_some();
    if possible { process::AS_NOBODY } else { &[] }
}
