//! The result as a table of docs/interop.md.

use std::fs;

use super::PACKAGES;
use crate::error::{Context, Error, Result};
use crate::{packages, workspace};

const DOCUMENT: &str = "docs/interop.md";
/// The table stands between these two lines.
const BEGIN: &str = "<!-- programs: begin -->\n";
const END: &str = "<!-- programs: end -->\n";
/// And that of the tests that do not run between these.
const SKIPPED_BEGIN: &str = "<!-- skipped: begin -->\n";
const SKIPPED_END: &str = "<!-- skipped: end -->\n";

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

    /// Replaces the table in the document.
    ///
    /// # Errors
    /// The document has no place for it.
    pub fn write(&self) -> Result<()> {
        let path = workspace::root().join(DOCUMENT);
        let text = fs::read_to_string(&path).context(|| format!("could not read {DOCUMENT}"))?;
        let mut fresh = replaced(&text, (BEGIN, END), &self.markdown()?)?;
        if !self.reasons.is_empty() {
            fresh = replaced(&fresh, (SKIPPED_BEGIN, SKIPPED_END), &self.skipped())?;
        }
        fs::write(&path, fresh).context(|| format!("could not write {DOCUMENT}"))
    }

    fn markdown(&self) -> Result<String> {
        let versions = packages::versions(PACKAGES)?;
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

fn replaced(document: &str, (begin, end): (&str, &str), table: &str) -> Result<String> {
    let parts = document.split_once(begin).and_then(|(before, rest)| {
        rest.split_once(end).map(|(_, after)| format!("{before}{begin}{table}{end}{after}"))
    });
    parts.ok_or_else(|| Error::new(format!("{DOCUMENT} has no place for the table of programs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_changes() {
        let document = format!("before\n{BEGIN}old\n{END}after\n");
        let fresh = replaced(&document, (BEGIN, END), "new\n").expect("there is a place");
        assert_eq!(fresh, format!("before\n{BEGIN}new\n{END}after\n"));
        assert!(replaced("nothing", (BEGIN, END), "new\n").is_err());
    }
}
