//! What is missing, and who lost it.

use std::time::Duration;

use uroce_wire::{NakCode, Opcode};

use crate::track::testkit::{A, B, MTU, Wire};
use crate::track::{CapturePoint, FlowId, Missing, RetransmissionCause, TrackerConfig};

#[test]
fn a_gap_that_is_repaired_was_lost_before_the_capture_point() {
    let mut wire = Wire::new();
    wire.sends(A, B, 0..5);
    let behind = wire.send(A, B, 6);
    assert_eq!(behind.gap_before.map(|gap| (gap.first.on_wire().get(), gap.packets)), Some((5, 1)));
    wire.nak(B, A, 5, NakCode::PsnSequence);
    let repair = wire.send(A, B, 5).retransmission.expect("it fills the gap");
    assert_eq!((repair.cause, repair.first_seen), (RetransmissionCause::SequenceNak, None));
    wire.tracker.finish();
    let flow = wire.tracker.flow(FlowId(0)).unwrap();
    assert_eq!((flow.figures().lost_before, flow.figures().lost_behind), (1, 0));
    assert_eq!(flow.capture_point(), CapturePoint::Receiver);
}

#[test]
fn a_packet_that_comes_late_without_being_asked_for_is_reordered() {
    let mut wire = Wire::new();
    wire.sends(A, B, [0, 2, 3, 1, 4]);
    wire.ack(B, A, 4);
    wire.tracker.finish();
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.reordered, figures.reordering_depth, figures.retransmitted()), (1, 2, 0));
    assert_eq!((figures.lost_by_capture, figures.messages_completed), (0, 5));
}

#[test]
fn what_is_acknowledged_and_never_seen_was_lost_by_the_capture() {
    let mut wire = Wire::new();
    wire.sends(A, B, (0..4).chain(7..10));
    wire.ack(B, A, 9);
    assert_eq!(wire.figures(FlowId(0)).lost_by_capture, 0, "it may still come");
    wire.sends(A, B, 10..120);
    assert_eq!(wire.figures(FlowId(0)).lost_by_capture, 3);
    wire.tracker.finish();
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.lost_by_capture, figures.lost_unknown, figures.lost_before), (3, 0, 0));
}

/// UC acknowledges nothing: that later packets came says nothing of those before.
#[test]
fn what_an_unreliable_flow_skips_is_lost_nobody_knows_where() {
    let mut wire = Wire::new();
    for psn in (0..4).chain(7..10).chain(11..200) {
        wire.data(A, B, Opcode::UC_SEND_ONLY, psn, 100);
    }
    wire.data(A, B, Opcode::UC_SEND_ONLY, 10, 100);
    wire.tracker.finish();
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.lost_by_capture, figures.lost_unknown, figures.reordered), (0, 3, 1));
}

#[test]
fn an_answer_that_was_captured_before_its_request_is_no_contradiction() {
    let mut wire = Wire::new();
    wire.send(A, B, 0);
    wire.ack(B, A, 0);
    let early = wire.ack(B, A, 2);
    assert!(!early.is_unsolicited);
    wire.send(A, B, 1);
    wire.send(A, B, 2);
    wire.tracker.finish();
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.messages_completed, figures.lost_by_capture, figures.skipped), (3, 0, 0));
    assert_eq!(wire.tracker.flow(FlowId(0)).unwrap().requests.outstanding().bytes, 0);
}

#[test]
fn psns_go_on_over_the_wrap() {
    let mut wire = Wire::new();
    let first = wire.write(A, B, 0xff_fffd, 8, |_| true);
    assert!(first.iter().all(|packet| packet.gap_before.is_none()));
    assert_eq!(first[7].psn.since(first[0].psn), 7);
    let ack = wire.ack(B, A, 4);
    assert_eq!(ack.acknowledges.map(|settled| (settled.packets, settled.bytes)), Some((8, 8192)));
    let message = wire.messages().pop().unwrap();
    assert_eq!((message.packets, message.is_incomplete), (8, false));
}

#[test]
fn a_jump_far_away_is_a_new_life_of_the_queue_pair() {
    let mut wire = Wire::new();
    let old = wire.send(A, B, 10);
    let new = wire.send(A, B, 0x80_0000);
    assert!(new.gap_before.is_none() && new.psn > old.psn);
    assert_eq!(wire.figures(FlowId(0)).restarts, 1);
}

