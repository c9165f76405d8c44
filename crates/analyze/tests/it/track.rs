//! The tracker on real captures: what it tells is compared with what the devices wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use uroce_analyze::track::{FlowId, RetransmissionCause};
use uroce_analyze::{
    Annotation, CaptureReader, Dissector, DissectorConfig, Packet, Tracker, TrackerConfig,
};

/// A packet, what the tracker says of it, and the comment of its frame.
type Tracked = (Packet, Annotation, String);

/// Tracks a capture. Packets that were dropped on purpose are left out: their receiver never had them.
fn track(path: &str) -> (Tracker, Vec<Tracked>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let bytes = fs::read(&path).expect("the capture is there");
    let mut reader = CaptureReader::new(bytes.as_slice()).expect("a capture");
    let mut dissector = Dissector::new(DissectorConfig::default());
    let mut tracker = Tracker::new(TrackerConfig::default());
    let mut packets = Vec::new();
    while let Some(frame) = reader.next_frame().expect("it is whole") {
        if frame.comment.contains("dropped by") {
            continue;
        }
        dissector.dissect(&frame, &mut |packet, payload, _| {
            let annotation = tracker.handle_packet(packet, payload);
            packets.push((*packet, annotation, frame.comment.to_owned()));
        });
    }
    tracker.finish();
    (tracker, packets)
}

/// What the device wrote and what the tracker found, for everything that either calls a repetition.
fn causes(packets: &[Tracked]) -> BTreeMap<(String, &'static str), usize> {
    let mut causes = BTreeMap::new();
    for (packet, annotation, comment) in packets {
        let told = comment.strip_prefix("retransmission: ").unwrap_or_default();
        let sent_here = packet.source.ip().to_string() == "10.99.0.2";
        let found = annotation.retransmission.map_or("", |again| match again.cause {
            // Which of the two it is shows only behind the packet.
            RetransmissionCause::SelectiveRepair => RetransmissionCause::SequenceNak.name(),
            cause => cause.name(),
        });
        let told = told.trim_end_matches(", only what is missing").to_owned();
        if sent_here && (!told.is_empty() || !found.is_empty()) {
            *causes.entry((told, found)).or_insert(0) += 1;
        }
    }
    causes
}

fn counts(tracker: &Tracker, flow: u32) -> [u64; RetransmissionCause::ALL.len()] {
    let flow = tracker.flow(FlowId(flow)).expect("a flow");
    flow.figures().retransmissions.map(|repeated| repeated.packets)
}

#[test]
fn causes_are_those_that_the_device_wrote_into_the_capture() {
    for (name, naks, probes) in [("send", 3, 2), ("write", 10, 5)] {
        let (_, packets) = track(&format!("tests/captures/{name}-client.pcapng.gz"));
        let expected = BTreeMap::from([
            (("sequence NAK".to_owned(), "sequence NAK"), naks),
            (("tail probe".to_owned(), "tail probe"), probes),
        ]);
        assert_eq!(causes(&packets), expected, "{name}");
    }
}

#[test]
fn of_a_read_an_implied_nak_and_a_probe_look_alike_and_nothing_else_does() {
    let (tracker, packets) = track("tests/captures/read-client.pcapng.gz");
    for ((told, found), count) in causes(&packets) {
        let is_right = told == found || (told == "tail probe" && found == "implied NAK");
        assert!(is_right, "{count} packets: {told:?} was found to be {found:?}");
    }
    let figures = tracker.flow(FlowId(0)).unwrap().figures();
    assert_eq!((figures.messages_completed, figures.verbs[2].bytes), (40, 80_000));
}

#[test]
fn both_ends_of_a_connection_tell_the_same() {
    for (name, messages) in [("send", 60), ("write", 40)] {
        let (client, _) = track(&format!("tests/captures/{name}-client.pcapng.gz"));
        let (server, _) = track(&format!("tests/captures/{name}-server.pcapng.gz"));
        let figures = |tracker: &Tracker| {
            let figures = tracker.flow(FlowId(0)).unwrap().figures().clone();
            assert_eq!(figures.messages_completed, messages, "{name}");
            (figures.messages, figures.goodput_bytes, figures.retransmitted())
        };
        assert_eq!(figures(&client), figures(&server), "{name}");
        let at = |tracker: &Tracker, cause: RetransmissionCause| counts(tracker, 0)[cause.index()];
        let naks = |tracker: &Tracker| {
            at(tracker, RetransmissionCause::SequenceNak)
                + at(tracker, RetransmissionCause::SelectiveRepair)
        };
        assert_eq!(naks(&client), naks(&server), "{name}");
        let lost = |tracker: &Tracker| {
            let figures = tracker.flow(FlowId(0)).unwrap().figures();
            (figures.lost_before, figures.lost_behind, figures.lost_by_capture)
        };
        let (sent, arrived) = (lost(&client), lost(&server));
        assert_eq!((sent.0, sent.1, sent.2), (arrived.1, arrived.0, 0), "{name}");
    }
}

#[test]
fn the_losses_of_a_kernel_peer_are_explained() {
    let (tracker, packets) = track("../../pcaps/loss.pcap");
    let naks: u64 = tracker.flows().iter().map(|flow| flow.figures().nak_total).sum();
    assert_eq!(naks, 5);
    let seen_before = packets.iter().filter(|(_, annotation, _)| {
        annotation.retransmission.is_some_and(|again| again.first_seen.is_some())
    });
    let mut repeated: Vec<_> = seen_before.map(|(_, found, _)| (found.flow, found.psn)).collect();
    repeated.sort();
    repeated.dedup();
    // 34 repetitions; 4 more have a first transmission that was lost before the capture point.
    assert_eq!(repeated.len(), 31, "requests that were seen more than once");
    assert_eq!(counts(&tracker, 0), [0, 0, 0, 0, 10, 0, 0]);
    assert_eq!(counts(&tracker, 1), [28, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn all_golden_captures_pair_into_one_conversation_without_contradiction() {
    for name in ["fetch-add", "loss", "rc-send", "rc-send-ipv6", "ud-send", "write-lat"] {
        let (tracker, packets) = track(&format!("../../pcaps/{name}.pcap"));
        assert_eq!((tracker.flows().len(), tracker.conversations().len()), (2, 1), "{name}");
        let conversation = tracker.conversations()[0];
        assert!(conversation.is_certain() && conversation.contradicting == 0, "{name}");
        let unsolicited = packets.iter().filter(|(_, found, _)| found.is_unsolicited).count();
        assert_eq!((unsolicited, tracker.summary().untracked_packets), (0, 0), "{name}");
        for flow in tracker.flows() {
            let figures = flow.figures();
            assert_eq!(
                (figures.lost_by_capture, figures.lost_unknown, figures.restarts),
                (0, 0, 0)
            );
        }
    }
}
