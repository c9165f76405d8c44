//! What libFuzzer said of a target.

use std::path::PathBuf;

/// What came of one target.
#[derive(Debug)]
pub struct FuzzTotals {
    /// Its name.
    pub target: String,
    /// Where what libFuzzer printed is.
    pub log: PathBuf,
    /// An input failed, or libFuzzer ended without its totals.
    pub failed: bool,
    /// Seconds of processor time.
    seconds: u64,
    /// Inputs that were run.
    executions: u64,
    /// Edges of the control flow that were reached with the inputs that were there, and at the end.
    edges: [u64; 2],
}

/// Reads the output of libFuzzer.
pub fn totals_of(
    target: &str,
    log: PathBuf,
    seconds: u64,
    text: &str,
    success: bool,
) -> FuzzTotals {
    let total = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executions = total.and_then(|count| count.trim().parse().ok());
    let mut covered = text.lines().skip_while(|line| !line.contains("INITED")).filter_map(edges);
    let before = covered.next().unwrap_or(0);
    let after = covered.last().unwrap_or(before);
    FuzzTotals {
        target: target.to_owned(),
        log,
        failed: !success || executions.is_none(),
        seconds,
        executions: executions.unwrap_or(0),
        edges: [before, after],
    }
}

/// The number behind `cov:` in a line of progress.
fn edges(line: &str) -> Option<u64> {
    let behind = line.strip_prefix('#')?.split_once("cov: ")?.1;
    behind.split_whitespace().next()?.parse().ok()
}

/// Above the rows of a table in Markdown.
pub const HEAD: &str = "\
| target | processor time | executions | edges before | edges after |
|---|---|---|---|---|";

/// A row of it.
pub fn row(totals: &FuzzTotals) -> String {
    let FuzzTotals { target, failed, seconds, executions, edges: [before, after], .. } = totals;
    let failed = if *failed { ", **failed**" } else { "" };
    let [executions, before, after] = [*executions, *before, *after].map(grouped);
    format!("| {target}{failed} | {seconds} s | {executions} | {before} | {after} |")
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
INFO: Seed: 1\n#40\tINITED cov: 1805 ft: 9 corp: 3/4b exec/s: 0 rss: 40Mb\n#41\tNEW    cov: 1806 ft: 10 corp: 4/9b\n\
#1234567\tREDUCE cov: 2452 ft: 12 corp: 5/9b\nINFO: signal received, trying to exit gracefully\n\
stat::number_of_executed_units: 1234600\nstat::average_exec_per_sec:     3\n";

    #[test]
    fn the_totals_of_a_target_become_a_row() {
        let one = totals_of("queue_pair", PathBuf::new(), 3600, TEXT, true);
        assert!(!one.failed);
        assert_eq!(row(&one), "| queue_pair | 3600 s | 1,234,600 | 1,805 | 2,452 |");
    }

    #[test]
    fn a_crash_and_an_end_without_totals_are_failures() {
        let crash = totals_of("mads", PathBuf::new(), 3, TEXT, false);
        let killed = totals_of("mads", PathBuf::new(), 3, "INFO: Seed: 1\n", true);
        assert!(crash.failed && killed.failed);
        assert!(row(&crash).starts_with("| mads, **failed** |"));
    }
}