#[test]
fn an_rtt_is_measured_only_where_nothing_was_repeated() {
    let mut wire = Wire::new();
    wire.send(A, B, 0);
    assert_eq!(wire.ack(B, A, 0).round_trip, Some(Duration::from_micros(10)));
    wire.send(A, B, 1);
    wire.wait(Duration::from_millis(1));
    wire.send(A, B, 1);
    assert_eq!(wire.ack(B, A, 1).round_trip, None);
}

#[test]
fn flows_and_messages_beyond_the_limits_are_counted() {
    let config = TrackerConfig { max_flows: 1, max_open_messages: 2, ..TrackerConfig::default() };
    let mut wire = Wire::with(config);
    wire.sends(A, B, 0..5);
    let other = wire.send(B, A, 7);
    assert_eq!((other.flow, wire.tracker.flow(other.flow).is_none()), (FlowId::UNTRACKED, true));
    let summary = wire.tracker.finish();
    assert_eq!((summary.untracked_packets, summary.crowded_messages), (1, 3));
    assert_eq!(wire.figures(FlowId(0)).messages, 5);
}

/// READs move the next PSN by all that they ask for.
#[test]
fn going_back_over_a_long_read_is_no_new_life() {
    const PSNS: u32 = 80_000;
    let begin = || {
        let mut wire = Wire::new();
        wire.send(A, B, 9);
        wire.ack(B, A, 9);
        wire.read(A, B, 10, PSNS * MTU);
        wire
    };
    let again = |mut wire: Wire, psn| {
        wire.wait(Duration::from_millis(100));
        let is_again = wire.read(A, B, psn, PSNS * MTU).retransmission.is_some();
        (is_again, wire.figures(FlowId(0)).restarts)
    };
    assert_eq!(again(begin(), 10), (true, 0));
    let mut answered = begin();
    answered.send(A, B, 10 + PSNS);
    answered.ack(B, A, 10 + PSNS);
    assert_eq!(again(answered, 10), (true, 0), "what was acknowledged behind it changes nothing");
    assert_eq!(again(begin(), 0xf0_0000), (false, 1), "but what was never sent does");
}

#[test]
fn what_follows_a_long_read_is_no_new_life_while_the_path_mtu_is_not_known() {
    const PSNS: u32 = 80_000;
    let mut wire = Wire::with(TrackerConfig::default());
    wire.read(A, B, 10, PSNS * MTU);
    assert!(wire.send(A, B, 10 + PSNS).gap_before.is_none());
    assert_eq!(wire.figures(FlowId(0)).restarts, 0);
    assert_eq!(wire.tracker.flow(FlowId(0)).unwrap().path_mtu(), Some(MTU));
    let mut short = Wire::with(TrackerConfig::default());
    short.read(A, B, 10, 1000 * MTU);
    short.send(A, B, 10 + PSNS);
    assert_eq!(short.figures(FlowId(0)).restarts, 1, "so long it cannot be");
}

/// Long SENDs and WRITEs, of which only the end asks for an ACK.
#[test]
fn going_back_over_many_packets_that_are_not_acknowledged_is_no_new_life() {
    const PSNS: u32 = 70_000;
    let begin = || {
        let mut wire = Wire::new();
        wire.send(A, B, 9);
        wire.ack(B, A, 9);
        wire.sends(A, B, 10..10 + PSNS);
        wire
    };
    let again = |mut wire: Wire, psn| {
        wire.wait(Duration::from_millis(100));
        let is_again = wire.send(A, B, psn).retransmission.is_some();
        (is_again, wire.figures(FlowId(0)).restarts)
    };
    assert_eq!(again(begin(), 10), (true, 0));
    assert_eq!(again(begin(), 500), (true, 0), "the first ones may be lost before the capture");
    assert_eq!(again(begin(), 0xf0_0000), (false, 1), "what was never sent");
    let mut answered = begin();
    answered.ack(B, A, 9 + PSNS);
    assert_eq!(again(answered, 500), (false, 1), "what is acknowledged is over");
}

/// Without any answer in the capture all that was ever sent is not acknowledged.
#[test]
fn a_jump_back_without_any_answer_is_a_new_life() {
    let mut wire = Wire::new();
    wire.sends(A, B, 10..70_010);
    assert!(wire.send(A, B, 500).retransmission.is_none());
    assert_eq!(wire.figures(FlowId(0)).restarts, 1);
}

