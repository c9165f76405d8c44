//! Reports about captures that were made by hand, of which all is known.

use uroce_analyze::report::{Analysis, AnalysisConfig, Grade, Report};
use uroce_analyze::{Filter, TextStyle};
use uroce_wire::Qpn;

use crate::capture::{ethernet, ipv4};
use crate::talk::{ACCESS_NAK, ACK, LEFT, MTU, RIGHT, RNR, SEQUENCE_NAK, Talk};

fn report_with(talk: &Talk, config: AnalysisConfig) -> Report {
    let mut analysis = Analysis::new(config);
    talk.each(|frame| _ = analysis.handle_frame(frame, &mut |_| {}));
    analysis.finish("talk.pcap")
}

fn report(talk: &Talk) -> Report {
    report_with(talk, AnalysisConfig { slowest_messages: 3, ..AnalysisConfig::default() })
}

/// So many SENDs, each with its acknowledgement.
fn sends(count: u32) -> Talk {
    let mut talk = Talk::new();
    for psn in 0..count {
        talk.send(psn);
        talk.answer(psn, ACK);
    }
    talk
}

#[test]
fn what_went_well_is_told_in_one_sentence_with_its_numbers() {
    let report = report(&sends(5));
    assert!(report.verdict.severity <= Grade::Note, "{:?}", report.findings);
    let sentence = &report.verdict.sentence;
    assert!(sentence.starts_with("No fault found. 5 messages in 1 conversation"), "{sentence}");
    assert!(sentence.ends_with("nothing was sent again."), "{sentence}");
    let [row] = &report.conversations[..] else { panic!("one conversation") };
    assert_eq!((row.number, row.service, row.failure.as_deref()), (1, "RC", None));
    let ends = [&row.flows[0].source, &row.flows[0].destination];
    assert_eq!(ends.map(|end| end.qpn), [Some(LEFT), Some(RIGHT)]);
    assert_eq!(ends.map(|end| end.address.to_string()), ["10.0.0.1", "10.0.0.2"]);
    let figures = &row.flows[0].figures;
    assert_eq!((figures.packets, figures.requests, figures.payload_bytes), (5, 5, 320));
    assert_eq!((row.flows[1].figures.acks, row.flows[1].figures.packets), (5, 5));
    assert_eq!((report.capture.frames, report.capture.icrc.right), (10, 10));
    let round_trip = row.flows[0].round_trip_ns.as_ref().expect("five of them");
    assert_eq!((round_trip.p50, round_trip.max), (10_000, 10_000));
}

#[test]
fn a_packet_that_was_lost_and_repaired_is_told_with_its_share() {
    let mut talk = sends(1);
    [1, 2, 4].into_iter().for_each(|psn| talk.send(psn));
    talk.answer(3, SEQUENCE_NAK);
    [3, 4].into_iter().for_each(|psn| talk.send(psn));
    talk.answer(4, ACK);
    let report = report(&talk);
    let sentence = &report.verdict.sentence;
    assert!(sentence.contains("1 packet lost, 2 of 6 requests sent again (33.3 %)"), "{sentence}");
    let flow = &report.conversations[0].flows[0];
    assert_eq!((flow.figures.lost_before, flow.figures.lost_behind), (1, 0));
    assert_eq!(flow.data_frames_retransmitted, 2);
    assert_eq!(flow.sent_again.iter().map(|again| again.counted.packets).sum::<u64>(), 2);
    assert_eq!(report.conversations[0].flows[1].figures.nak_total, 1);
    let text = report.to_text(TextStyle::default());
    assert!(text.contains("\nSent again\n"), "{text}");
}

/// The left end refuses a request, and then repeats one of its own until it falls silent.
#[test]
fn a_nak_that_ended_a_conversation_is_the_reason_and_not_the_silence_behind_it() {
    let mut talk = sends(2);
    talk.packet(false, 0x04, 500, true, &[7; 64]);
    talk.packet(true, 0x11, 500, false, &[ACCESS_NAK, 0, 0, 1]);
    for _ in 0..4 {
        talk.wait(100_000_000);
        talk.send(2);
    }
    talk.wait(2_000_000_000);
    talk.net = 1;
    talk.send(0);
    let report = report(&talk);
    let names: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    assert!(names.contains(&"retries-exceeded") && names.contains(&"fatal-nak"), "{names:?}");
    let failure = report.conversations[0].failure.as_deref().expect("a reason");
    assert!(failure.contains("refuses PSN 0x1f4"), "{failure}");
}

