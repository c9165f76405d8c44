use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::track::TrackerConfig;
use crate::{CaptureReader, Filter, TextStyle};

fn config() -> AnalysisConfig {
    AnalysisConfig { slowest_messages: 5, ..AnalysisConfig::default() }
}

/// The report about a capture of the repository, or about what can be read of other bytes.
fn report_of(bytes: &[u8], config: AnalysisConfig) -> Report {
    report_named("a.pcap", bytes, config)
}

fn report_named(name: &str, bytes: &[u8], config: AnalysisConfig) -> Report {
    analysis_of(bytes, config).finish(name)
}

/// The analysis of these bytes before it ends.
fn analysis_of(bytes: &[u8], config: AnalysisConfig) -> Analysis {
    let mut analysis = Analysis::new(config);
    match CaptureReader::new(bytes) {
        Ok(mut reader) => loop {
            match reader.next_frame() {
                Ok(Some(frame)) => drop(analysis.handle_frame(&frame, &mut |_| {})),
                Ok(None) => break,
                Err(error) => {
                    analysis.handle_error(error);
                    break;
                }
            }
        },
        Err(error) => analysis.handle_error(error),
    }
    analysis
}

fn capture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps").join(name);
    std::fs::read(path).expect("a capture of the repository")
}

fn report(name: &str) -> Report {
    report_of(&capture(name), config())
}

fn text(name: &str) -> String {
    report(name).to_text(TextStyle::default())
}

#[test]
fn losses_that_were_repaired_are_told_in_one_sentence() {
    let sentence = report("loss.pcap").verdict.sentence;
    assert!(sentence.starts_with("No queue pair failed."), "{sentence}");
    assert!(sentence.contains("lost") && sentence.contains("of 250 requests sent again"));
}

#[test]
fn a_clean_capture_has_no_fault() {
    let report = report("rc-send-ipv6.pcap");
    assert!(report.verdict.severity <= Grade::Note, "{:?}", report.verdict);
    assert!(report.verdict.sentence.starts_with("No fault found. 10 messages in 1 conversation"));
    assert!(text("rc-send-ipv6.pcap").contains("every ICRC is right"));
}

#[test]
fn the_figures_of_a_capture_add_up() {
    for name in ["fetch-add", "loss", "rc-send-ipv6", "rc-send", "ud-send", "write-lat"] {
        let report = report(&format!("{name}.pcap"));
        let flows = || report.conversations.iter().flat_map(|row| &row.flows);
        let packets: u64 = flows().map(|flow| flow.figures.packets).sum();
        assert_eq!(packets, report.capture.packets(), "{name}");
        assert_eq!(report.capture.icrc.right, report.capture.frames, "{name}");
        assert_eq!(report.conversations.len(), 1, "{name}");
        assert!(flows().all(|flow| flow.source.qpn.is_some()), "{name}");
    }
}

#[test]
fn datagrams_have_no_round_trips() {
    let report = report("ud-send.pcap");
    assert_eq!(report.conversations[0].service, "UD");
    assert!(report.conversations[0].flows.iter().all(|flow| flow.round_trip_ns.is_none()));
}

#[test]
fn every_finding_says_where_to_look() {
    for finding in report("loss.pcap").findings {
        assert!(!finding.text.is_empty() && finding.count > 0, "{finding:?}");
        assert!(finding.look.starts_with("uroce ladder a.pcap --qp 0x"), "{}", finding.look);
    }
}

#[test]
fn standard_input_cannot_be_looked_at_again() {
    let report = report_named("-", &capture("loss.pcap"), config());
    assert!(!report.findings.is_empty() && !report.slowest_messages.is_empty());
    assert!(report.findings.iter().all(|finding| finding.look.is_empty()));
    assert!(report.slowest_messages.iter().all(|message| message.look.is_empty()));
}

#[test]
fn slow_messages_come_in_order_with_their_frames() {
    let slowest = report("loss.pcap").slowest_messages;
    assert_eq!(slowest.len(), 5);
    assert!(slowest.is_sorted_by(|one, two| one.duration_ns >= two.duration_ns));
    assert!(slowest[0].duration_ns > 60_000_000 && slowest[0].retransmitted > 0);
    assert!(slowest.iter().all(|row| row.first_frame <= row.completed_frame));
}

#[test]
fn a_filter_leaves_out_other_conversations() {
    let bytes = capture("loss.pcap");
    let with = |filter| report_of(&bytes, AnalysisConfig { filter, ..config() });
    let wrong = Filter::default().with_host([192, 0, 2, 1].into());
    assert!(with(wrong).conversations.is_empty());
    let errors = Filter::default().with_only_errors();
    assert_eq!(with(errors).conversations.len(), 1);
}

