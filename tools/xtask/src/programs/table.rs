//! The result as a table of docs/interop.md.

use std::fs;

use super::PACKAGES;
use super::case::Case;
use crate::error::{Context, Error, Result};
use crate::{packages, workspace};

const DOCUMENT: &str = "docs/interop.md";
/// The table stands between these two lines.
const BEGIN: &str = "<!-- programs: begin -->\n";
const END: &str = "<!-- programs: end -->\n";

/// What became of each case.
#[derive(Debug, Default)]
pub struct Table {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    program: &'static str,
    options: String,
    passed: bool,
}

impl Table {
    /// Adds a result.
    pub fn add(&mut self, case: &Case, passed: bool) {
        let options = case.line().replacen(case.program, "", 1).trim().to_owned();
        self.lines.push(Line { program: case.program, options, passed });
    }

    /// Number of failed cases.
    pub fn failed(&self) -> usize {
        self.lines.iter().filter(|line| !line.passed).count()
    }

    /// Replaces the table in the document.
    ///
    /// # Errors
    /// The document has no place for it.
    pub fn write(&self) -> Result<()> {
        let path = workspace::root().join(DOCUMENT);
        let text = fs::read_to_string(&path).context(|| format!("could not read {DOCUMENT}"))?;
        let fresh = replaced(&text, &self.markdown()?)?;
        fs::write(&path, fresh).context(|| format!("could not write {DOCUMENT}"))
    }

    fn markdown(&self) -> Result<String> {
        let versions = packages::versions(PACKAGES)?;
        let versions: Vec<_> = versions.iter().map(|(name, v)| format!("{name} {v}")).collect();
        let mut text =
            format!("{}.\n\n| program | options | result |\n|---|---|---|\n", versions.join(", "));
        for Line { program, options, passed } in &self.lines {
            let options = if options.is_empty() { String::new() } else { format!("`{options}`") };
            let result = if *passed { "ok" } else { "**fails**" };
            text += &format!("| {program} | {options} | {result} |\n");
        }
        Ok(text)
    }
}

fn replaced(document: &str, table: &str) -> Result<String> {
    let parts = document.split_once(BEGIN).and_then(|(before, rest)| {
        rest.split_once(END).map(|(_, after)| format!("{before}{BEGIN}{table}{END}{after}"))
    });
    parts.ok_or_else(|| Error::new(format!("{DOCUMENT} has no place for the table of programs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_changes() {
        let document = format!("before\n{BEGIN}old\n{END}after\n");
        let fresh = replaced(&document, "new\n").expect("there is a place");
        assert_eq!(fresh, format!("before\n{BEGIN}new\n{END}after\n"));
        assert!(replaced("nothing", "new\n").is_err());
    }
}
