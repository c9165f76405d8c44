//! A page with a table.

use std::fmt::Write as _;

use super::{one_line, summary};
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
    page
}

/// Text that does not end a cell.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}
