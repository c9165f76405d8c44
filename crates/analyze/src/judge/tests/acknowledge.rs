use std::time::Duration;

use uroce_wire::{NakCode, Opcode};

use super::scene::{ANSWERS, ASKS, Scene, back, request};
use crate::{Direction, Packet};

#[test]
fn an_acknowledgement_of_what_was_not_sent() {
    let mut scene = Scene::connected();
    scene.ack(12, 13);
    scene.wait(Duration::from_millis(5));
    scene.send(10);
    let finding = scene.breaks("ack-of-unsent");
    assert_eq!(finding.flow.map(|flow| flow.destination_qpn.get()), Some(ASKS));
}

/// The capture may lack the last request.
#[test]
fn an_acknowledgement_at_the_end_of_what_was_not_seen() {
    let mut scene = Scene::connected();
    scene.ack(10, 11);
    scene.wait(Duration::from_secs(1));
    scene.give(super::scene::management(false), &[]);
    scene.keeps("ack-of-unsent");
}

#[test]
fn an_acknowledgement_that_was_captured_a_moment_too_early() {
    let mut scene = Scene::connected();
    scene.ack(10, 11);
    scene.send(10);
    scene.keeps("ack-of-unsent");
}

#[test]
fn an_acknowledgement_of_what_the_capture_lost() {
    let mut scene = Scene::connected();
    scene.ack(12, 13);
    scene.wait(Duration::from_millis(5));
    scene.send(13);
    scene.ack(13, 14);
    scene.keeps("ack-of-unsent");
}

#[test]
fn acks_that_go_back_are_a_note() {
    let mut scene = Scene::connected();
    scene.ack(7, 8);
    scene.keeps_all();
    let mut scene = Scene::connected();
    let direction = Some(Direction::Outbound);
    let aeth = Some(uroce_wire::Aeth { syndrome: uroce_wire::Syndrome::ack(31), msn: 8 });
    scene.give(Packet { aeth, direction, ..back(Opcode::RC_ACKNOWLEDGE, 7, 0) }, &[]);
    scene.breaks("ack-goes-back");
    let mut scene = Scene::connected();
    scene.ack(9, 10);
    scene.keeps("ack-goes-back");
}

#[test]
fn an_ack_for_an_earlier_request_inside_a_read() {
    let with_late_ack = |before: usize| {
        let mut scene = Scene::connected();
        scene.read(10, 2000);
        let responses =
            [(Opcode::RC_READ_RESPONSE_FIRST, 1024), (Opcode::RC_READ_RESPONSE_LAST, 976)];
        for (index, (opcode, bytes)) in responses.into_iter().enumerate() {
            if index == before {
                scene.ack(9, 10);
            }
            scene.response(opcode, 10 + index as u32, bytes);
        }
        if before == responses.len() {
            scene.ack(9, 10);
        }
        scene
    };
    with_late_ack(0).keeps("ack-inside-read");
    with_late_ack(1).breaks("ack-inside-read");
    with_late_ack(2).keeps("ack-inside-read");
}

#[test]
fn the_msn_follows_the_psn() {
    let mut scene = Scene::connected();
    scene.send(10);
    scene.ack(10, 4);
    scene.breaks("msn-goes-back");
    let mut scene = Scene::connected();
    scene.send(10);
    scene.ack(10, 11);
    scene.keeps("msn-goes-back");
}

#[test]
fn the_msn_counts_messages() {
    let run = |steps: &[(u32, u32)]| {
        let mut scene = Scene::connected();
        for (psn, msn) in steps {
            scene.send(*psn);
            scene.ack(*psn, *msn);
        }
        scene
    };
    run(&[(10, 13), (11, 14), (12, 15)]).breaks("msn-mismatch");
    run(&[(10, 13), (11, 14), (12, 15)]).keeps_all();
    run(&[(10, 12), (11, 12), (12, 13)]).keeps("msn-mismatch");
}

#[test]
fn an_ack_that_was_captured_before_its_request_counts_its_message() {
    let run = |skipped| {
        let mut scene = Scene::connected();
        scene.ack(10, 11);
        scene.send(10);
        for psn in 11..15 {
            scene.send(psn);
            scene.ack(psn, psn + 1 + skipped);
        }
        scene
    };
    assert_eq!(run(0).names(), [""; 0]);
    run(1).breaks("msn-mismatch");
}

