//! What one check found.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but something is slower, missing or unknown.
    Note,
    /// It will not work.
    Problem,
}

/// One line of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How bad it is.
    pub state: State,
    /// What was seen, in words.
    pub what: String,
    /// The command that repairs it.
    pub repair: Option<String>,
}

impl Finding {
    /// All well.
    pub fn ok(check: &'static str, what: impl fmt::Display) -> Self {
        Self::new(check, State::Ok, what)
    }

    /// Worth knowing.
    pub fn note(check: &'static str, what: impl fmt::Display) -> Self {
        Self::new(check, State::Note, what)
    }

    /// It will not work.
    pub fn problem(check: &'static str, what: impl fmt::Display) -> Self {
        Self::new(check, State::Problem, what)
    }

    fn new(check: &'static str, state: State, what: impl fmt::Display) -> Self {
        Finding { check, state, what: what.to_string(), repair: None }
    }

    /// Adds the command that repairs it.
    pub fn repair(mut self, command: impl Into<String>) -> Self {
        self.repair = Some(command.into());
        self
    }

    /// `good` where something worked, else a note with what the system said.
    pub fn of<T>(
        check: &'static str,
        result: &std::io::Result<T>,
        good: &str,
        otherwise: &str,
    ) -> Self {
        match result {
            Ok(_) => Finding::ok(check, good),
            Err(error) => Finding::note(check, format!("{otherwise} ({error})")),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Ok => "ok",
            State::Note => "note",
            State::Problem => "PROBLEM",
        };
        write!(f, "{state:<8} {:<14} {}", self.check, self.what)?;
        match &self.repair {
            Some(command) => write!(f, "  -> {command}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_its_remedy() {
        let finding = Finding::problem("mtu", "too small").repair("ip link set eth0 mtu 1500");
        assert_eq!(
            finding.to_string(),
            "PROBLEM  mtu            too small  -> ip link set eth0 mtu 1500"
        );
        assert!(State::Problem > State::Note && State::Note > State::Ok);
    }
}