/// The responder kept nothing of what it saw behind the first gap: it misses the copy that the round lacks.
#[test]
fn what_a_round_of_repetition_skips_was_lost_before_the_capture_point() {
    for new in [0..0, 119..122] {
        let mut wire = Wire::new();
        wire.sends(A, B, (110..114).chain(115..119));
        wire.nak(B, A, 114, NakCode::PsnSequence);
        wire.sends(A, B, [114, 116, 117, 118]);
        wire.sends(A, B, new);
        wire.nak(B, A, 115, NakCode::PsnSequence);
        wire.sends(A, B, 115..119);
        wire.ack(B, A, 118);
        let figures = wire.figures(FlowId(0));
        assert_eq!((figures.lost_before, figures.lost_behind), (2, 0));
    }
}

#[test]
fn what_a_selective_repair_leaves_out_was_lost_when_it_was_sent_first() {
    let mut wire = Wire::new();
    wire.sends(A, B, 100..120);
    wire.nak(B, A, 112, NakCode::PsnSequence);
    wire.send(A, B, 112);
    // A probe of the end.
    wire.send(A, B, 119);
    wire.nak(B, A, 114, NakCode::PsnSequence);
    wire.send(A, B, 114);
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.lost_before, figures.lost_behind), (0, 2));
}

#[test]
fn a_nak_names_the_newest_copy_of_what_it_misses() {
    let mut wire = Wire::new();
    let nak = |wire: &mut Wire| wire.nak(B, A, 101, NakCode::PsnSequence).missing;
    wire.sends(A, B, 100..104);
    assert_eq!(nak(&mut wire), Some(Missing::Copy { frame: 2 }));
    assert_eq!(nak(&mut wire), None, "it has said so");
    wire.sends(A, B, 101..104);
    assert_eq!(nak(&mut wire), Some(Missing::Copy { frame: 7 }), "what it asked for was lost, too");
    wire.ack(B, A, 103);
    assert_eq!(nak(&mut wire), None, "it is old");
    let unsent = wire.nak(B, A, 104, NakCode::PsnSequence);
    assert_eq!(unsent.missing, None, "what it misses may be captured behind it");
}

#[test]
fn a_nak_for_a_copy_that_was_not_captured_says_so() {
    let mut wire = Wire::new();
    let nak = |wire: &mut Wire, psn| wire.nak(B, A, psn, NakCode::PsnSequence).missing;
    wire.sends(A, B, [100, 101, 102, 104, 105, 106]);
    assert_eq!(nak(&mut wire, 103), Some(Missing::NotCaptured));
    wire.sends(A, B, [103, 105, 106]);
    assert_eq!(nak(&mut wire, 104), Some(Missing::CopyNotCaptured));
}

/// Holes beyond those that are remembered were not captured all the same; what the tracker has forgotten may have been.
#[test]
fn a_nak_for_what_is_not_remembered_says_nothing_of_the_capture() {
    let mut wire = Wire::new();
    wire.sends(A, B, (0..1000).map(|index| 100 + 2 * index));
    let missing = |wire: &mut Wire, psn| wire.nak(B, A, psn, NakCode::PsnSequence).missing;
    assert_eq!(missing(&mut wire, 2001), Some(Missing::NotCaptured));
    let mut wire = Wire::new();
    wire.sends(A, B, 100..100_000);
    assert_eq!(missing(&mut wire, 100), None);
}

#[test]
fn a_copy_of_a_nak_that_was_heeded_tells_of_no_other_loss() {
    let lost = |is_seen: bool, behind: u32| {
        let mut wire = Wire::new();
        wire.sends(A, B, (100..110).filter(|psn| is_seen || *psn != 105));
        wire.nak(B, A, 105, NakCode::PsnSequence);
        wire.sends(A, B, 105..105 + behind);
        let again = wire.nak(B, A, 105, NakCode::PsnSequence);
        assert_eq!(again.is_duplicate, behind == 1);
        wire.sends(A, B, 105 + behind..110);
        wire.ack(B, A, 109);
        assert_eq!(wire.figures(FlowId(0)).retransmitted(), 5);
        (wire.figures(FlowId(0)).lost_before, wire.figures(FlowId(0)).lost_behind)
    };
    assert_eq!([lost(false, 1), lost(true, 1)], [(1, 0), (0, 1)]);
    assert_eq!([lost(false, 2), lost(true, 2)], [(1, 1), (0, 2)], "now it may miss it again");
}
