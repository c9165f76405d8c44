//! What a rule is.

use std::fmt;

/// How much a finding matters. The order is that of importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; implementations are known to differ here, or the network did it.
    Note,
    /// Against a rule, or a sign of trouble; the connection may go on.
    Warning,
    /// A broken packet, a broken rule that costs data or the connection, or a connection that died.
    Error,
}

impl Severity {
    /// Its name, as in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What must hold of a capture for a rule to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Assumption {
    /// Nothing: the packet itself shows it.
    Nothing,
    /// The capture has all packets of the flow.
    Complete,
    /// The capture has all packets, and the network neither reordered nor doubled them.
    CompleteInOrder,
}

/// A rule that captured traffic is held against.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Number of the rule in docs/conformance.md.
    pub id: &'static str,
    /// Short name, unique: what reports and filters use.
    pub name: &'static str,
    /// How much a finding matters.
    pub severity: Severity,
    /// The finding in a few words.
    pub title: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to look at.
    pub advice: &'static str,
    /// When the rule is not judged.
    pub(super) assumption: Assumption,
    /// Instances in one flow below which nothing is told: the network can make a few.
    pub(super) threshold: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_more_than_a_warning() {
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Note);
        assert_eq!(Severity::Warning.to_string(), "warning");
    }
}
