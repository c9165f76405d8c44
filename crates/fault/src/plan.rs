//! A list of fault rules.

use std::fmt;
use std::str::FromStr;

use crate::Direction;
use crate::parse::{self, RuleError};
use crate::rule::{Action, Rule};

/// What faults happen to which packets: a list of rules.
///
/// The text form is that of docs/faults.md: `rx op=ack -> drop p=0.05; drop 1%`. `Display` writes
/// it back in one line that means the same. In `uroce-verbs` this type is called `FaultPlan`.
///
/// ```
/// let plan: uroce_fault::Plan = "lost-rtu: tx op=rtu -> drop count=1; delay 10ms 1ms".parse()?;
/// assert_eq!(
///     plan.to_string(),
///     "lost-rtu: tx op=rtu -> drop count=1; any -> delay=10ms~1ms also"
/// );
/// # Ok::<(), uroce_fault::RuleError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    rules: Vec<Rule>,
}

impl Plan {
    /// Reads the TOML form: one `[[fault]]` table per rule.
    ///
    /// # Errors
    ///
    /// The first thing in the text that is not as docs/faults.md says, with its line and column.
    pub fn from_toml(text: &str) -> Result<Self, RuleError> {
        Ok(Self { rules: parse::parse_toml(text)? })
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds the rules of another plan behind these.
    ///
    /// # Errors
    ///
    /// A name that both have; more rules than one plan may have.
    pub fn append(&mut self, other: Self) -> Result<(), RuleError> {
        let rules = self.rules.iter().chain(&other.rules);
        parse::check_together(&self.to_string(), &other.to_string(), rules)?;
        self.rules.extend(other.rules);
        Ok(())
    }

    /// True if some rule has to see packets of this direction. One that answers sees both: which queue
    /// pair an answer goes to is learned from packets of the other direction.
    pub fn watches(&self, direction: Direction) -> bool {
        let answers = |rule: &Rule| rule.actions.iter().any(|a| matches!(a, Action::Answer(_)));
        self.rules.iter().any(|rule| answers(rule) || rule.matcher.is_about(direction))
    }

    /// True if packets of this direction are only dropped or let go on at once: no rule keeps, copies, changes or answers
    /// one, and what their headers hold beside what rules look at does not matter.
    pub fn only_drops(&self, direction: Direction) -> bool {
        let drops = |action: &Action| {
            matches!(action, Action::Drop | Action::Pass | Action::Mute(_) | Action::Stop)
        };
        let rules = self.rules.iter().filter(|rule| rule.matcher.is_about(direction));
        rules.flat_map(|rule| &rule.actions).all(drops)
    }

    /// True if another seed may give other faults.
    pub fn is_random(&self) -> bool {
        self.rules.iter().any(Rule::is_random)
    }

    /// Each rule in words, so that its author can check it.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.rules.iter().map(Rule::sentence)
    }

    /// Name, if it has one, and text of each rule.
    pub fn texts(&self) -> impl Iterator<Item = (Option<&str>, String)> {
        self.rules.iter().map(|rule| (rule.name.as_deref(), rule.to_string()))
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

impl FromStr for Plan {
    type Err = RuleError;

    /// Reads the text form: rules separated by `;` or by the ends of lines. A `#` starts a comment, up
    /// to the end of the line.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        Ok(Self { rules: parse::parse_line(text)? })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rule) in self.rules.iter().enumerate() {
            write!(f, "{}{rule}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
