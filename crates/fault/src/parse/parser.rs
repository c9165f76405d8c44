//! A cursor over the words of rules, and what the forms of a rule share: options, the end, errors.

use super::lexer::{Lexeme, Lexer, Token};
use super::{Names, RuleError};
use crate::rule::{Draft, Problem, is_action};

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) names: Names,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Parser { lexer: Lexer::new(text), names: Names::default() }
    }

    pub(super) fn error(&self, at: Lexeme<'a>, expected: &str) -> RuleError {
        let text = self.lexer.text();
        let found = match at.token {
            Token::Word(word) => word,
            Token::Arrow => "->",
            Token::Comma => ",",
            Token::End => text[at.at..].get(..1).unwrap_or(""),
        };
        RuleError::new(text, at.at, found, expected)
    }

    /// An error in the value of `key=value`; a shorter word is all value.
    pub(super) fn check<T>(
        &self,
        at: Lexeme<'a>,
        result: Result<T, Problem>,
        unknown: &str,
    ) -> Result<T, RuleError> {
        result.map_err(|problem| match problem {
            Problem::Expected(expected) => self.error(at, &expected),
            Problem::UnknownKey => self.error(at, unknown),
        })
    }

    pub(super) fn peek_word(&self) -> Option<&'a str> {
        match self.lexer.peek().token {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Options, up to a word that `ends` them. `unknown` says what may stand in place of one.
    pub(super) fn options(
        &mut self,
        draft: &mut Draft,
        unknown: &str,
        ends: impl Fn(&str) -> bool,
    ) -> Result<(), RuleError> {
        while let Some(word) = self.peek_word().filter(|word| !ends(word)) {
            let at = self.lexer.next();
            let result = match word.split_once('=') {
                Some((key, value)) => {
                    if key == "then" {
                        self.names.mention(value, at.at + "then=".len());
                    }
                    draft.set_option(key, value)
                }
                None => draft.set_flag(word),
            };
            let is_late = is_action(word) && matches!(result, Err(Problem::UnknownKey));
            let unknown = if is_late { "',' in front of another action" } else { unknown };
            self.check(at, result, unknown)?;
        }
        Ok(())
    }

    /// The end of a rule.
    pub(super) fn end(&mut self, expected: &str) -> Result<(), RuleError> {
        let at = self.lexer.next();
        if at.token == Token::End { Ok(()) } else { Err(self.error(at, expected)) }
    }
}
