//! The one-line form: `name: rx op=ack -> drop p=0.05 count=3; ...`.

use super::lexer::Token;
use super::parser::Parser;
use super::{RuleError, shorthand};
use crate::rule::{Draft, Rule, is_match_key};

const OPTIONS: &str = "an option: p=, ge=, skip=, every=, count=, from=, until=, seed=, then=, \
                       also or quiet; or ',' and another action; or ';' and another rule";
const MATCHES: &str = "a match (op=, part=, qp=, psn=, iter=, msg=, pkt=, len=, ip=, src=, dst=, \
                       ecn= or syndrome=), '->' and an action, or a shorthand such as 'drop 1%'";

/// Reads all rules of a text.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, RuleError> {
    let mut parser = Parser::new(text);
    let mut rules = Vec::new();
    while !parser.lexer.is_done() {
        if parser.lexer.peek().token == Token::End {
            parser.lexer.next();
            continue;
        }
        parser.rule(&mut rules)?;
        if rules.len() > super::RULES_MAX {
            let at = parser.lexer.peek();
            let expected = format!("at most {} rules", super::RULES_MAX);
            return Err(parser.error(at, &expected));
        }
    }
    parser.names.check(text)?;
    Ok(rules)
}

impl Parser<'_> {
    /// One rule, or the several that a shorthand such as `delay 10ms loss 1%` stands for.
    fn rule(&mut self, rules: &mut Vec<Rule>) -> Result<(), RuleError> {
        let start = self.lexer.peek();
        let mut draft = Draft::default();
        self.name(&mut draft)?;
        if let Some(word @ ("tx" | "rx" | "any")) = self.peek_word() {
            let at = self.lexer.next();
            self.check(at, draft.set_direction(word), MATCHES)?;
        }
        self.matches(&mut draft)?;
        if self.lexer.peek().token == Token::Arrow {
            self.lexer.next();
            self.actions(&mut draft)?;
        } else if self.peek_word().is_some_and(shorthand::begins) {
            return self.shorthands(draft, rules);
        } else {
            return Err(self.error(self.lexer.peek(), MATCHES));
        }
        self.options(&mut draft, OPTIONS, |_| false)?;
        self.end(OPTIONS)?;
        rules.push(self.check(start, draft.finish(), MATCHES)?);
        Ok(())
    }

    fn name(&mut self, draft: &mut Draft) -> Result<(), RuleError> {
        let Some(name) = self.peek_word().and_then(|word| word.strip_suffix(':')) else {
            return Ok(());
        };
        let at = self.lexer.next();
        self.check(at, draft.set_name(name), MATCHES)?;
        self.names.define(self.lexer.text(), name, at.at)
    }

    fn matches(&mut self, draft: &mut Draft) -> Result<(), RuleError> {
        while let Some(word) = self.peek_word() {
            let Some((key, value)) = split_key(word).filter(|(key, _)| is_match_key(key)) else {
                return Ok(());
            };
            let at = self.lexer.next();
            self.check(at, draft.set_match(key, value), MATCHES)?;
        }
        Ok(())
    }

    fn actions(&mut self, draft: &mut Draft) -> Result<(), RuleError> {
        loop {
            let at = self.lexer.next();
            let word = match at.token {
                Token::Word(word) => word,
                _ => "",
            };
            self.check(at, draft.add_action(word), MATCHES)?;
            if self.lexer.peek().token != Token::Comma {
                return Ok(());
            }
            self.lexer.next();
        }
    }
}

/// Key and value of `key=value`, `key>value` or `key<value`; the value keeps a sign of comparison.
fn split_key(word: &str) -> Option<(&str, &str)> {
    let at = word.find(['=', '<', '>'])?;
    let (key, value) = word.split_at(at);
    Some((key, value.strip_prefix('=').unwrap_or(value)))
}
