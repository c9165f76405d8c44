//! Shorthands: a fault and a probability, with the words of `tc netem`.
//!
//! `drop 1%` is `any -> drop p=0.01 also`: shorthands act beside each other, as netem's faults do.

use super::RuleError;
use super::parser::Parser;
use crate::rule::{Action, Draft, GilbertElliott, Probability, Problem, Rule};

const OPTIONS: &str = "another fault (drop, loss, delay, duplicate, corrupt, reorder, \
     rate, ce), an option (count=, skip=, every=, from=, until=, seed=, then=, quiet), or ';' and \
     another rule";
const FAULTS: [&str; 12] = [
    "drop",
    "loss",
    "delay",
    "duplicate",
    "dup",
    "corrupt",
    "reorder",
    "rate",
    "ce",
    "ecn",
    "limit",
    "slot",
];

/// True if a shorthand may begin with this word.
pub(super) fn begins(word: &str) -> bool {
    FAULTS.contains(&split(word).0)
}

/// `drop=1%` and `drop 1%` are the same.
fn split(word: &str) -> (&str, Option<&str>) {
    word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)))
}

impl<'a> Parser<'a> {
    /// One or more faults, one behind the other. All have the matches of `draft`.
    pub(super) fn shorthands(
        &mut self,
        mut draft: Draft,
        rules: &mut Vec<Rule>,
    ) -> Result<(), RuleError> {
        let matches = draft.same_matches();
        while let Some(word) = self.peek_word() {
            let at = self.lexer.peek();
            self.fault(&mut draft, word)?;
            self.options(&mut draft, OPTIONS, begins)?;
            draft.options().also = true;
            let done = std::mem::replace(&mut draft, matches.same_matches());
            rules.push(self.check(at, done.finish(), OPTIONS)?);
        }
        self.end(OPTIONS)
    }

    fn fault(&mut self, draft: &mut Draft, word: &'a str) -> Result<(), RuleError> {
        let at = self.lexer.next();
        let (name, value) = split(word);
        match name {
            "drop" => self.chance(draft, Action::Drop, value),
            "loss" => self.loss(draft, value),
            "duplicate" | "dup" => self.chance(draft, Action::Duplicate(1), value),
            "ce" | "ecn" => self.chance(draft, Action::Mark, value),
            "corrupt" => self.with_action(draft, "corrupt", value),
            "reorder" => self.with_action(draft, "hold=1", value),
            "delay" => self.delay(draft, value),
            "rate" => self.rate(draft, value),
            _ => Err(self.error(
                at,
                "a fault: drop, loss, delay, duplicate, corrupt, reorder, rate or ce; a limit \
                 belongs to a rate: 'any -> rate=1gbit/64KiB'",
            )),
        }
    }

    /// An action, and a probability if there is one.
    fn chance(
        &mut self,
        draft: &mut Draft,
        action: Action,
        value: Option<&'a str>,
    ) -> Result<(), RuleError> {
        let at = self.lexer.peek();
        self.check(at, draft.add(action), OPTIONS)?;
        if let Some(value) = value.or_else(|| self.argument()) {
            self.check(at, draft.set_option("p", value), OPTIONS)?;
        }
        self.no_correlation()
    }

    fn with_action(
        &mut self,
        draft: &mut Draft,
        action: &str,
        value: Option<&'a str>,
    ) -> Result<(), RuleError> {
        let at = self.lexer.peek();
        let action = self.check(at, Action::parse(action).map_err(Problem::Expected), OPTIONS)?;
        self.chance(draft, action, value)
    }

    /// `loss P`, `loss random P` or `loss gemodel p [r [1-h [1-k]]]`.
    fn loss(&mut self, draft: &mut Draft, value: Option<&'a str>) -> Result<(), RuleError> {
        match self.peek_word().filter(|_| value.is_none()) {
            Some("random") => {
                self.lexer.next();
                self.chance(draft, Action::Drop, None)
            }
            Some("gemodel") => self.gemodel(draft),
            Some("state") => Err(self.error(
                self.lexer.peek(),
                "'loss P' or 'loss gemodel p r 1-h 1-k'; the four-state model does not exist here",
            )),
            _ => self.chance(draft, Action::Drop, value),
        }
    }

    fn gemodel(&mut self, draft: &mut Draft) -> Result<(), RuleError> {
        let at = self.lexer.next();
        self.check(at, draft.add(Action::Drop), OPTIONS)?;
        let mut values = Vec::new();
        while let Some(value) = self.argument().filter(|_| values.len() < 4) {
            values.push(value);
        }
        // Without r, netem takes 1-p.
        let model = match values[..] {
            [to_bad] => Probability::parse(to_bad).map(GilbertElliott::independent),
            _ => GilbertElliott::parse(&values.join(",")),
        };
        draft.options().bursts = Some(self.check(at, model.map_err(Problem::Expected), OPTIONS)?);
        Ok(())
    }

    /// `delay T`, `delay T J` or `delay T~J`.
    fn delay(&mut self, draft: &mut Draft, value: Option<&'a str>) -> Result<(), RuleError> {
        let at = self.lexer.peek();
        let time = value.or_else(|| self.argument()).unwrap_or("");
        let jitter = self.argument();
        let text =
            jitter.map_or(format!("delay={time}"), |jitter| format!("delay={time}~{jitter}"));
        self.check(at, draft.add_action(&text), OPTIONS)?;
        self.no_correlation()
    }

    fn rate(&mut self, draft: &mut Draft, value: Option<&'a str>) -> Result<(), RuleError> {
        let at = self.lexer.peek();
        let rate = value.or_else(|| self.argument()).unwrap_or("");
        self.check(at, draft.add_action(&format!("rate={rate}")), OPTIONS)
    }

    /// The next word, if it begins with a digit.
    fn argument(&mut self) -> Option<&'a str> {
        let word = self.peek_word()?;
        word.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.').then(|| {
            self.lexer.next();
            word
        })
    }

    /// netem lets most faults depend on the one before.
    fn no_correlation(&mut self) -> Result<(), RuleError> {
        let at = self.lexer.peek();
        match self.peek_word() {
            Some("distribution") => {
                Err(self.error(at, "nothing: jitter is uniform, T-J to T+J; there are no tables"))
            }
            Some("gap") => Err(self.error(at, "'any -> hold=1 every=N' in place of a gap")),
            Some(word) if word.starts_with(|letter: char| letter.is_ascii_digit()) => {
                Err(self
                    .error(at, "no correlation: for bursts use 'ge=p,r,h,k' or 'loss gemodel p r'"))
            }
            _ => Ok(()),
        }
    }
}