/// The responder counts a READ when it executes it, so that its MSN is ahead while the response is missing.
#[test]
fn the_msn_is_ahead_while_a_response_is_lost() {
    let lost = |skipped| {
        let mut scene = Scene::connected();
        scene.read(10, 8);
        (11..14).for_each(|psn| scene.send(psn));
        (11..14).for_each(|psn| scene.ack(psn, psn + 1));
        scene.read(10, 8);
        scene.response(Opcode::RC_READ_RESPONSE_ONLY, 10, 8);
        for psn in 14..17 {
            scene.send(psn);
            scene.ack(psn, psn + 1 + skipped);
        }
        scene
    };
    lost(0).keeps("msn-mismatch");
    lost(1).breaks("msn-mismatch");
}

#[test]
fn one_nak_for_a_gap_and_a_copy_of_it_by_the_network() {
    let naks = |count| {
        let mut scene = Scene::connected();
        (10..14).for_each(|psn| scene.send(psn));
        (0..count).for_each(|_| scene.nak(10, NakCode::PsnSequence));
        (10..14).for_each(|psn| scene.send(psn));
        scene.ack(13, 14);
        scene
    };
    naks(1).keeps_all();
    naks(2).keeps_all();
    naks(3).breaks("nak-repeated");
    let finding = naks(31).breaks("nak-repeated");
    assert_eq!((finding.count, finding.frames[0], finding.last_frame), (29, 27, 55));
    assert!(finding.text.contains("NAK 3 for PSN 0xa, the first one in frame 25"), "{finding:?}");
}

/// ADR 33.
#[test]
fn naks_with_lists_of_gaps_come_again_when_they_are_asked_for() {
    let list = [0, 0, 0, 1, 0, 2, 0, 1, 0, 4, 0, 0];
    let naks = |send: fn(&mut Scene, u32)| {
        let mut scene = Scene::connected();
        for psn in 10..60 {
            send(&mut scene, psn);
            scene.nak_with_list(10, &list);
        }
        (10..60).for_each(|psn| scene.send(psn));
        scene.ack(59, 60);
        scene
    };
    naks(Scene::send_asking).keeps_all();
    naks(Scene::send).breaks("nak-repeated");
    // Not many can have been on their way.
    let mut scene = Scene::connected();
    (10..60).for_each(|psn| scene.send_asking(psn));
    (0..19).for_each(|_| scene.nak_with_list(10, &list));
    scene.breaks("nak-repeated");
}

#[test]
fn naks_for_a_gap_that_was_repaired_in_vain() {
    let mut scene = Scene::connected();
    for _ in 0..5 {
        (10..14).for_each(|psn| scene.send(psn));
        scene.nak(10, NakCode::PsnSequence);
        scene.wait(Duration::from_millis(1));
    }
    scene.keeps("nak-repeated");
}

#[test]
fn a_nak_for_what_was_acknowledged() {
    let naks = |psn| {
        let mut scene = Scene::connected();
        (10..14).for_each(|psn| scene.send(psn));
        scene.nak(psn, NakCode::PsnSequence);
        scene.nak(psn, NakCode::PsnSequence);
        scene
    };
    naks(8).breaks("nak-of-acknowledged");
    naks(10).keeps("nak-of-acknowledged");
}

#[test]
fn a_nak_that_the_requester_ignores() {
    let ignores = |is_repaired: bool| {
        let mut scene = Scene::connected();
        scene.send(10);
        scene.send(11);
        scene.nak(10, NakCode::PsnSequence);
        if is_repaired {
            scene.send(10);
        }
        (12..312).for_each(|psn| scene.send(psn));
        scene.wait(Duration::from_secs(2));
        scene.send(312);
        scene
    };
    let finding = ignores(false).breaks("nak-not-honoured");
    assert_eq!(finding.flow.map(|flow| flow.destination_qpn.get()), Some(ANSWERS));
    ignores(true).keeps("nak-not-honoured");
}

#[test]
fn two_to_the_23_psns_outstanding() {
    let reads = |count: u32| {
        let mut scene = Scene::connected();
        let full = Packet { payload_len: 256, ..request(Opcode::RC_SEND_FIRST, 10, 256) };
        scene.give(full, &[]);
        scene.request(Opcode::RC_SEND_LAST, 11, 4);
        scene.ack(11, 11);
        for index in 0..count {
            scene.read(12 + index * (1 << 21), 1 << 29);
        }
        scene
    };
    reads(5).breaks("psn-window");
    reads(3).keeps("psn-window");
}
