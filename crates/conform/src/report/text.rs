//! For a terminal.

use std::fmt::Write as _;

use super::summary;
use crate::{Report, Verdict};

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    for done in &report.cases {
        let (word, id) = (done.verdict.word(), done.case.id);
        let _ = writeln!(text, "{word:14} {id}");
        if !done.verdict.why().is_empty() {
            let _ = writeln!(text, "{:14} {}", "", done.verdict.why());
        }
        for line in &done.recorded {
            let _ = writeln!(text, "{:14} {line}", "");
        }
        if matches!(done.verdict, Verdict::Fail(_)) {
            let _ = writeln!(text, "{:14} rule: {} ({})", "", done.case.sentence, done.case.rules);
            for entry in &done.transcript {
                let _ = writeln!(text, "{:16}{entry}", "");
            }
        }
    }
    if let Some(lost) = &report.lost {
        let _ = writeln!(text, "the run ended early: {lost}");
    }
    let card = &report.card;
    let _ = writeln!(
        text,
        "{} ({}) at {}: {}",
        card.device,
        card.system,
        card.address,
        summary(report)
    );
    text
}
