//! One capture of both ends: every packet is there twice.

use std::time::Duration;

use uroce_wire::NakCode;

use crate::Direction;
use crate::track::testkit::{A, B, Wire, read_opcode};
use crate::track::{Annotation, CapturePoint, FlowId, RetransmissionCause};

/// What goes out at one interface and, unless it is lost, comes in at the other.
fn both(
    wire: &mut Wire,
    arrives: bool,
    mut packet: impl FnMut(&mut Wire) -> Annotation,
) -> [Option<Annotation>; 2] {
    wire.direction = Some(Direction::Outbound);
    let left = packet(wire);
    wire.direction = Some(Direction::Inbound);
    [Some(left), arrives.then(|| packet(wire))]
}

#[test]
fn a_packet_counts_once_and_its_second_sighting_says_so() {
    let mut wire = Wire::new();
    for psn in 0..5 {
        let [left, arrived] = both(&mut wire, true, |wire| wire.send(A, B, psn));
        assert!(!left.unwrap().is_second_sighting && arrived.unwrap().is_second_sighting);
        both(&mut wire, true, |wire| wire.ack(B, A, psn));
    }
    let (requests, answers) = (wire.figures(FlowId(0)), wire.figures(FlowId(1)));
    assert_eq!((requests.packets, requests.second_sightings), (5, 5));
    assert_eq!(
        (requests.messages_completed, requests.duplicates, requests.retransmitted()),
        (5, 0, 0)
    );
    assert_eq!((answers.acks, answers.repeated_acks), (5, 0));
    assert_eq!(wire.tracker.flow(FlowId(0)).unwrap().capture_point(), CapturePoint::Both);
}

#[test]
fn a_nak_that_never_arrives_explains_nothing() {
    let mut wire = Wire::new();
    for psn in 0..3 {
        both(&mut wire, true, |wire| wire.send(A, B, psn));
        both(&mut wire, true, |wire| wire.ack(B, A, psn));
    }
    both(&mut wire, false, |wire| wire.send(A, B, 3));
    both(&mut wire, true, |wire| wire.send(A, B, 4));
    both(&mut wire, false, |wire| wire.nak(B, A, 3, NakCode::PsnSequence));
    wire.wait(Duration::from_millis(70));
    let [again, _] = both(&mut wire, true, |wire| wire.send(A, B, 3));
    let cause = again.unwrap().retransmission.map(|again| again.cause);
    assert_eq!(cause, Some(RetransmissionCause::AckTimeout));
}

#[test]
fn an_answer_that_is_lost_on_its_way_hides_no_later_one() {
    let mut wire = Wire::new();
    both(&mut wire, true, |wire| wire.send(A, B, 0));
    both(&mut wire, false, |wire| wire.ack(B, A, 0));
    wire.wait(Duration::from_millis(70));
    both(&mut wire, true, |wire| wire.send(A, B, 0));
    both(&mut wire, true, |wire| wire.ack(B, A, 0));
    for psn in 1..5 {
        both(&mut wire, true, |wire| wire.read(A, B, psn, 100));
        let response = |wire: &mut Wire| wire.data(B, A, read_opcode(0, 1), psn, 100);
        let [left, arrived] = both(&mut wire, true, response).map(Option::unwrap);
        assert_eq!((left.is_second_sighting, arrived.is_second_sighting), (true, false), "{psn}");
    }
    assert_eq!(wire.figures(FlowId(0)).messages_completed, 5);
}

#[test]
fn answers_that_overtake_each_other_are_seen_twice_all_the_same() {
    let mut wire = Wire::new();
    for psn in 0..2 {
        both(&mut wire, true, |wire| wire.send(A, B, psn));
    }
    wire.direction = Some(Direction::Outbound);
    (0..2).for_each(|psn| _ = wire.ack(B, A, psn));
    wire.direction = Some(Direction::Inbound);
    for psn in [1, 0] {
        assert!(wire.ack(B, A, psn).is_second_sighting, "{psn}");
    }
}
