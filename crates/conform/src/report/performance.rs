//! What was measured, and what the peer counted meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::one_line;
use crate::{CaseReport, Change, Counted, Figures, Report};

/// Columns of the table.
pub(super) const COLUMNS: [&str; 9] = [
    "operation",
    "window",
    "messages/s",
    "goodput",
    "p50",
    "p99",
    "sent",
    "received",
    "sent again",
];

/// The figures of a report, in the order in which they were taken.
pub(super) fn figures(report: &Report) -> impl Iterator<Item = (&CaseReport, &Figures)> {
    report.cases.iter().filter_map(|done| Some((done, done.figures.as_ref()?)))
}

/// The cells of a row.
pub(super) fn row(figures: &Figures) -> [String; 9] {
    let (rate, goodput) = (figures.rate(), figures.goodput() / 1e6);
    let bytes = match figures.bytes {
        bytes if bytes >= 1024 && bytes % 1024 == 0 => format!("{} KiB", bytes / 1024),
        bytes => format!("{bytes} B"),
    };
    [
        format!("{} {bytes}", figures.operation),
        figures.window.to_string(),
        format!("{rate:.0}"),
        format!("{goodput:.1} Mb/s"),
        microseconds(figures.median),
        microseconds(figures.p99),
        figures.sent.to_string(),
        figures.received.to_string(),
        figures.again.to_string(),
    ]
}

fn microseconds(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

/// By how much the counters of the peer rose while operations were measured, by name; or why nothing is known of them.
pub(super) fn counted(report: &Report) -> Result<BTreeMap<&str, u64>, String> {
    let mut rise = BTreeMap::new();
    for (_, figures) in figures(report) {
        match &figures.counters {
            Counted::Missing(why) => return Err(one_line(why)),
            Counted::Changed(changes) => {
                changes.iter().for_each(|Change { name, before, after }| {
                    *rise.entry(name.as_str()).or_default() += after.saturating_sub(*before);
                })
            }
        }
    }
    Ok(rise)
}

/// The section for a terminal; empty if nothing was measured.
pub(super) fn text(report: &Report) -> String {
    let rows: Vec<_> = figures(report).map(|(_, figures)| row(figures)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text =
        "performance of the peer and of this tester, which is a process in userspace:\n".to_owned();
    for row in [COLUMNS.map(str::to_owned)].iter().chain(&rows) {
        let [operation, rest @ ..] = row;
        let _ = write!(text, "  {operation:14}");
        for cell in rest {
            let _ = write!(text, " {cell:>13}");
        }
        text.push('\n');
    }
    match counted(report) {
        Err(why) => {
            let _ = writeln!(text, "the peer has no counters: {why}");
        }
        Ok(rise) if rise.is_empty() => text.push_str("no counter of the peer changed meanwhile\n"),
        Ok(rise) => {
            text.push_str("counters of the peer that changed meanwhile:\n");
            for (name, by) in rise {
                let _ = writeln!(text, "  {name:44} {by:>+13}");
            }
        }
    }
    text
}

/// The objects of the JSON form.
pub(super) fn objects(report: &Report) -> Vec<Value> {
    figures(report).map(|(done, figures)| object(done, figures)).collect()
}

fn object(done: &CaseReport, figures: &Figures) -> Value {
    let (counters, missing) = match &figures.counters {
        Counted::Changed(changes) => (changes.as_slice(), None),
        Counted::Missing(why) => (&[][..], Some(why)),
    };
    let counter = |Change { name, before, after }: &Change| json!({ "name": name, "before": before, "after": after });
    json!({
        "case": done.case.id,
        "operation": figures.operation,
        "bytes": figures.bytes,
        "window": figures.window,
        "messages": figures.messages,
        "seconds": figures.time.as_secs_f64(),
        "messages_per_second": figures.rate(),
        "goodput_bits_per_second": figures.goodput(),
        "p50_seconds": figures.median.as_secs_f64(),
        "p99_seconds": figures.p99.as_secs_f64(),
        "sent": figures.sent,
        "received": figures.received,
        "sent_again": figures.again,
        "counters": counters.iter().map(counter).collect::<Vec<_>>(),
        "no_counters": missing,
    })
}

/// The counters of one case, a line each.
pub(super) fn lines(figures: &Figures) -> Vec<String> {
    match &figures.counters {
        Counted::Missing(why) => vec![format!("the peer has no counters: {}", one_line(why))],
        Counted::Changed(changes) => {
            let line =
                |Change { name, before, after }: &Change| format!("{name}: {before} to {after}");
            changes.iter().map(line).collect()
        }
    }
}
