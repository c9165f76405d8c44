//! A page with a table.

use std::fmt::Write as _;

use super::{one_line, performance, summary};
use crate::Report;

pub(super) fn render(report: &Report) -> String {
    let card = &report.card;
    let mut page = format!(
        "# Conformance of {}\n\nDevice {}, firmware {}, {}. {}.\n",
        cell(&card.device),
        cell(&card.device),
        cell(&card.firmware),
        cell(&card.system),
        summary(report)
    );
    if let Some(without) = &report.without {
        let _ = write!(page, "\nNote: {}.\n", cell(without));
    }
    if let Some(lost) = &report.lost {
        let _ = write!(page, "\nThe run ended early: {}.\n", cell(lost));
    }
    page += "\n| case | class | rules | verdict | remark |\n|---|---|---|---|---|\n";
    for done in &report.cases {
        let mut remarks = vec![done.verdict.why().to_owned()];
        remarks.extend(done.recorded.iter().cloned());
        remarks.retain(|remark| !remark.is_empty());
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            done.case.id,
            done.case.class.name(),
            done.case.rules,
            done.verdict.word(),
            cell(&remarks.join("; "))
        );
    }
    page + &measured(report)
}

/// The section about performance, if something was measured.
fn measured(report: &Report) -> String {
    let rows: Vec<_> = performance::figures(report).map(|(_, one)| performance::row(one)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut page =
        "\n## Performance\n\nOf the peer and of the tester, which is a process in userspace.\n\n"
            .to_owned();
    let columns = performance::COLUMNS;
    let _ = writeln!(page, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
    match performance::counted(report) {
        Err(why) => {
            let _ = write!(page, "\nNote: the peer has no counters: {}.\n", cell(&why));
        }
        Ok(rise) => {
            page += "\n| counter of the peer | changed by |\n|---|---|\n";
            for (name, by) in rise {
                let _ = writeln!(page, "| {} | {by:+} |", cell(name));
            }
        }
    }
    page
}

/// Text that does not end a cell.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}
