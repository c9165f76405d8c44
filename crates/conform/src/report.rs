//! A run as text, JSON, Markdown or JUnit XML: the same facts in four forms.

mod json;
mod junit;
mod markdown;
mod performance;
mod text;

use crate::{CaseReport, Report};

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Text,
    /// One object.
    Json,
    /// A page with a table.
    Markdown,
    /// For CI systems.
    Junit,
}

/// Writes a report.
pub fn render(report: &Report, format: Format) -> String {
    match format {
        Format::Text => text::render(report),
        Format::Json => json::render(report),
        Format::Markdown => markdown::render(report),
        Format::Junit => junit::render(report),
    }
}

/// One case as [`Format::Text`] writes it; with what passed if `packets`.
pub fn render_case(done: &CaseReport, packets: bool) -> String {
    text::case(done, packets)
}

/// The section about performance as [`Format::Text`] has it; empty if nothing was measured.
pub fn render_performance(report: &Report) -> String {
    performance::text(report)
}

/// A reason as one line that does nothing to a terminal: it may quote what the agent said.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace(char::is_control, "?")
}

/// The words of verdicts, in the order of a summary.
const WORDS: [&str; 5] = ["pass", "tolerated", "fail", "not applicable", "inconclusive"];

/// `31 pass, 2 tolerated, 0 fail, ...`.
fn summary(report: &Report) -> String {
    let counts = WORDS.map(|word| format!("{} {word}", report.count(word)));
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fake::card;
    use crate::{Card, CaseReport, Change, Counted, Entry, Figures, Verdict, cases};

    fn report() -> Report {
        let card = Card {
            device: "<nic>".to_owned(),
            firmware: "1.0".to_owned(),
            vendor: (1, 2),
            system: "Linux".to_owned(),
            ..card()
        };
        let verdicts = [
            Verdict::Pass,
            Verdict::Fail("expected <ACK>, got | nothing".to_owned()),
            Verdict::Tolerated("silent".to_owned()),
        ];
        let case = |(case, verdict)| CaseReport {
            case,
            verdict,
            recorded: vec!["timer code 12".to_owned()],
            transcript: vec![Entry::Note { at: Duration::ZERO, text: "Clear".to_owned() }],
            figures: None,
            time: Duration::from_millis(12),
        };
        let cases = cases::all().zip(verdicts).map(case).collect();
        let without = Some("tested without <frames>".to_owned());
        Report { card, cases, lost: None, without }
    }

    fn measured(counters: Counted) -> Report {
        let mut report = report();
        let figures = Figures {
            operation: "WRITE",
            bytes: 32 << 10,
            window: 2,
            messages: 500,
            time: Duration::from_millis(500),
            median: Duration::from_nanos(41_250),
            p99: Duration::from_micros(97),
            sent: 16_032,
            received: 501,
            again: 7,
            counters,
        };
        report.cases[0].figures = Some(figures);
        report
    }

    #[test]
    fn what_was_measured_is_a_section_of_every_form() {
        let change = Change { name: "hw_counters/rcvd_pkts".to_owned(), before: 10, after: 16_042 };
        let report = measured(Counted::Changed(vec![change]));
        let figures = ["WRITE 32 KiB", "1000", "262.1 Mb/s", "41.2 us", "97.0 us", "16032", "501"];
        for (format, counter) in [
            (Format::Text, "hw_counters/rcvd_pkts                               +16032"),
            (Format::Markdown, "| hw_counters/rcvd_pkts | +16032 |"),
            (Format::Junit, "hw_counters/rcvd_pkts: 10 to 16042"),
        ] {
            let text = render(&report, format);
            for figure in figures.iter().chain([&counter]) {
                assert!(text.contains(figure), "{format:?} has no {figure}: {text}");
            }
        }
        let json: serde_json::Value =
            serde_json::from_str(&render(&report, Format::Json)).expect("JSON");
        let object = &json["performance"][0];
        assert_eq!(object["case"], json["cases"][0]["case"]);
        assert_eq!(object["messages_per_second"], 1000.0);
        assert_eq!((&object["sent"], &object["sent_again"]), (&16_032.into(), &7.into()));
        assert_eq!(object["counters"][0]["after"], 16_042);
    }

    #[test]
    fn a_peer_without_counters_is_told_of_and_harmless_to_a_terminal() {
        let report = measured(Counted::Missing("no\u{1b}[2J sysfs".to_owned()));
        for format in [Format::Text, Format::Markdown, Format::Junit] {
            let text = render(&report, format);
            assert!(text.contains("the peer has no counters: no?[2J sysfs"), "{format:?}: {text}");
        }
        assert!(render(&report, Format::Json).contains("no_counters"));
        assert!(!render(&self::report(), Format::Text).contains("performance"));
    }

    #[test]
    fn all_forms_say_the_same() {
        let report = report();
        for format in [Format::Text, Format::Json, Format::Markdown, Format::Junit] {
            let text = render(&report, format);
            for case in &report.cases {
                let name = case.case.id.rsplit('.').next().expect("a part");
                assert!(text.contains(name), "{format:?}: {text}");
            }
        }
        for (format, note) in [
            (Format::Text, "note: tested without <frames>"),
            (Format::Json, "\"without\": \"tested without <frames>\""),
            (Format::Markdown, "Note: tested without <frames>."),
            (Format::Junit, "value=\"tested without &lt;frames&gt;\""),
        ] {
            assert!(render(&report, format).contains(note), "{format:?}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&render(&report, Format::Json)).expect("JSON");
        assert_eq!(json["counts"]["fail"], 1);
        assert_eq!(json["cases"][1]["verdict"], "fail");
        let junit = render(&report, Format::Junit);
        assert!(junit.contains("tests=\"3\" failures=\"1\""), "{junit}");
        assert!(junit.contains("expected &lt;ACK&gt;"), "{junit}");
        let markdown = render(&report, Format::Markdown);
        assert!(markdown.contains("expected <ACK>, got \\| nothing"), "{markdown}");
        assert!(render(&report, Format::Text).contains("1 pass, 1 tolerated, 1 fail"));
    }
}
