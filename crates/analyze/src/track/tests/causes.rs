//! Why packets are sent again.

use std::time::Duration;

use uroce_wire::{NakCode, Opcode};

use crate::track::testkit::{A, B, Wire, read_opcode};
use crate::track::{Annotation, FlowId, RetransmissionCause};

fn cause(annotation: &Annotation) -> Option<RetransmissionCause> {
    annotation.retransmission.map(|again| again.cause)
}

/// Twenty SENDs of which the first ten are acknowledged: the flows know each other and a round trip.
fn under_way() -> Wire {
    let mut wire = Wire::new();
    wire.sends(A, B, 100..110);
    wire.ack(B, A, 109);
    wire.sends(A, B, 110..120);
    wire
}

#[test]
fn a_nak_explains_everything_from_its_psn_on() {
    let mut wire = under_way();
    wire.nak(B, A, 115, NakCode::PsnSequence);
    let again: Vec<_> = (115..120).map(|psn| wire.send(A, B, psn)).collect();
    assert!(again.iter().all(|packet| cause(packet) == Some(RetransmissionCause::SequenceNak)));
    assert_eq!(again[0].retransmission.unwrap().first_seen, Some(17));
    assert_eq!(cause(&wire.send(A, B, 120)), None);
    let repeated =
        wire.figures(FlowId(0)).retransmissions[RetransmissionCause::SequenceNak.index()];
    assert_eq!((repeated.packets, repeated.rounds, repeated.bytes), (5, 1, 500));
    assert_eq!(wire.figures(FlowId(0)).lost_behind, 1);
}

#[test]
fn a_repetition_of_what_was_answered_is_a_duplicate_to_the_responder() {
    let mut wire = under_way();
    for psn in [108, 109, 110] {
        wire.wait(Duration::from_secs(1));
        wire.send(A, B, psn);
    }
    assert_eq!(wire.figures(FlowId(0)).retransmitted(), 3);
    assert_eq!(wire.figures(FlowId(0)).answered_before, 2, "110 was not acknowledged");
}

/// A late packet fills the gap, and the responder asks for the next one before the requester has gone back.
#[test]
fn a_nak_explains_also_when_the_next_one_has_overtaken_its_repetition() {
    let mut wire = under_way();
    wire.nak(B, A, 115, NakCode::PsnSequence);
    wire.nak(B, A, 116, NakCode::PsnSequence);
    let again: Vec<_> = (115..120).map(|psn| cause(&wire.send(A, B, psn))).collect();
    assert!(
        again.iter().all(|cause| *cause == Some(RetransmissionCause::SequenceNak)),
        "{again:?}"
    );
}

#[test]
fn a_requester_that_repeats_only_what_is_missing_is_known_by_the_second_time() {
    let mut wire = under_way();
    wire.nak(B, A, 112, NakCode::PsnSequence);
    assert_eq!(cause(&wire.send(A, B, 112)), Some(RetransmissionCause::SequenceNak));
    wire.send(A, B, 120);
    wire.nak(B, A, 114, NakCode::PsnSequence);
    assert_eq!(cause(&wire.send(A, B, 114)), Some(RetransmissionCause::SelectiveRepair));
    wire.send(A, B, 121);
    wire.tracker.finish();
    let by_cause = wire.figures(FlowId(0)).retransmissions;
    assert_eq!(by_cause[RetransmissionCause::SelectiveRepair.index()].packets, 2);
    assert_eq!(by_cause[RetransmissionCause::SequenceNak.index()].packets, 0);
}

#[test]
fn an_rnr_nak_promises_a_wait_and_the_repetition_tells_how_long_it_was() {
    let mut wire = under_way();
    let rnr = wire.rnr(B, A, 110, 12);
    assert_eq!(rnr.rnr_wait.unwrap().promised, Duration::from_micros(640));
    wire.wait(Duration::from_micros(700));
    let again = wire.send(A, B, 110);
    assert_eq!(cause(&again), Some(RetransmissionCause::RnrNak));
    assert_eq!(again.rnr_wait.unwrap().actual, Some(Duration::from_micros(710)));
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.rnr_promised_ns, figures.rnr_waited_ns), (640_000, 710_000));
    assert_eq!(wire.figures(FlowId(1)).rnr_naks, 1);
}

#[test]
fn silence_is_a_timeout_when_it_is_long_and_a_probe_when_it_is_short() {
    let mut wire = under_way();
    wire.wait(Duration::from_micros(400));
    assert_eq!(cause(&wire.send(A, B, 119)), Some(RetransmissionCause::TailProbe));
    wire.wait(Duration::from_millis(70));
    let again: Vec<_> = (110..120).map(|psn| cause(&wire.send(A, B, psn))).collect();
    assert!(again.iter().all(|cause| *cause == Some(RetransmissionCause::AckTimeout)), "{again:?}");
}

#[test]
fn a_requester_that_goes_back_is_known_also_where_its_first_packet_was_lost_on_the_way() {
    let mut wire = under_way();
    wire.wait(Duration::from_millis(5));
    let again: Vec<_> = (114..120).map(|psn| cause(&wire.send(A, B, psn))).collect();
    assert_eq!(again[1..], [Some(RetransmissionCause::AckTimeout); 5]);
    wire.tracker.finish();
    let by_cause = wire.figures(FlowId(0)).retransmissions;
    assert_eq!(by_cause[RetransmissionCause::AckTimeout.index()].packets, 6);
    assert_eq!(by_cause[RetransmissionCause::Unexplained.index()].packets, 0);
}

#[test]
fn two_copies_within_microseconds_are_the_networks_work() {
    let mut wire = under_way();
    wire.step_us = 0;
    let copy = wire.send(A, B, 119);
    assert!(copy.is_duplicate && copy.retransmission.is_none());
    assert_eq!(wire.figures(FlowId(0)).duplicates, 1);
}

#[test]
fn two_copies_with_different_ipv4_identifications_were_both_sent() {
    let verdict = |first: Option<u16>, second: Option<u16>| {
        let mut wire = Wire::new();
        wire.sends(A, B, 100..110);
        let [_, last] = [first, second].map(|ip_id| {
            let mut packet = wire.packet(A, B, Opcode::RC_SEND_ONLY, 110);
            (packet.ip_id, packet.payload_len) = (ip_id, 100);
            wire.step_us = 0;
            wire.give(&packet)
        });
        (last.is_duplicate, cause(&last))
    };
    let sent = (false, Some(RetransmissionCause::TailProbe));
    assert_eq!(verdict(Some(7), Some(8)), sent);
    for (first, second) in [(Some(7), Some(7)), (Some(7), None), (None, Some(7)), (None, None)] {
        assert_eq!(verdict(first, second), (true, None), "{first:?} {second:?}");
    }
}

#[test]
fn a_lost_read_response_is_asked_for_again_by_an_implied_nak() {
    let mut wire = Wire::new();
    wire.read(A, B, 50, 4096);
    for index in [0, 1, 3] {
        wire.data(B, A, read_opcode(index, 4), 50 + index, 1024);
    }
    let part = wire.read(A, B, 52, 1024);
    assert_eq!(cause(&part), Some(RetransmissionCause::ImpliedNak));
    assert_eq!(part.message.unwrap().number, 0, "it is a part of the first READ");
    wire.data(B, A, read_opcode(0, 1), 52, 1024);
    let message = wire.messages().pop().expect("the READ is complete");
    assert_eq!((message.bytes, message.responses, message.retransmitted), (4096, 4, 1));
    assert_eq!(wire.figures(FlowId(0)).skipped_responses, 1);
}
