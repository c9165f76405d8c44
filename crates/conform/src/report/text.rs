//! For a terminal.

use std::fmt::Write as _;

use super::{one_line, performance, summary};
use crate::{CaseReport, Report};

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    if let Some(without) = &report.without {
        let _ = writeln!(text, "note: {}", one_line(without));
    }
    text.extend(report.cases.iter().map(|done| case(done, done.failed())));
    text += &performance::text(report);
    if let Some(lost) = &report.lost {
        let _ = writeln!(text, "the run ended early: {}", one_line(lost));
    }
    let (card, summary) = (&report.card, summary(report));
    let (device, system) = (one_line(&card.device), one_line(&card.system));
    let _ = writeln!(text, "{device} ({system}) at {}: {summary}", card.address);
    text
}

/// The lines of one case; with what passed if `packets`.
pub(super) fn case(done: &CaseReport, packets: bool) -> String {
    let (word, id, class) = (done.verdict.word(), done.case.id, done.case.class.name());
    let mut text = format!("{word:14} {id:44} {class}\n");
    let reason = [done.verdict.why()].into_iter().filter(|why| !why.is_empty());
    for line in reason.chain(done.recorded.iter().map(String::as_str)) {
        let _ = writeln!(text, "{:14} {}", "", one_line(line));
    }
    if done.failed() {
        let _ = writeln!(text, "{:14} rule: {} ({})", "", done.case.sentence, done.case.rules);
    }
    for entry in done.transcript.iter().filter(|_| packets) {
        let _ = writeln!(text, "{:16}{entry}", "");
    }
    text
}
