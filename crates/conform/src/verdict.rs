//! What a case finds.

use std::fmt;

/// Why a case ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The rule is not kept.
    Fail(String),
    /// The NIC, or the place where the tester runs, has not what the rule is about.
    NotApplicable(String),
    /// It cannot be judged: the agent refuses, or the link failed.
    Broken(String),
    /// The agent or the link is gone: no further case can run.
    Lost(String),
}

/// What the function of a case returns.
pub type Outcome = Result<(), Stop>;

/// What is said about a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The rule is kept.
    Pass,
    /// One of several answers that a good implementation may give, and which.
    Tolerated(String),
    /// The rule is not kept, and how.
    Fail(String),
    /// There is nothing to judge, and why.
    NotApplicable(String),
    /// It was not found out, and why: packets were lost, or the agent could not do its part.
    Inconclusive(String),
}

impl Verdict {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Tolerated(_) => "tolerated",
            Verdict::Fail(_) => "fail",
            Verdict::NotApplicable(_) => "not applicable",
            Verdict::Inconclusive(_) => "inconclusive",
        }
    }

    /// The sentence that goes with it; empty for a pass.
    pub fn why(&self) -> &str {
        match self {
            Verdict::Pass => "",
            Verdict::Tolerated(why)
            | Verdict::Fail(why)
            | Verdict::NotApplicable(why)
            | Verdict::Inconclusive(why) => why,
        }
    }
}

/// The rule is broken.
pub(crate) fn fail<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Fail(why.into()))
}

/// Something else came than the rule asks for.
pub(crate) fn unexpected<T>(expected: &str, came: &impl fmt::Display) -> Result<T, Stop> {
    fail(format!("expected {expected}, got {came}"))
}

/// The rule is broken unless `holds`.
pub(crate) fn check(holds: bool, why: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds { Ok(()) } else { fail(why()) }
}
