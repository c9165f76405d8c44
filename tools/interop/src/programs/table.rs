//! The result as a table of docs/interop.md.

use uroce_testbed::error::Result;
use uroce_testbed::packages;

use crate::document;

/// Its name there, and that of the table of tests that do not run.
const TABLE: &str = "programs";
const SKIPPED: &str = "skipped";

/// What became of each case.
#[derive(Debug, Default)]
pub struct Table {
    lines: Vec<Line>,
    /// Why tests did not run, and how many.
    reasons: Vec<(usize, String)>,
}

#[derive(Debug)]
struct Line {
    program: &'static str,
    options: String,
    /// `None`: it failed.
    result: Option<String>,
}

impl Table {
    /// Adds a result, and prints it.
    pub fn add(&mut self, program: &'static str, options: String, outcome: Result<String>) {
        match &outcome {
            Ok(result) => println!("{result:7} {program} {options}"),
            Err(error) => println!("FAILED  {program} {options}\n{error}"),
        }
        self.lines.push(Line { program, options, result: outcome.ok() });
    }

    /// Adds why tests did not run.
    pub fn explain(&mut self, reasons: Vec<(usize, String)>) {
        self.reasons = reasons;
    }

    /// Number of failed cases.
    pub fn failed(&self) -> usize {
        self.lines.iter().filter(|line| line.result.is_none()).count()
    }

    /// Whether this passed; `None` if it has not been run.
    pub fn passed(&self, program: &str, options: &str) -> Option<bool> {
        let line =
            self.lines.iter().find(|line| line.program == program && line.options == options);
        line.map(|line| line.result.is_some())
    }

    /// Replaces the table in the document.
    ///
    /// # Errors
    /// The document has no place for it.
    pub fn write(&self) -> Result<()> {
        document::replace(TABLE, &self.markdown()?)?;
        match self.reasons.is_empty() {
            true => Ok(()),
            false => document::replace(SKIPPED, &self.skipped()),
        }
    }

    fn markdown(&self) -> Result<String> {
        let versions = packages::versions(packages::PROGRAMS)?;
        let versions: Vec<_> = versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
        let mut text =
            format!("{}.\n\n| program | options | result |\n|---|---|---|\n", versions.join(", "));
        for Line { program, options, result } in &self.lines {
            let options = if options.is_empty() { String::new() } else { format!("`{options}`") };
            let result = result.as_deref().unwrap_or("**fails**");
            text += &format!("| {program} | {options} | {result} |\n");
        }
        Ok(text)
    }

    fn skipped(&self) -> String {
        let line = |(count, reason): &(usize, String)| format!("| {count} | {reason} |\n");
        let lines: String = self.reasons.iter().map(line).collect();
        format!("| tests | what they say |\n|---|---|\n{lines}")
    }
}
