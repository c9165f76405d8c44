//! The TOML form: one `[[fault]]` table per rule, with the keys of the one-line form.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Names, RULES_MAX, RuleError};
use crate::rule::{Draft, Problem, Rule, is_match_key};

const KEYS: &str = "a key of a rule: name, on, do; op, part, qp, psn, iter, msg, pkt, len, ip, \
                    src, dst, ecn, syndrome; p, ge, skip, every, count, from, until, seed, then, \
                    also, quiet";

/// Reads all rules of a text.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, RuleError> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        reject(text, at, error.message())
    })?;
    let mut reader = Reader { text, names: Names::default() };
    let mut rules = Vec::new();
    for (key, value) in document.get_ref() {
        if key.get_ref() != "fault" {
            return Err(reject(text, key.span(), "[[fault]] tables and nothing else"));
        }
        let tables = value.get_ref().as_array();
        let tables =
            tables.ok_or_else(|| reject(text, key.span(), "[[fault]], with two brackets"))?;
        for table in tables.iter() {
            rules.push(reader.rule(table)?);
        }
        if rules.len() > RULES_MAX {
            let expected = format!("at most {RULES_MAX} rules");
            return Err(reject(text, value.span(), &expected));
        }
    }
    reader.names.check(text)?;
    Ok(rules)
}

/// An error at a place of the text.
fn reject(text: &str, at: Range<usize>, expected: &str) -> RuleError {
    let found = text.get(at.clone()).unwrap_or("");
    RuleError::new(text, at.start, found, expected)
}

struct Reader<'a> {
    text: &'a str,
    names: Names,
}

impl Reader<'_> {
    fn rule(&mut self, table: &Spanned<DeValue<'_>>) -> Result<Rule, RuleError> {
        let mut draft = Draft::default();
        let keys = table.get_ref().as_table();
        let keys = keys.ok_or_else(|| reject(self.text, table.span(), "a [[fault]] table"))?;
        for (key, value) in keys {
            self.key(&mut draft, key, value)?;
        }
        self.check(table.span(), draft.finish())
    }

    fn key(
        &mut self,
        draft: &mut Draft,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), RuleError> {
        match key.get_ref().as_ref() {
            "do" => return self.actions(draft, value),
            "also" | "quiet" => return self.flag(draft, key.get_ref(), value),
            _ => {}
        }
        let text = self.scalar(value)?;
        let result = match key.get_ref().as_ref() {
            "name" => {
                self.names.define(self.text, &text, value.span().start)?;
                draft.set_name(&text)
            }
            "on" => draft.set_direction(&text),
            key if is_match_key(key) => draft.set_match(key, &text),
            key => {
                if key == "then" {
                    self.names.mention(&text, value.span().start);
                }
                draft.set_option(key, &text)
            }
        };
        match result {
            Err(Problem::UnknownKey) => Err(reject(self.text, key.span(), KEYS)),
            result => self.check(value.span(), result),
        }
    }

    /// `do = "drop"` or `do = ["ce", "delay=10ms"]`.
    fn actions(&self, draft: &mut Draft, value: &Spanned<DeValue<'_>>) -> Result<(), RuleError> {
        let Some(actions) = value.get_ref().as_array() else {
            let action = self.scalar(value)?;
            return self.check(value.span(), draft.add_action(&action));
        };
        for action in actions.iter() {
            let word = self.scalar(action)?;
            self.check(action.span(), draft.add_action(&word))?;
        }
        Ok(())
    }

    fn flag(
        &self,
        draft: &mut Draft,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), RuleError> {
        match value.get_ref().as_bool() {
            Some(true) => self.check(value.span(), draft.set_flag(key)),
            Some(false) => Ok(()),
            None => Err(reject(self.text, value.span(), "true or false")),
        }
    }

    /// The text of a string or a number. Several numbers become a list with commas.
    fn scalar(&self, value: &Spanned<DeValue<'_>>) -> Result<String, RuleError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            // With its radix: rules know no other one than 16.
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Array(values) => {
                let texts = values.iter().map(|value| self.scalar(value));
                Ok(texts.collect::<Result<Vec<_>, _>>()?.join(","))
            }
            _ => Err(reject(self.text, value.span(), "a string or a number")),
        }
    }

    fn check<T>(&self, at: Range<usize>, result: Result<T, Problem>) -> Result<T, RuleError> {
        result.map_err(|problem| match problem {
            Problem::Expected(expected) => reject(self.text, at, &expected),
            Problem::UnknownKey => reject(self.text, at, KEYS),
        })
    }
}
