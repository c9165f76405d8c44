//! JUnit XML, as CI systems read it.

use std::fmt::Write as _;

use super::{one_line, performance};
use crate::{CaseReport, Report, Verdict};

/// The test that stands for the run itself, if it ended early: a report without it would look like a success.
const WHOLE_RUN: &str = "the-whole-run";

pub(super) fn render(report: &Report) -> String {
    let seconds: f64 = report.cases.iter().map(|done| done.time.as_secs_f64()).sum();
    let lost = usize::from(report.lost.is_some());
    let tests = report.cases.len() + lost;
    let failures = report.count("fail");
    let errors = report.count("inconclusive") + lost;
    let skipped = report.count("not applicable");
    let counts = format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{seconds:.3}\""
    );
    let name = format!("uroce conform {}", escaped(&report.card.device));
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n<testsuite name=\"{name}\" {counts}>\n"
    );
    xml += &properties(&about(report), "  ");
    for done in &report.cases {
        xml += &case(done);
    }
    if let Some(lost) = &report.lost {
        let why = escaped(&one_line(lost));
        let _ = writeln!(
            xml,
            "  <testcase classname=\"run\" name=\"{WHOLE_RUN}\" time=\"0\">\n    <error message=\"{why}\" type=\"ended early\"/>\n  \
             </testcase>"
        );
    }
    xml + "</testsuite>\n</testsuites>\n"
}

/// What was tested, and what the tester could not do.
fn about(report: &Report) -> Vec<(&'static str, String)> {
    let card = &report.card;
    let mut about = vec![
        ("device", card.device.clone()),
        ("firmware", card.firmware.clone()),
        ("system", card.system.clone()),
        ("address", card.address.to_string()),
    ];
    about.extend(report.without.as_ref().map(|why| ("without", one_line(why))));
    about
}

fn case(done: &CaseReport) -> String {
    let (id, seconds) = (done.case.id, done.time.as_secs_f64());
    let (group, name) = id.rsplit_once('.').unwrap_or(("", id));
    let mut about =
        vec![("class", done.case.class.name().to_owned()), ("rules", done.case.rules.to_owned())];
    if let Verdict::Tolerated(why) = &done.verdict {
        about.push(("tolerated", one_line(why)));
    }
    if let Some(figures) = &done.figures {
        about.extend(performance::COLUMNS.into_iter().zip(performance::row(figures)));
    }
    format!(
        "  <testcase classname=\"{group}\" name=\"{name}\" time=\"{seconds:.3}\">\n{}{}{}  </testcase>\n",
        properties(&about, "    "),
        outcome(done),
        remarks(done)
    )
}

fn outcome(done: &CaseReport) -> String {
    let why = escaped(&one_line(done.verdict.why()));
    match &done.verdict {
        Verdict::Pass | Verdict::Tolerated(_) => String::new(),
        Verdict::Fail(_) => {
            let class = done.case.class.name();
            let packets = packets(done);
            format!("    <failure message=\"{why}\" type=\"{class}\">{packets}</failure>\n")
        }
        Verdict::NotApplicable(_) => format!("    <skipped message=\"{why}\"/>\n"),
        Verdict::Inconclusive(_) => {
            format!("    <error message=\"{why}\" type=\"inconclusive\"/>\n")
        }
    }
}

/// What was measured.
fn remarks(done: &CaseReport) -> String {
    let mut lines = done.recorded.clone();
    lines.extend(done.figures.iter().flat_map(performance::lines));
    match lines.is_empty() {
        true => String::new(),
        false => format!("    <system-out>{}</system-out>\n", escaped(&lines.join("\n"))),
    }
}

fn properties(list: &[(&str, String)], indent: &str) -> String {
    let line = |(name, value): &(&str, String)| {
        format!("{indent}  <property name=\"{name}\" value=\"{}\"/>\n", escaped(value))
    };
    let lines: String = list.iter().map(line).collect();
    format!("{indent}<properties>\n{lines}{indent}</properties>\n")
}

fn packets(done: &CaseReport) -> String {
    let lines: Vec<String> = done.transcript.iter().map(ToString::to_string).collect();
    escaped(&lines.join("\n"))
}

/// Text that XML may hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(character),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            control if control.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}