#[test]
fn an_empty_capture_says_why_there_may_be_nothing() {
    let mut file = capture("rc-send.pcap");
    file.truncate(24);
    let report = report_of(&file, config());
    assert_eq!(report.verdict.severity, Grade::Warning);
    assert!(report.verdict.sentence.contains("capture on the RDMA device"));
    assert!(report.to_text(TextStyle::default()).contains("0 frames"));
}

#[test]
fn what_stands_before_the_damage_is_told() {
    let mut file = capture("rc-send.pcap");
    let end = file.len() - 7;
    file.truncate(end);
    let report = report_of(&file, config());
    assert_eq!(report.capture.frames, 39);
    assert!(report.capture.error.is_some());
    assert!(report.to_text(TextStyle::default()).contains("The capture ends early"));
}

#[test]
fn packets_of_more_flows_than_are_followed_are_no_clean_bill() {
    let of = |max_flows| {
        let tracker = TrackerConfig { max_flows, ..TrackerConfig::default() };
        report_of(&capture("rc-send.pcap"), AnalysisConfig { tracker, ..config() })
    };
    let (whole, part) = (of(2), of(1));
    assert_eq!(whole.capture.untracked_packets, 0);
    assert!(whole.verdict.sentence.starts_with("No fault found."), "{:?}", whole.verdict);
    assert_eq!(part.capture.untracked_packets, 20);
    assert_eq!(part.verdict.severity, Grade::Warning);
    let sentence = &part.verdict.sentence;
    assert!(sentence.starts_with("No fault found in what was analysed."), "{sentence}");
    assert!(sentence.contains("Not analysed: 20 packets of more flows"), "{sentence}");
    let line = "20 packets of more flows than are followed, not analysed";
    assert!(part.to_text(TextStyle::default()).contains(line));
    assert!(!whole.to_text(TextStyle::default()).contains("not analysed"));
}

#[test]
fn packets_that_were_not_captured_are_no_clean_bill() {
    let mut analysis = analysis_of(&capture("rc-send.pcap"), config());
    analysis.handle_not_captured(12);
    let report = analysis.finish("rc-send.pcap");
    assert_eq!((report.capture.frames, &report.capture.error), (40, &None));
    assert_eq!(report.verdict.severity, Grade::Warning);
    let sentence = &report.verdict.sentence;
    assert!(sentence.starts_with("No fault found in what was analysed."), "{sentence}");
    assert!(sentence.contains("Not captured: 12 packets"), "{sentence}");
    let line = "12 packets not captured, as the capture itself says";
    assert!(report.to_text(TextStyle::default()).contains(line));
}

#[test]
fn the_names_in_json_are_stable() {
    let json = serde_json::to_value(report("loss.pcap")).expect("plain data");
    let has = |value: &Value, names: &[&str]| {
        for name in names {
            assert!(value.get(name).is_some(), "{name} in {value}");
        }
    };
    has(&json, &["version", "source", "verdict", "capture", "conversations", "findings"]);
    has(&json["verdict"], &["severity", "sentence"]);
    has(&json["capture"], &["frames", "first_ns", "icrc", "lost_by_capture", "error"]);
    has(&json["capture"], &["untracked_packets", "not_captured"]);
    has(&json["conversations"][0], &["service", "paired_by", "path_mtu", "state", "failure"]);
    let flow = &json["conversations"][0]["flows"][0];
    has(flow, &["data_frames_tx", "tx_bytes", "message_tx", "message_complete_rx", "nak_tx"]);
    has(flow, &["data_frames_retransmitted", "ecn_ce_rx", "cnp_tx", "goodput_bps", "sent_again"]);
    has(&flow["round_trip_ns"], &["p50", "p99", "max"]);
    has(&flow["verbs"][0], &["verb", "messages", "bytes", "time_ns"]);
    has(&json["findings"][0], &["rule", "id", "severity", "frames", "look", "advice"]);
    has(&json["slowest_messages"][0], &["verb", "duration_ns", "first_psn", "look"]);
}

#[test]
fn details_name_each_verb() {
    let details = report("fetch-add.pcap").details(TextStyle::default());
    assert!(details.contains("FETCH ADD") && details.contains("paired by"), "{details}");
}

