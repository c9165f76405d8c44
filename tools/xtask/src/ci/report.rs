//! The table at the end of a CI run.

use std::fmt;

use super::step::Outcome;

/// One finished step.
#[derive(Debug, Clone)]
pub struct Line {
    /// Name of the step.
    pub name: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// How long it took.
    pub seconds: f64,
}

impl Line {
    /// Why it was skipped or failed: the first line, and the rest.
    fn reason(&self) -> (&str, &str) {
        let reason = match &self.outcome {
            Outcome::Passed => "",
            Outcome::Skipped(reason) | Outcome::Failed(reason) => reason,
        };
        reason.split_once('\n').unwrap_or((reason, ""))
    }

    /// What there is to say beyond the line, such as the output of a command that failed.
    pub fn details(&self) -> Option<String> {
        let (_, rest) = self.reason();
        (!rest.trim().is_empty()).then(|| format!("--- {}:\n{}", self.name, rest.trim_end()))
    }
}

/// One line of the table.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match &self.outcome {
            Outcome::Passed => "passed",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => "FAILED",
        };
        write!(f, "{:10} {word:8} {:7.1} s  {}", self.name, self.seconds, self.reason().0)
    }
}

/// All finished steps.
#[derive(Debug)]
pub struct Report {
    lines: Vec<Line>,
    skip_is_failure: bool,
}

impl Report {
    /// An empty report; with `skip_is_failure` a skipped step counts as failed.
    pub fn new(skip_is_failure: bool) -> Self {
        Self { lines: Vec::new(), skip_is_failure }
    }

    /// Adds a finished step.
    pub fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Number of steps that count as failed.
    pub fn failed(&self) -> usize {
        let skipped = if self.skip_is_failure {
            self.count(|outcome| matches!(outcome, Outcome::Skipped(_)))
        } else {
            0
        };
        skipped + self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// Prints the details of what failed, the table and the closing line.
    pub fn print(&self) {
        println!();
        self.lines.iter().filter_map(Line::details).for_each(|details| println!("{details}\n"));
        self.lines.iter().for_each(|line| println!("{line}"));
        if self.skip_is_failure && self.count(|outcome| matches!(outcome, Outcome::Skipped(_))) > 0
        {
            println!("CI=true: a skipped step counts as failed");
        }
        println!("total {:.0} s", self.lines.iter().map(|line| line.seconds).sum::<f64>());
        println!("{}", self.closing_line());
    }

    fn closing_line(&self) -> String {
        let passed = self.count(|outcome| *outcome == Outcome::Passed);
        let skipped = self.lines.len() - passed - self.failed();
        format!("{passed} passed, {} failed, {skipped} skipped", self.failed())
    }

    fn count(&self, which: impl Fn(&Outcome) -> bool) -> usize {
        self.lines.iter().filter(|line| which(&line.outcome)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(skip_is_failure: bool) -> Report {
        let mut report = Report::new(skip_is_failure);
        for outcome in
            [Outcome::Passed, Outcome::Skipped("no root".into()), Outcome::Failed("x".into())]
        {
            report.add(Line { name: "step", outcome, seconds: 1.0 });
        }
        report
    }

    #[test]
    fn a_skipped_step_fails_only_in_ci() {
        assert_eq!(report(false).closing_line(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(report(true).closing_line(), "1 passed, 2 failed, 0 skipped");
    }

    #[test]
    fn a_line_says_why() {
        let line = report(false).lines[1].to_string();
        assert!(line.contains("skipped") && line.contains("no root"), "{line}");
    }

    #[test]
    fn the_table_has_a_line_for_each_step_and_the_details_are_apart() {
        let outcome = Outcome::Failed("`cargo test` failed\n---- bad\n1 is not 2\n".into());
        let line = Line { name: "test", outcome, seconds: 1.0 };
        assert_eq!(line.to_string(), "test       FAILED       1.0 s  `cargo test` failed");
        assert_eq!(line.details().as_deref(), Some("--- test:\n---- bad\n1 is not 2"));
        assert_eq!(report(false).lines[2].details(), None);
    }
}
