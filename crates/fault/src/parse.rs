//! Text and tables to rules.

mod error;
mod lexer;
mod line;
mod parser;
mod shorthand;
mod table;

use std::collections::HashSet;

pub use error::RuleError;

use crate::rule::Rule;

/// Rules of one plan at most.
pub(crate) const RULES_MAX: usize = 1000;
/// Bytes of a text of rules at most.
const TEXT_MAX: usize = 256 << 10;

/// Reads the one-line form.
pub(crate) fn parse_line(text: &str) -> Result<Vec<Rule>, RuleError> {
    check_size(text)?;
    at_least_one(text, line::parse(text)?)
}

/// Reads the TOML form.
pub(crate) fn parse_toml(text: &str) -> Result<Vec<Rule>, RuleError> {
    check_size(text)?;
    at_least_one(text, table::parse(text)?)
}

/// Checks that the rules of two plans can be one.
pub(crate) fn check_together<'a>(
    first: &str,
    second: &str,
    rules: impl Iterator<Item = &'a Rule>,
) -> Result<(), RuleError> {
    let mut names = Names::default();
    let mut count = 0;
    for rule in rules {
        count += 1;
        if let Some(name) = &rule.name {
            names.define(second, name, 0)?;
        }
    }
    if count > RULES_MAX {
        let expected = format!("at most {RULES_MAX} rules together");
        return Err(RuleError::new(first, 0, second, &expected));
    }
    Ok(())
}

fn check_size(text: &str) -> Result<(), RuleError> {
    if text.len() <= TEXT_MAX {
        return Ok(());
    }
    let expected = format!("at most {TEXT_MAX} bytes of rules");
    Err(RuleError::new(text, 0, &format!("{} bytes", text.len()), &expected))
}

fn at_least_one(text: &str, rules: Vec<Rule>) -> Result<Vec<Rule>, RuleError> {
    if rules.is_empty() {
        return Err(RuleError::new(text, 0, "", "a rule such as 'rx op=ack -> drop p=0.01'"));
    }
    Ok(rules)
}

/// Names that were given to rules, and those that `then=` mentions.
#[derive(Debug, Default)]
struct Names {
    defined: HashSet<String>,
    mentioned: Vec<(String, usize)>,
}

impl Names {
    /// A rule has this name; at byte `at` of `text`.
    fn define(&mut self, text: &str, name: &str, at: usize) -> Result<(), RuleError> {
        if self.defined.insert(name.to_owned()) {
            return Ok(());
        }
        Err(RuleError::new(text, at, name, "a name that no other rule has"))
    }

    fn mention(&mut self, name: &str, at: usize) {
        self.mentioned.push((name.to_owned(), at));
    }

    /// Every rule that is mentioned must exist.
    fn check(&self, text: &str) -> Result<(), RuleError> {
        match self.mentioned.iter().find(|(name, _)| !self.defined.contains(name)) {
            None => Ok(()),
            Some((name, at)) => Err(RuleError::new(text, *at, name, "the name of a rule")),
        }
    }
}
