//! One case: programs, rules, and how it must end.

use uroce_rxe_guest::Output;
use uroce_testbed::error::{Error, Result};

use super::witness::Witness;

/// How the client must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With exit code 0, and the server too.
    Well,
    /// With another code, and with these words.
    Fails(&'static str),
}

/// What is tried. In command lines SERVER is the address of the far guest, PORT a port of this case and GID the index
/// of the guest's own address.
#[derive(Debug)]
pub struct Case {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// Rules of the proxy; none at all where it only carries frames.
    pub rules: &'static [&'static str],
    /// Program in the far guest.
    pub server: Option<&'static str>,
    /// Program in the near guest.
    pub client: &'static str,
    /// How the client must end.
    pub ending: Ending,
    /// To how many packets each of these rules must have been applied at least.
    pub applied: &'static [(&'static str, u64)],
    /// Looks at both captures; says what they show.
    pub check: fn(&Witness) -> Result<String>,
}

impl Case {
    /// One of its rules draws which packets it takes.
    pub fn loses_at_random(&self) -> bool {
        self.rules.iter().any(|rule| rule.contains("drop p="))
    }
}

impl Ending {
    /// # Errors
    /// The client ended otherwise.
    pub fn check(self, client: &Output) -> Result<()> {
        let is_so = match self {
            Self::Well => client.code == 0,
            Self::Fails(words) => client.code != 0 && client.text.contains(words),
        };
        if is_so { Ok(()) } else { Err(Error::new(format!("the client did not end {self}"))) }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Well => f.write_str("well"),
            Self::Fails(words) => write!(f, "with \"{}\"", words.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_must_say_the_right_words() {
        let output = |code, text: &str| Output { code, text: text.to_owned() };
        let refused = Ending::Fails("Failed status 10");
        assert!(refused.check(&output(1, " Failed status 10: wr_id 0")).is_ok());
        for wrong in [output(0, "Failed status 10"), output(1, "Failed status 12")] {
            assert!(refused.check(&wrong).is_err());
        }
        assert!(Ending::Well.check(&output(0, "")).is_ok());
    }
}
