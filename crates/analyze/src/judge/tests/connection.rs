use std::time::Duration;

use uroce_cm::message::{Drep, Dreq, Rej, RejectedMessage, Rep, Req, Rtu};
use uroce_cm::{CommId, Mad, RejReason};
use uroce_wire::{Opcode, Qpn};

use super::scene::{ANSWERS, ASKS, MTU, Scene, management};

const CALLER: CommId = CommId(0x100);
const CALLED: CommId = CommId(0x200);
const LONG: Duration = Duration::from_secs(30);

fn parsed<M>(attribute: u16, take: impl Fn(uroce_cm::Message) -> Option<M>) -> M {
    let mut bytes = [0; 256];
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
    take(Mad::parse(&bytes).expect("a message").message).expect("the kind of message")
}

fn req() -> Req {
    let empty = parsed(0x10, |message| match message {
        uroce_cm::Message::Req(req) => Some(req),
        _ => None,
    });
    Req {
        local_comm_id: CALLER,
        local_qpn: Qpn::new(ASKS),
        path_mtu: 3,
        responder_resources: 2,
        ..empty
    }
}

fn rep() -> Rep {
    let empty = parsed(0x13, |message| match message {
        uroce_cm::Message::Rep(rep) => Some(rep),
        _ => None,
    });
    Rep {
        local_comm_id: CALLED,
        remote_comm_id: CALLER,
        local_qpn: Qpn::new(ANSWERS),
        responder_resources: 2,
        ..empty
    }
}

fn rtu() -> Rtu {
    let empty = parsed(0x14, |message| match message {
        uroce_cm::Message::Rtu(rtu) => Some(rtu),
        _ => None,
    });
    Rtu { local_comm_id: CALLER, remote_comm_id: CALLED, ..empty }
}

fn rej(reason: RejReason) -> Rej {
    let empty = parsed(0x12, |message| match message {
        uroce_cm::Message::Rej(rej) => Some(rej),
        _ => None,
    });
    Rej { remote_comm_id: CALLER, message: RejectedMessage::REQ, reason, ..empty }
}

fn dreq() -> Dreq {
    let empty = parsed(0x15, |message| match message {
        uroce_cm::Message::Dreq(dreq) => Some(dreq),
        _ => None,
    });
    Dreq { local_comm_id: CALLER, remote_comm_id: CALLED, ..empty }
}

fn drep() -> Drep {
    let empty = parsed(0x16, |message| match message {
        uroce_cm::Message::Drep(drep) => Some(drep),
        _ => None,
    });
    Drep { local_comm_id: CALLED, remote_comm_id: CALLER, ..empty }
}

fn made() -> Scene {
    let mut scene = Scene::new();
    scene.mad(false, req());
    scene.mad(true, rep());
    scene.mad(false, rtu());
    scene
}

/// The capture goes on for a while.
fn later(mut scene: Scene) -> Scene {
    scene.wait(LONG);
    scene.give(management(false), &[]);
    scene
}

#[test]
fn a_connection_that_is_made_and_ended_is_clean() {
    let mut scene = made();
    scene.mad(false, dreq());
    scene.mad(true, drep());
    assert_eq!(later(scene).names(), [""; 0]);
}

#[test]
fn a_refusal_has_its_reason_in_words() {
    let refused = |reason| {
        let mut scene = Scene::new();
        scene.mad(false, req());
        scene.mad(true, rej(reason));
        later(scene)
    };
    let finding = refused(RejReason::INVALID_SERVICE_ID).breaks("cm-rejected");
    assert!(finding.text.contains("nobody listens"), "{}", finding.text);
    let mut scene = Scene::new();
    scene.mad(false, req());
    let mut smaller = rej(RejReason::INVALID_MTU);
    (smaller.info_len, smaller.info[0]) = (1, 0x30);
    scene.mad(true, smaller);
    let finding = later(scene).breaks("cm-rejected");
    assert!(finding.text.contains("1024 bytes are the most"), "{}", finding.text);
    refused(RejReason::CONSUMER).breaks("cm-refused-by-application");
    refused(RejReason::CONSUMER).keeps_all();
}

#[test]
fn a_request_without_an_answer() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.mad(false, req());
        scene.wait(Duration::from_secs(1));
    }
    let names = scene.names();
    assert_eq!(names, ["cm-no-reply", "cm-repeated"]);
    let mut scene = Scene::new();
    scene.mad(false, req());
    scene.keeps("cm-no-reply");
    let mut scene = Scene::new();
    scene.mad(false, req());
    later(scene).breaks("cm-no-reply");
}

#[test]
fn one_repetition_is_not_told() {
    let mut scene = Scene::new();
    scene.mad(false, req());
    scene.wait(Duration::from_secs(1));
    scene.mad(false, req());
    scene.mad(true, rep());
    scene.mad(false, rtu());
    scene.keeps("cm-repeated");
}

#[test]
fn a_reply_that_nobody_confirms() {
    let replied = || {
        let mut scene = Scene::new();
        scene.mad(false, req());
        scene.mad(true, rep());
        scene
    };
    later(replied()).breaks("cm-no-rtu");
    let mut with_data = replied();
    with_data.send(0);
    later(with_data).keeps("cm-no-rtu");
}

#[test]
fn a_disconnect_request_without_an_answer_is_a_note() {
    let mut scene = made();
    scene.mad(false, dreq());
    let scene = later(scene);
    scene.breaks("cm-no-drep");
}

#[test]
fn a_message_that_is_none() {
    let mut scene = Scene::new();
    let mut bytes = [0; 256];
    bytes[..4].copy_from_slice(&[1, 7, 2, 9]);
    scene.give(management(false), &bytes);
    scene.breaks("cm-malformed");
    let mut other_class = Scene::new();
    bytes[1] = 4;
    other_class.give(management(false), &bytes);
    other_class.keeps("cm-malformed");
}

#[test]
fn packets_above_the_path_mtu_that_was_agreed() {
    let with = |bytes| {
        let mut scene = made();
        scene.request(Opcode::RC_SEND_ONLY, 0, bytes);
        scene
    };
    with(MTU + 4).breaks("mtu-above-agreed");
    with(MTU).keeps("mtu-above-agreed");
}

#[test]
fn more_reads_than_agreed() {
    let reads = |count| {
        let mut scene = made();
        for psn in 0..10 {
            scene.send(psn);
            scene.ack(psn, psn + 1);
        }
        (0..count).for_each(|index| scene.read(10 + index, 8));
        scene
    };
    reads(3).breaks("read-depth");
    reads(2).keeps("read-depth");
}

#[test]
fn copies_that_the_network_made_are_no_repetitions() {
    let mut scene = Scene::new();
    (0..5).for_each(|_| scene.mad(false, req()));
    scene.mad(true, rep());
    scene.mad(false, rtu());
    scene.keeps("cm-repeated");
}
