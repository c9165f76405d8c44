//! The forms of a report, read as those read them who get one.

use std::path::Path;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use serde_json::Value;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, stdout_of};

/// The words of verdicts.
const WORDS: [&str; 5] = ["pass", "tolerated", "fail", "not applicable", "inconclusive"];

/// What a form says about a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    case: String,
    class: String,
    verdict: String,
    reason: String,
}

/// Compares the four forms of one report; how many cases they tell of.
///
/// # Errors
/// One of them cannot be read, or says something else than the others.
pub fn agree(json: &str, text: &str, markdown: &str, junit: &str) -> Result<usize> {
    let wanted = from_json(json)?;
    same("text", &wanted, &from_text(text))?;
    same("JUnit XML", &wanted, &from_junit(junit)?)?;
    let mut rows = from_markdown(markdown);
    for (row, wanted) in rows.iter_mut().zip(&wanted) {
        // What was measured stands behind the reason.
        let has_it = !wanted.reason.is_empty() && row.reason.starts_with(&wanted.reason);
        row.reason = if has_it { wanted.reason.clone() } else { String::new() };
    }
    same("Markdown", &wanted, &rows)?;
    Ok(wanted.len())
}

fn same(form: &str, wanted: &[Row], rows: &[Row]) -> Result<()> {
    if wanted.len() != rows.len() {
        let (json, other) = (wanted.len(), rows.len());
        return Err(Error::new(format!("{json} cases in JSON and {other} in {form}")));
    }
    match wanted.iter().zip(rows).find(|(one, other)| one != other) {
        None => Ok(()),
        Some((one, other)) => Err(Error::new(format!("JSON says {one:?}, {form} {other:?}"))),
    }
}

/// Text without differences of white space.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn from_json(text: &str) -> Result<Vec<Row>> {
    let report: Value = serde_json::from_str(text).context(|| "the report is no JSON")?;
    let cases = report["cases"].as_array().ok_or_else(|| Error::new("no cases"))?;
    let word = |value: &Value| plain(value.as_str().unwrap_or_default());
    let row = |case: &Value| Row {
        case: word(&case["case"]),
        class: word(&case["class"]),
        verdict: word(&case["verdict"]),
        reason: word(&case["why"]),
    };
    let rows: Vec<Row> = cases.iter().map(row).collect();
    for verdict in WORDS {
        let count = rows.iter().filter(|row| row.verdict == verdict).count();
        if report["counts"][verdict] != count {
            let counted = &report["counts"][verdict];
            return Err(Error::new(format!("{counted} are counted as {verdict}, {count} are")));
        }
    }
    Ok(rows)
}

fn from_text(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut is_new = false;
    for line in text.lines() {
        let head = WORDS.iter().find(|word| line.starts_with(&format!("{word:14} ")));
        if let Some(word) = head {
            let mut parts = line[word.len()..].split_whitespace().map(str::to_owned);
            let mut part = || parts.next().unwrap_or_default();
            let (case, class) = (part(), part());
            rows.push(Row { case, class, verdict: (*word).to_owned(), reason: String::new() });
        } else if let Some(last) = rows.last_mut().filter(|row| is_new && row.verdict != "pass") {
            last.reason = plain(line);
        }
        is_new = head.is_some();
    }
    rows
}

fn from_markdown(text: &str) -> Vec<Row> {
    let table = text.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    // Behind the cases there may be tables of what was measured.
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        // A bar that belongs to a cell has a backslash before it.
        let line = line.replace("\\|", "\u{0}");
        let cells: Vec<String> =
            line.split('|').map(|cell| plain(&cell.replace('\u{0}', "|"))).collect();
        let cell = |at: usize| cells.get(at).cloned().unwrap_or_default();
        Row { case: cell(1), class: cell(2), verdict: cell(4), reason: cell(5) }
    })
    .collect()
}

fn from_junit(text: &str) -> Result<Vec<Row>> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut rows: Vec<Row> = Vec::new();
    let mut counts = Vec::new();
    loop {
        match reader.read_event().context(|| "the report is no XML")? {
            Event::Start(tag) | Event::Empty(tag) => match tag.name().as_ref() {
                "testsuite" => {
                    counts = ["tests", "failures", "errors", "skipped"]
                        .map(|name| attribute(&tag, name))
                        .to_vec();
                }
                "testcase" => {
                    let case =
                        format!("{}.{}", attribute(&tag, "classname"), attribute(&tag, "name"));
                    rows.push(Row { case, verdict: "pass".to_owned(), ..Row::default() });
                }
                name => note(name, &tag, rows.last_mut()),
            },
            Event::Eof => break,
            _ => {}
        }
    }
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict == verdict).count();
    let wanted = [rows.len(), count("fail"), count("inconclusive"), count("not applicable")];
    match counts == wanted.map(|count| count.to_string()) {
        true => Ok(rows),
        false => Err(Error::new(format!("JUnit XML counts {counts:?}, and it has {wanted:?}"))),
    }
}

