//! The result as a table for people and as JSON for programs.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use serde::Serialize;
use uroce_testbed::error::{Context, Result};

use super::capture::Tally;
use super::cell::{Program, Role};
use super::trial::Verdict;

/// Version of the JSON.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    passed: usize,
    failed: usize,
    excluded: BTreeMap<&'static str, usize>,
    wire: Tally,
    cells: &'a [Verdict],
}

/// What is known at the end of a run.
#[derive(Debug)]
pub struct Summary<'a> {
    /// Every tried cell.
    pub verdicts: &'a [Verdict],
    /// How many cells were left out for which reason.
    pub excluded: BTreeMap<&'static str, usize>,
}

impl Summary<'_> {
    /// Number of failed cells.
    pub fn failed(&self) -> usize {
        self.verdicts.iter().filter(|verdict| !verdict.passed).count()
    }

    fn wire(&self) -> Tally {
        let mut sum = Tally::default();
        self.verdicts.iter().for_each(|verdict| sum += verdict.tally);
        sum
    }

    /// One JSON document with everything.
    ///
    /// # Errors
    /// None in practice: every part can be written as JSON.
    pub fn json(&self) -> Result<String> {
        let document = Document {
            version: VERSION,
            passed: self.verdicts.len() - self.failed(),
            failed: self.failed(),
            excluded: self.excluded.clone(),
            wire: self.wire(),
            cells: self.verdicts,
        };
        serde_json::to_string_pretty(&document).context(|| "the result cannot be written as JSON")
    }

    /// Prints the table, the reasons of failures and the totals.
    pub fn print(&self) {
        for verdict in self.verdicts.iter().filter(|verdict| !verdict.passed) {
            let reason = verdict.reason.as_deref().unwrap_or_default();
            println!("FAILED {} {}: {}", verdict.near, verdict.cell, reason.trim_end());
        }
        println!("{}", self.table());
        for (reason, count) in &self.excluded {
            println!("left out {count:4}: {reason}");
        }
        let again: usize =
            self.verdicts.iter().filter(|verdict| verdict.passed && verdict.attempts > 1).count();
        println!(
            "{again} passed only at the second attempt (allowed on a wire that loses or damages packets)"
        );
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "we use",
            "program",
            "we are",
            "passed",
            "failed",
            "our packets",
            "rxe's packets",
            "ours bad",
            "rxe's bad",
        ]);
        let mut groups: BTreeMap<(&str, Program, Role), Vec<&Verdict>> = BTreeMap::new();
        for verdict in self.verdicts {
            let key = (verdict.near, verdict.cell.program, verdict.cell.role);
            groups.entry(key).or_default().push(verdict);
        }
        for ((near, program, role), verdicts) in groups {
            table.add_row(row([near, &program.to_string(), &role.to_string()], &verdicts));
        }
        table.add_row(row(["all", "", ""], &self.verdicts.iter().collect::<Vec<_>>()));
        table
    }
}

fn row(names: [&str; 3], verdicts: &[&Verdict]) -> Vec<String> {
    let passed = verdicts.iter().filter(|verdict| verdict.passed).count();
    let mut wire = Tally::default();
    verdicts.iter().for_each(|verdict| wire += verdict.tally);
    let numbers = [
        (verdicts.len() - passed) as u64,
        wire.near_packets,
        wire.far_packets,
        wire.near_bad,
        wire.far_bad,
    ];
    let mut cells: Vec<String> = names.map(str::to_owned).into();
    cells.push(passed.to_string());
    cells.extend(numbers.map(|number| number.to_string()));
    cells
}
