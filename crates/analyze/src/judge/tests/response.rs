use uroce_wire::Opcode;

use super::scene::{MTU, Scene, fetch_add, request};
use crate::Packet;

const FIRST: Opcode = Opcode::RC_READ_RESPONSE_FIRST;
const MIDDLE: Opcode = Opcode::RC_READ_RESPONSE_MIDDLE;
const LAST: Opcode = Opcode::RC_READ_RESPONSE_LAST;
const ONLY: Opcode = Opcode::RC_READ_RESPONSE_ONLY;

/// A READ of `length` bytes at PSN 10 and responses to it.
fn read(length: u32, responses: &[(Opcode, u32, u32)]) -> Scene {
    let mut scene = Scene::connected();
    scene.request(Opcode::RC_SEND_FIRST, 10, MTU);
    scene.request(Opcode::RC_SEND_LAST, 11, 4);
    scene.ack(11, 11);
    scene.read(12, length);
    for (opcode, psn, bytes) in responses {
        scene.response(*opcode, *psn, *bytes);
    }
    scene
}

#[test]
fn responses_have_the_kind_and_length_of_their_place() {
    read(2 * MTU + 4, &[(FIRST, 12, MTU), (MIDDLE, 13, MTU), (LAST, 14, 4)]).keeps_all();
    read(MTU, &[(ONLY, 12, MTU)]).keeps_all();
    read(0, &[(ONLY, 12, 0)]).keeps_all();
    read(2 * MTU, &[(FIRST, 12, MTU), (MIDDLE, 13, MTU)]).breaks("response-position");
    read(2 * MTU, &[(ONLY, 12, MTU)]).breaks("response-position");
    read(MTU + 4, &[(FIRST, 12, MTU), (LAST, 13, 8)]).breaks("response-length");
    read(8, &[(ONLY, 12, 4)]).breaks("response-length");
}

#[test]
fn an_aeth_too_few_is_named() {
    let finding =
        read(3 * MTU, &[(FIRST, 12, MTU), (MIDDLE, 13, MTU + 4)]).breaks("payload-not-mtu");
    assert!(finding.text.contains("AETH"), "{}", finding.text);
}

#[test]
fn a_train_that_begins_anew_in_the_middle() {
    let mut scene = read(3 * MTU, &[(FIRST, 12, MTU)]);
    scene.read(13, 2 * MTU);
    scene.response(FIRST, 13, MTU);
    scene.response(LAST, 14, MTU);
    scene.keeps_all();
}

#[test]
fn a_response_that_nothing_asked_for() {
    let mut scene = Scene::connected();
    scene.send(10);
    scene.response(ONLY, 10, 8);
    scene.breaks("response-unknown");
    let mut scene = Scene::connected();
    scene.send(10);
    scene.atomic_response(10, 8);
    scene.breaks("response-unknown");
}

/// A snap length cut the requests behind the BTH: the operation is there, and the rest is not.
#[test]
fn responses_to_requests_that_are_cut() {
    let cut = |opcode, psn| Packet { is_cut: true, ..request(opcode, psn, 0) };
    let mut scene = Scene::connected();
    for psn in 10..13 {
        scene.give(cut(Opcode::RC_FETCH_ADD, psn), &[]);
        scene.atomic_response(psn, u64::from(psn));
    }
    scene.give(fetch_add(12, 1, 64), &[]);
    scene.keeps_all();
    let mut scene = Scene::connected();
    scene.give(cut(Opcode::RC_READ_REQUEST, 10), &[]);
    scene.send(14);
    [(FIRST, 10), (MIDDLE, 11), (MIDDLE, 12), (LAST, 13)]
        .into_iter()
        .for_each(|(opcode, psn)| scene.response(opcode, psn, if psn == 13 { 4 } else { MTU }));
    scene.keeps_all();
    let mut scene = Scene::connected();
    scene.give(cut(Opcode::RC_SEND_ONLY, 10), &[]);
    scene.atomic_response(10, 8);
    scene.breaks("response-unknown");
}

#[test]
fn responses_to_requests_from_before_the_capture() {
    let mut scene = Scene::new();
    for psn in 100..110 {
        scene.response(ONLY, 50, 8);
        scene.send(psn);
        scene.ack(psn, psn);
    }
    scene.keeps("response-unknown");
}

#[test]
fn flush_and_atomic_write_have_an_empty_response() {
    for opcode in [Opcode::RC_FLUSH, Opcode::RC_ATOMIC_WRITE] {
        let bytes = if opcode == Opcode::RC_FLUSH { 0 } else { 8 };
        let mut scene = Scene::connected();
        scene.request(opcode, 10, bytes);
        scene.response(ONLY, 10, 0);
        scene.keeps_all();
    }
}

#[test]
fn a_repeated_atomic_gets_the_same_result() {
    let twice = |second| {
        let mut scene = Scene::connected();
        for value in [5, second] {
            scene.fetch_add(10, 1);
            scene.atomic_response(10, value);
        }
        scene
    };
    let finding = twice(6).breaks("atomic-replay-differs");
    assert!(finding.text.contains("0x6 instead of 0x5"), "{}", finding.text);
    twice(5).keeps_all();
}

#[test]
fn a_repeated_atomic_is_the_same_request() {
    let twice = |packet: Packet| {
        let mut scene = Scene::connected();
        scene.fetch_add(10, 1);
        scene.give(packet, &[]);
        scene
    };
    twice(fetch_add(10, 2, 64)).breaks("atomic-resent-differently");
    twice(fetch_add(10, 1, 64)).keeps("atomic-resent-differently");
}

/// rxe answers a repeated READ of one packet with LAST, and begins a longer one with MIDDLE.
#[test]
fn what_rxe_answers_to_a_repeated_read() {
    let mut scene = read(4 * MTU, &[(FIRST, 12, MTU)]);
    scene.read(13, 2 * MTU);
    scene.response(MIDDLE, 13, MTU);
    scene.response(LAST, 14, MTU);
    scene.read(15, MTU);
    scene.response(LAST, 15, MTU);
    scene.keeps_all();
    read(MTU, &[(LAST, 12, MTU)]).breaks("response-position");
}