/// An element of a test: its outcome is what consumers go by, a tolerated one is a success to them.
fn note(element: &str, tag: &BytesStart<'_>, row: Option<&mut Row>) {
    let Some(row) = row else { return };
    let verdict = match (element, attribute(tag, "name").as_str()) {
        ("failure", _) => "fail",
        ("skipped", _) => "not applicable",
        ("error", _) => "inconclusive",
        ("property", "tolerated") => {
            row.reason = plain(&attribute(tag, "value"));
            "tolerated"
        }
        ("property", "class") => {
            row.class = attribute(tag, "value");
            return;
        }
        _ => return,
    };
    verdict.clone_into(&mut row.verdict);
    if element != "property" {
        row.reason = plain(&attribute(tag, "message"));
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> String {
    let found = tag.try_get_attribute(name).ok().flatten();
    let value = found.and_then(|found| {
        found.normalized_value(XmlVersion::default()).ok().map(std::borrow::Cow::into_owned)
    });
    value.unwrap_or_default()
}

/// How many operations were measured, by a report as JSON.
///
/// # Errors
/// One has no rate or no latency, or the device under test counted fewer packets than were sent.
pub fn measured(json: &str) -> Result<usize> {
    let report: Value = serde_json::from_str(json).context(|| "the report is no JSON")?;
    let all = report["performance"].as_array().ok_or_else(|| Error::new("no performance"))?;
    for one in all {
        let positive = |name: &str| one[name].as_f64().is_some_and(|value| value > 0.0);
        let names = ["messages_per_second", "goodput_bits_per_second", "p50_seconds", "received"];
        let counters = one["counters"].as_array().map_or(&[][..], Vec::as_slice);
        let received = counters.iter().find(|counter| counter["name"] == "hw_counters/rcvd_pkts");
        let number = |name: &str| received.and_then(|counter| counter[name].as_u64()).unwrap_or(0);
        let counted = number("after").saturating_sub(number("before"));
        let sent = one["sent"].as_u64().unwrap_or(u64::MAX);
        let again = one["sent_again"].as_u64().unwrap_or(0);
        if !names.into_iter().all(positive) || counted < sent.saturating_sub(again) {
            return Err(Error::new(format!("this cannot be: {one}")));
        }
    }
    Ok(all.len())
}

/// Reads the captures of a run with `uroce analyze`; how many there are.
///
/// # Errors
/// One of them is damaged, or has a frame that is none of RoCE.
pub fn captures(program: &Path, folder: &Path) -> Result<usize> {
    let listed = std::fs::read_dir(folder).context(|| "could not list the captures")?;
    let files: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for file in &files {
        let mut analyze = command([program.as_os_str(), "analyze".as_ref(), file.as_os_str()]);
        let report: Value = serde_json::from_str(&stdout_of(analyze.arg("--json"))?)
            .context(|| format!("no report about {}", file.display()))?;
        let capture = &report["capture"];
        let complains = !capture["error"].is_null() || capture["other_frames"] != 0;
        if complains || capture["frames"].as_u64().is_none_or(|frames| frames == 0) {
            return Err(Error::new(format!("{}: {capture}", file.display())));
        }
    }
    match files.len() {
        0 => Err(Error::new("no captures")),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uroce_conform::{Card, CaseReport, Format, Report, Verdict, cases, render};

    use super::*;

    fn report() -> Report {
        let card = Card::new("<nic> | \"x\" & y", [192, 0, 2, 1].into());
        let awkward = "expected <ACK>, got | \"nothing\" &\n\tno \u{1} more".to_owned();
        let verdicts = [
            Verdict::Pass,
            Verdict::Fail(awkward.replace('\u{1}', "")),
            Verdict::Tolerated("silent & <quiet>".to_owned()),
            Verdict::NotApplicable("no \"atomics\"".to_owned()),
            Verdict::Inconclusive("the agent refused: a | b".to_owned()),
            Verdict::Pass,
        ];
        let case = |(case, verdict)| CaseReport {
            case,
            verdict,
            recorded: vec!["timer code 12".to_owned()],
            transcript: Vec::new(),
            figures: None,
            time: Duration::from_millis(12),
        };
        let cases = cases::all().zip(verdicts).map(case).collect();
        Report { card, cases, lost: None, without: Some("no \"frames\" | at all".to_owned()) }
    }

    fn forms(report: &Report) -> [String; 4] {
        [Format::Json, Format::Text, Format::Markdown, Format::Junit]
            .map(|form| render(report, form))
    }

    #[test]
    fn all_forms_say_the_same_about_awkward_reasons() {
        let [json, text, markdown, junit] = forms(&report());
        assert_eq!(agree(&json, &text, &markdown, &junit).expect("the same"), 6);
    }

    #[test]
    fn a_form_that_says_something_else_is_noticed() {
        let [json, text, markdown, junit] = forms(&report());
        let differ = |from: &str, to: &str, form: &str| form.replacen(from, to, 1);
        assert!(agree(&json, &differ("fail ", "pass ", &text), &markdown, &junit).is_err());
        assert!(agree(&json, &text, &differ("silent", "loud", &markdown), &junit).is_err());
        assert!(agree(&json, &text, &markdown, &differ("atomics", "x", &junit)).is_err());
        let counts = "failures=\"1\"";
        let junit = junit.replace(counts, "failures=\"0\"");
        assert!(agree(&json, &text, &markdown, &junit).is_err());
    }

    #[test]
    fn a_run_that_ended_early_is_no_success_to_a_reader_of_junit() {
        let mut report = report();
        report.cases.truncate(1);
        report.lost = Some("the agent is gone".to_owned());
        let rows = from_junit(&render(&report, Format::Junit)).expect("XML");
        let words: Vec<&str> = rows.iter().map(|row| row.verdict.as_str()).collect();
        assert_eq!(words, ["pass", "inconclusive"]);
        assert_eq!(rows[1].reason, "the agent is gone");
    }
}
