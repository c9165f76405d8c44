//! The result as a table for people and as JSON for programs.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use serde::Serialize;
use uroce_rxe_guest::Kernel;
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
pub struct Summary {
    /// Every tried cell.
    pub verdicts: Vec<Verdict>,
    /// How many cells were left out for which reason.
    pub excluded: BTreeMap<&'static str, usize>,
}

impl Summary {
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
            cells: &self.verdicts,
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
        for verdict in &self.verdicts {
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

/// For the document: a line for each kernel and datapath.
pub fn by_kernel(runs: &[(Kernel, Summary)]) -> String {
    let mut text = "| kernel | datapath | cells | packets of ours | with a wrong ICRC | packets of rxe | with a wrong ICRC |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for (kernel, summary) in runs {
        let mut datapaths: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
        for verdict in &summary.verdicts {
            datapaths.entry(verdict.near).or_default().push(verdict);
        }
        for (datapath, verdicts) in datapaths {
            let passed = verdicts.iter().filter(|verdict| verdict.passed).count();
            let mut wire = Tally::default();
            verdicts.iter().for_each(|verdict| wire += verdict.tally);
            let Tally { near_packets, near_bad, far_packets, far_bad } = wire;
            let cells = format!("{passed} of {}", verdicts.len());
            text += &format!(
                "| {kernel} | {datapath} | {cells} | {near_packets} | {near_bad} | {far_packets} | {far_bad} |\n"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::cell::Cell;
    use super::*;

    #[test]
    fn a_line_says_how_many_cells_passed_against_a_kernel() {
        let tally = Tally { near_packets: 5, far_packets: 7, near_bad: 0, far_bad: 1 };
        let verdict = |passed| Verdict {
            cell: Cell::all()[0],
            near: "udp",
            passed,
            reason: None,
            attempts: 1,
            seconds: 0.1,
            tally,
        };
        let verdicts = vec![verdict(true), verdict(false)];
        let text =
            by_kernel(&[(Kernel::Debian13, Summary { verdicts, excluded: BTreeMap::new() })]);
        assert_eq!(text.lines().last(), Some("| 6.12 | udp | 1 of 2 | 10 | 0 | 14 | 2 |"));
    }
}
