//! JUnit XML, as CI systems read it.

use std::fmt::Write as _;

use crate::{CaseReport, Class, Report, Verdict};

pub(super) fn render(report: &Report) -> String {
    let seconds: f64 = report.cases.iter().map(|done| done.time.as_secs_f64()).sum();
    let (tests, failures) = (report.cases.len(), report.count("fail"));
    let skipped = report.count("not applicable");
    let errors = report.count("inconclusive");
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"uroce conform {}\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n",
        escaped(&report.card.device)
    );
    for done in &report.cases {
        xml += &case(done);
    }
    if let Some(lost) = &report.lost {
        let _ = writeln!(xml, "  <system-err>{}</system-err>", escaped(lost));
    }
    xml + "</testsuite>\n"
}

fn case(done: &CaseReport) -> String {
    let (id, seconds) = (done.case.id, done.time.as_secs_f64());
    let (group, name) = id.rsplit_once('.').unwrap_or(("", id));
    let why = escaped(done.verdict.why());
    let inside = match &done.verdict {
        Verdict::Pass | Verdict::Tolerated(_) => String::new(),
        Verdict::Fail(_) => {
            let kind = if done.case.class == Class::Must { "must" } else { "should" };
            format!("    <failure type=\"{kind}\" message=\"{why}\">{}</failure>\n", packets(done))
        }
        Verdict::NotApplicable(_) => format!("    <skipped message=\"{why}\"/>\n"),
        Verdict::Inconclusive(_) => format!("    <error message=\"{why}\"/>\n"),
    };
    let mut remarks = done.recorded.clone();
    if let Verdict::Tolerated(why) = &done.verdict {
        remarks.insert(0, format!("tolerated: {why}"));
    }
    let remarks = match remarks.is_empty() {
        true => String::new(),
        false => format!("    <system-out>{}</system-out>\n", escaped(&remarks.join("\n"))),
    };
    format!(
        "  <!-- {id} -->\n  <testcase classname=\"{group}\" name=\"{name}\" time=\"{seconds:.3}\">\n{inside}{remarks}  \
         </testcase>\n"
    )
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
            control if control.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}
