//! How the program ends: exit codes, and errors as one sentence with a remedy.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The test ran and failed, or was interrupted before it measured anything.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// This machine lacks something: an address, a port, a permission.
    Environment = 3,
    /// The peer is missing, went away or speaks something else.
    Peer = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why the program stops: one sentence, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// What happened.
    pub what: String,
    /// What to do.
    pub help: Option<String>,
}

impl Failure {
    /// A failure without advice; the sentence says it all.
    pub fn new(exit: Exit, what: impl fmt::Display) -> Self {
        Failure { exit, what: what.to_string(), help: None }
    }

    /// The test itself failed.
    pub fn test(what: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, what)
    }

    /// The command line makes no sense.
    pub fn usage(what: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// This machine's fault.
    pub fn environment(what: impl fmt::Display) -> Self {
        Self::new(Exit::Environment, what)
    }

    /// The peer's fault.
    pub fn peer(what: impl fmt::Display) -> Self {
        Self::new(Exit::Peer, what)
    }

    /// Ctrl-C before there was anything to print.
    pub fn interrupted() -> Self {
        Self::test("interrupted before anything was measured")
    }

    /// Adds what to do.
    pub fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = Some(help.to_string());
        self
    }

    /// Prints the failure to stderr.
    pub fn print(&self) {
        let mut err = std::io::stderr().lock();
        let (bold, plain) = paint(std::io::stderr().is_terminal());
        // With stderr closed there is no place for the message.
        let _ = writeln!(err, "{bold}error:{plain} {}", self.what);
        if let Some(help) = &self.help {
            let _ = writeln!(err, "{bold}help:{plain} {help}");
        }
    }
}

/// ANSI sequences for bold and plain, empty without a terminal or with `NO_COLOR`.
pub fn paint(terminal: bool) -> (&'static str, &'static str) {
    if terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = [Exit::Failed, Exit::Usage, Exit::Environment, Exit::Peer];
        assert_eq!(codes.map(|exit| exit as u8), [1, 2, 3, 4]);
    }

    #[test]
    fn no_colour_without_a_terminal() {
        assert_eq!(paint(false), ("", ""));
    }
}