#[test]
fn frames_that_no_packet_can_be_read_from_are_in_the_verdict() {
    let mut talk = sends(5);
    let mut fragment = talk.frames[0].1.clone();
    // "More fragments": the first piece of an IP packet.
    fragment[14 + 6] = 0x20;
    talk.raw(fragment);
    let report = report(&talk);
    assert_eq!((report.capture.malformed_frames, report.verdict.severity), (1, Grade::Warning));
    let sentence = &report.verdict.sentence;
    assert!(sentence.starts_with("No fault found in what was analysed. 5 messages"), "{sentence}");
    assert!(
        sentence.contains("Not readable: 1 malformed frame (frame 11: an IP fragment"),
        "{sentence}"
    );
}

#[test]
fn what_an_unreliable_flow_lost_is_told_and_not_blamed_on_the_capture() {
    let mut talk = Talk::new();
    let psns = (0..200).filter(|psn| ![5, 6, 90].contains(psn));
    psns.for_each(|psn| talk.packet(true, 0x24, psn, false, &[7; 64]));
    let report = report(&talk);
    assert_eq!(report.verdict.severity, Grade::Warning);
    let sentence = &report.verdict.sentence;
    assert!(sentence.starts_with("No queue pair failed."), "{sentence}");
    assert!(sentence.contains("3 UC packets lost for good"), "{sentence}");
    assert_eq!(report.capture.lost_by_capture, 0);
    assert_eq!(report.findings.len(), 0, "{:?}", report.findings);
    let text = report.to_text(TextStyle::default());
    assert!(text.contains("nothing; 3 packets lost for good"), "{text}");
}

#[test]
fn the_goodput_of_reads_is_what_came_back() {
    let mut talk = Talk::new();
    talk.read(0, 4);
    let report = report(&talk);
    // 4096 bytes in the 40 us from the request to the last response.
    let text = report.to_text(TextStyle::default());
    assert!(text.contains("819 Mb/s"), "{text}");
    let flows = &report.conversations[0].flows;
    let bytes = [0, 1].map(|at: usize| flows[at].figures.response_goodput_bytes);
    assert_eq!(bytes, [0, 4096]);
}

#[test]
fn a_queue_pair_that_was_refused_failed_and_the_reason_is_in_full() {
    let mut talk = sends(2);
    talk.write(2, 1);
    talk.answer(2, ACCESS_NAK);
    let report = report(&talk);
    assert_eq!(report.verdict.severity, Grade::Error);
    assert!(report.verdict.sentence.starts_with("1 conversation failed"), "{:?}", report.verdict);
    let row = &report.conversations[0];
    assert_eq!(row.state, "failed");
    let failure = row.failure.as_deref().expect("a reason");
    let text = report.to_text(TextStyle::default());
    assert!(text.contains("Why queue pairs failed") && text.contains("#1: "), "{text}");
    assert!(!failure.is_empty() && row.flows[1].figures.nak_total == 1);
}

#[test]
fn verbs_have_their_messages_bytes_and_times() {
    let mut talk = sends(1);
    talk.write(1, 4);
    talk.answer(4, ACK);
    talk.read(5, 3);
    talk.send(8);
    talk.answer(8, ACK);
    let report = report(&talk);
    let flow = &report.conversations[0].flows[0];
    let verbs: Vec<_> = flow.verbs.iter().map(|row| (row.verb, row.messages, row.bytes)).collect();
    let full = MTU as u64;
    assert_eq!(verbs, [("SEND", 2, 128), ("WRITE", 1, 4 * full), ("READ", 1, 3 * full)]);
    assert_eq!(report.conversations[0].path_mtu, Some(MTU as u32));
    let details = report.details(TextStyle::default());
    for verb in ["SEND", "WRITE", "READ"] {
        assert!(details.contains(verb), "{details}");
    }
}

#[test]
fn the_slowest_messages_come_first_and_no_more_than_asked_for() {
    let mut talk = Talk::new();
    for (psn, wait) in (0..).zip([0, 5_000_000, 1_000_000, 9_000_000, 2_000_000]) {
        talk.send(psn);
        talk.wait(wait);
        talk.answer(psn, ACK);
    }
    let slowest = report(&talk).slowest_messages;
    let times: Vec<_> = slowest.iter().map(|row| row.duration_ns).collect();
    assert_eq!(times, [9_010_000, 5_010_000, 2_010_000]);
    assert_eq!(slowest.iter().map(|row| row.first_frame).collect::<Vec<_>>(), [7, 3, 9]);
    let none = report_with(&talk, AnalysisConfig::default());
    assert!(none.slowest_messages.is_empty());
}

