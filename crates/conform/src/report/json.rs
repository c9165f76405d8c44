//! One JSON object; its names are explained in docs/conform/json.md.

use serde_json::{Map, Value, json};

use super::{WORDS, performance};
use crate::{CaseReport, Report};

/// Version of the format: it rises when a name changes its meaning or goes away.
const VERSION: u32 = 1;

pub(super) fn render(report: &Report) -> String {
    let counts: Map<String, Value> =
        WORDS.iter().map(|word| ((*word).to_owned(), report.count(word).into())).collect();
    let object = json!({
        "version": VERSION,
        "peer": report.card,
        "counts": counts,
        "ended_early": report.lost,
        "without": report.without,
        "cases": report.cases.iter().map(case).collect::<Vec<_>>(),
        "performance": performance::objects(report),
    });
    format!("{object:#}\n")
}

fn case(done: &CaseReport) -> Value {
    let shown = done.transcript.iter().filter(|_| done.failed());
    json!({
        "case": done.case.id,
        "rules": done.case.rules,
        "class": done.case.class.name(),
        "role": done.case.role().name(),
        "sentence": done.case.sentence,
        "candidates": done.case.candidates,
        "verdict": done.verdict.word(),
        "why": done.verdict.why(),
        "recorded": done.recorded,
        "seconds": done.time.as_secs_f64(),
        "packets": shown.map(ToString::to_string).collect::<Vec<_>>(),
    })
}