#[test]
fn colour_only_if_asked_for() {
    let report = report("loss.pcap");
    assert!(!report.to_text(TextStyle::default()).contains('\x1b'));
    let painted = report.to_text(TextStyle { has_colour: true, ..TextStyle::default() });
    assert!(painted.starts_with("\x1b[1m"));
}

#[test]
fn the_page_has_as_many_slow_messages_as_were_asked_for() {
    let of = |slowest_messages| {
        let config = AnalysisConfig { slowest_messages, ..AnalysisConfig::default() };
        let report = report_of(&capture("loss.pcap"), config);
        let page = report.to_text(TextStyle::default());
        assert_eq!(page.matches("  SEND of ").count(), report.slowest_messages.len());
        report.slowest_messages.len()
    };
    assert_eq!([2, 12, 20, 99].map(of), [2, 12, 20, 23]);
}

#[test]
fn a_hostile_name_does_no_harm() {
    let mut report = report("loss.pcap");
    report.source = "x\x1b[2Jy".to_owned();
    assert!(!report.to_text(TextStyle::default()).contains('\x1b'));
}

/// The page about a capture with losses, as it stood when it was looked at; without findings, whose
/// wording is the judge's.
#[test]
fn the_page_of_a_capture_with_losses() {
    let mut report = report("loss.pcap");
    report.findings.clear();
    let page = report.to_text(TextStyle::default());
    let expected = include_str!("tests/loss.txt");
    if std::env::var_os("UROCE_UPDATE").is_some() && page != expected {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/tests/loss.txt");
        std::fs::write(path, &page).expect("the repository can be written");
        return;
    }
    assert_eq!(page, expected, "UROCE_UPDATE=1 takes it over");
}

#[test]
fn the_counters_of_both_ends_follow_from_what_was_lost() {
    let report = report("loss.pcap");
    let ends = report.counters();
    let of = |name: &str| ends.iter().map(|end| end.counters[name].as_u64()).collect::<Vec<_>>();
    for (name, values) in [
        ("packet_seq_err", [0, 5]),
        ("out_of_sequence", [5, 0]),
        ("local_ack_timeout_err", [2, 0]),
        ("completer_retry_err", [2, 5]),
        ("retransmitted_pkts", [10, 28]),
        ("rx_icrc_encapsulated", [0, 0]),
    ] {
        assert_eq!(of(name), values.map(Some), "{name}");
    }
    let text = report.counters_text(TextStyle::default());
    let expected = "
Counters of #1
                         10.77.0.1 0x192fa1  10.77.0.2 0x18
  packet_seq_err                          0               5
  local_ack_timeout_err                   2               0
  completer_retry_err                     2               5
  retransmitted_pkts                     10              28
  out_of_sequence                         5               0
";
    assert_eq!(text, expected);
}

#[test]
fn a_wrong_icrc_that_is_no_damage_counts_for_no_counter() {
    let mut report = report("loss.pcap");
    let figures = &mut report.conversations[0].flows[0].figures;
    (figures.icrc_errors, figures.damaged) = (5, 3);
    let ends = report.counters();
    let of_ends = ends.iter().map(|end| end.counters["rx_icrc_encapsulated"].as_u64());
    assert_eq!(of_ends.collect::<Vec<_>>(), [Some(0), Some(3)]);
}

#[test]
fn of_a_direction_that_was_not_captured_no_counter_is_known() {
    let mut report = report("loss.pcap");
    report.conversations[0].flows.truncate(1);
    let ends = report.counters();
    let of = |name: &str| ends.iter().map(|end| end.counters[name].as_u64()).collect::<Vec<_>>();
    assert_eq!(of("out_of_sequence"), [Some(5), None]);
    assert_eq!(of("packet_seq_err"), [None, Some(5)]);
    assert!(report.counters_text(TextStyle::default()).contains(" -"));
}

#[test]
fn the_page_of_the_documentation_has_every_counter() {
    let page = include_str!("../../../../docs/analyze.md");
    for Counter { name, also, derivation, .. } in &COUNTERS {
        let also = if also.is_empty() { String::new() } else { format!("`{also}`") };
        let row = format!("| `{name}` | {also} | {derivation} |");
        assert!(page.contains(&row), "docs/analyze.md lacks the row\n{row}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_capture_always_has_a_report(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)
    ) {
        let mut file = capture("write-lat.pcap");
        for (place, value) in places {
            let place = place.index(file.len());
            file[place] = value;
        }
        let report = report_of(&file, config());
        prop_assert!(!report.to_text(TextStyle::default()).is_empty());
        prop_assert!(serde_json::to_string(&report).is_ok());
    }
}
