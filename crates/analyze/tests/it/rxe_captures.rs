//! Two kernels with rxe, recorded at the tap of one of them: one connection without a fault, and one through 1 % of loss.

use std::path::{Path, PathBuf};

use uroce_analyze::judge::Severity;
use uroce_analyze::report::{Analysis, AnalysisConfig, Report};
use uroce_analyze::track::{RetransmissionCause, Role};
use uroce_analyze::{CaptureReader, IcrcStatus, TextStyle};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)
}

/// A packet as far as these tests ask.
struct Seen {
    role: Role,
    cause: Option<RetransmissionCause>,
    is_unsolicited: bool,
}

/// All packets, each of which must be whole, known and undamaged, and the report.
fn analysed(name: &str) -> (Vec<Seen>, Report) {
    let bytes = std::fs::read(file(name)).expect("a capture");
    let mut reader = CaptureReader::new(bytes.as_slice()).expect("a capture");
    let config = AnalysisConfig { slowest_messages: 3, ..AnalysisConfig::default() };
    let mut analysis = Analysis::new(config);
    let mut all = Vec::new();
    while let Some(frame) = reader.next_frame().expect("it is whole") {
        analysis.handle_frame(&frame, &mut |seen| {
            assert_eq!(seen.packet.icrc, IcrcStatus::Right, "{:?}", seen.packet);
            assert!(seen.packet.opcode_info.is_some() && !seen.packet.is_cut, "{:?}", seen.packet);
            let (role, is_unsolicited) = (seen.annotation.role, seen.annotation.is_unsolicited);
            let cause = seen.annotation.retransmission.map(|again| again.cause);
            all.push(Seen { role, cause, is_unsolicited });
        });
    }
    (all, analysis.finish(name))
}

/// The page without findings, whose wording is the judge's, as it stood when it was looked at.
fn page_must_be(mut report: Report, name: &str) {
    report.findings.clear();
    let page = report.to_text(TextStyle::default());
    let path = file(name);
    if std::env::var_os("UROCE_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("the repository can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, expected, "UROCE_UPDATE=1 takes it over");
}

/// Two kernels break no rule, whatever the network does: there may be notes, but no warning and no error.
fn must_have_no_complaint(report: &Report) {
    let bad = report.findings.iter().find(|finding| finding.severity > Severity::Note);
    assert_eq!(bad.map(|finding| (finding.rule, &finding.text)), None);
    assert!(report.conversations.iter().all(|row| row.failure.is_none()));
}

/// rping: connection management, SENDs, WRITEs and READs.
#[test]
fn a_call_between_two_kernels_is_without_fault() {
    let (packets, report) = analysed("rxe-call.pcapng.gz");
    must_have_no_complaint(&report);
    assert_eq!(report.conversations.iter().filter(|row| row.state == "closed").count(), 1);
    assert!(packets.iter().all(|seen| seen.cause.is_none() && !seen.is_unsolicited));
    page_must_be(report, "rxe-call.txt");
}

#[test]
fn every_repetition_of_two_kernels_has_a_cause() {
    let (packets, report) = analysed("rxe-loss.pcapng.gz");
    must_have_no_complaint(&report);
    let flows: Vec<_> = report.conversations.iter().flat_map(|row| &row.flows).collect();
    let count = |cause: RetransmissionCause| {
        let repeated = flows.iter().map(|flow| flow.figures.retransmissions[cause.index()]);
        repeated.map(|repeated| (repeated.packets, repeated.rounds)).collect::<Vec<_>>()
    };
    assert_eq!(count(RetransmissionCause::SequenceNak), [(21, 7), (19, 7)]);
    assert_eq!(count(RetransmissionCause::AckTimeout), [(40, 11), (58, 16)]);
    assert_eq!(count(RetransmissionCause::TailProbe), [(4, 4), (2, 2)]);
    for never in [RetransmissionCause::Unexplained, RetransmissionCause::RnrNak] {
        assert_eq!(count(never), [(0, 0), (0, 0)], "{never:?}");
    }
    // Each NAK is explained by what is missing: 7 packets that were lost behind the tap, 7 before it.
    let naks: Vec<_> = flows.iter().map(|flow| flow.figures.nak_total).collect();
    let lost = flows.iter().map(|flow| flow.figures.lost_before + flow.figures.lost_behind);
    assert_eq!((naks, lost.collect::<Vec<_>>()), (vec![7, 7], vec![7, 7]));
    let refused = packets.iter().filter(|seen| matches!(seen.role, Role::Nak(_))).count();
    assert_eq!(refused, 14);
    page_must_be(report, "rxe-loss.txt");
}
