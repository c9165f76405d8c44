use std::time::Duration;

use uroce_wire::Opcode;

use super::scene::{Scene, back, request};
use crate::Packet;

fn cnp() -> Packet {
    let mut packet = back(Opcode::CNP, 0, 16);
    packet.bth.becn = true;
    packet
}

/// Marked SENDs that are acknowledged, and notifications behind each.
fn marked(packets: u32, notification: Option<Packet>) -> Scene {
    let mut scene = Scene::connected();
    for psn in 10..10 + packets {
        scene.give(Packet { traffic_class: 3, ..request(Opcode::RC_SEND_ONLY, psn, 8) }, &[]);
        scene.ack(psn, psn + 1);
        notification.into_iter().for_each(|packet| scene.give(packet, &[0; 16]));
    }
    scene
}

#[test]
fn marks_draw_notifications() {
    marked(64, None).breaks("mark-without-cnp");
    marked(64, None).keeps_all();
    marked(63, None).keeps("mark-without-cnp");
    marked(64, Some(cnp())).keeps("mark-without-cnp");
}

#[test]
fn a_notification_without_a_mark_is_a_note() {
    let mut scene = Scene::connected();
    scene.give(cnp(), &[0; 16]);
    scene.breaks("cnp-without-mark");
    marked(1, Some(cnp())).keeps("cnp-without-mark");
}

#[test]
fn the_form_of_a_notification() {
    let mut unmarked = cnp();
    unmarked.bth.becn = false;
    marked(1, Some(unmarked)).breaks("cnp-format");
    marked(1, Some(Packet { payload_len: 12, ..cnp() })).breaks("cnp-format");
    marked(1, Some(cnp())).keeps_all();
    let mut with_ack = cnp();
    with_ack.bth.ack_req = true;
    marked(1, Some(with_ack)).breaks("cnp-fields");
    marked(1, Some(with_ack)).keeps("cnp-format");
}

#[test]
fn notifications_are_paced() {
    let pair = |wait| {
        let mut scene = marked(1, Some(cnp()));
        for _ in 0..3 {
            scene.wait(wait);
            scene.give(cnp(), &[0; 16]);
        }
        scene
    };
    pair(Duration::ZERO).keeps("cnp-rate");
    let mut scene = Scene::connected();
    scene.crowd(&[cnp(), cnp(), cnp()]);
    scene.breaks("cnp-rate");
}