#[test]
fn a_receiver_that_was_not_ready_is_counted_and_waited_for() {
    let mut talk = sends(1);
    talk.send(1);
    talk.answer(1, RNR);
    talk.wait(1_000_000);
    talk.send(1);
    talk.answer(1, ACK);
    let report = report(&talk);
    let row = &report.conversations[0];
    assert_eq!((row.flows[1].figures.rnr_naks, row.flows[1].figures.nak_total), (1, 0));
    assert_eq!(row.flows[0].data_frames_retransmitted, 1);
    assert!(report.to_text(TextStyle::default()).contains("RNR"));
}

#[test]
fn damage_is_counted_and_changes_nothing_else() {
    let mut talk = sends(4);
    let mut damaged = talk.frames[4].1.clone();
    damaged[60] ^= 1;
    talk.raw(damaged);
    let (whole, with_damage) = (report(&sends(4)), report(&talk));
    assert_eq!((with_damage.capture.icrc.right, with_damage.capture.icrc.wrong), (8, 1));
    let figures = &with_damage.conversations[0].flows[0].figures;
    assert_eq!((figures.damaged, figures.messages_completed), (1, 4));
    assert_eq!(whole.conversations[0].flows[0].figures.damaged, 0);
}

#[test]
fn a_capture_without_packets_says_what_there_is_instead() {
    let sentence = |frame: Vec<u8>| {
        let mut talk = Talk::new();
        talk.raw(frame);
        report(&talk).verdict.sentence
    };
    let mut fragment = ethernet(0x0800, None, &ipv4(1, &[0x11; 20]));
    fragment[20] |= 0x20;
    assert!(sentence(fragment).contains("every frame to its port is malformed"));
    let mut iwarp = vec![0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    iwarp.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
    iwarp.extend(b"MPA ID Req Frame\x40\x01\0\0");
    assert!(sentence(ethernet(0x0800, None, &iwarp)).contains("iWARP, RDMA over TCP"));
    assert!(sentence(ethernet(0x0806, None, &[0; 40])).contains("capture on the RDMA device"));
}

#[test]
fn more_conversations_than_a_page_shows_are_counted() {
    let mut talk = Talk::new();
    for net in 0..23 {
        talk.net = net;
        talk.send(0);
        talk.answer(0, ACK);
    }
    let report = report(&talk);
    assert_eq!(report.conversations.len(), 23);
    let numbers: Vec<_> = report.conversations.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=23).collect::<Vec<_>>());
    let text = report.to_text(TextStyle::default());
    assert!(text.contains("and 3 more: choose with --qp or --host"), "{text}");
    assert!(report.verdict.sentence.contains("23 messages in 23 conversations"));
}

#[test]
fn a_filter_chooses_conversations_by_any_of_their_packets() {
    let mut talk = Talk::new();
    for net in 0..3 {
        talk.net = net;
        talk.send(0);
        talk.answer(0, ACK);
    }
    let rows = |filter| {
        report_with(&talk, AnalysisConfig { filter, ..AnalysisConfig::default() })
            .conversations
            .len()
    };
    assert_eq!(rows(Filter::default()), 3);
    assert_eq!(rows(Filter::default().with_host([10, 0, 1, 2].into())), 1);
    assert_eq!(rows(Filter::default().with_qpn(Qpn::new(LEFT))), 3);
    assert_eq!(rows(Filter::default().with_qpn(Qpn::new(0x99))), 0);
    assert_eq!(rows(Filter::default().with_opcode("write".parse().expect("a word"))), 0);
    assert_eq!(rows(Filter::default().with_frames("3".parse().expect("a range"))), 1);
}

#[test]
fn a_page_is_as_wide_as_it_may_be_and_painted_only_if_asked() {
    let mut talk = sends(2);
    talk.write(2, 1);
    talk.answer(2, ACCESS_NAK);
    let report = report(&talk);
    for width in [60, 80, 120] {
        let text = report.to_text(TextStyle { width, has_colour: false });
        let (_, reasons) = text.split_once("Why queue pairs failed").expect("the heading");
        let (reasons, _) = reasons.split_once("\n\n").unwrap_or((reasons, ""));
        assert!(reasons.lines().all(|line| line.chars().count() <= width), "{width}: {reasons}");
        assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.trim_end() == line));
    }
    let style = TextStyle { has_colour: true, ..TextStyle::default() };
    let painted = report.to_text(style);
    let mut plain = painted;
    for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, report.to_text(TextStyle { has_colour: false, ..style }));
}

#[test]
fn the_same_capture_gives_the_same_report() {
    let mut talk = sends(3);
    talk.read(3, 2);
    let text = |report: &Report| serde_json::to_string(report).expect("plain data");
    assert_eq!(text(&report(&talk)), text(&report(&talk)));
}
