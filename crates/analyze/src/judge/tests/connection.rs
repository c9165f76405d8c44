use std::time::Duration;

use uroce_cm::message::{Drep, Dreq, Rej, RejectedMessage, Rep, Req, Rtu};
use uroce_cm::{CommId, Mad, RejReason};
use uroce_wire::{NakCode, Opcode, Psn, Qpn};

use super::scene::{ANSWERS, ASKS, MTU, Scene, management};
use crate::judge::EndKind;

const CALLER: CommId = CommId(0x100);
const CALLED: CommId = CommId(0x200);
const LONG: Duration = Duration::from_secs(30);

fn parsed<M>(attribute: u16, take: impl Fn(uroce_cm::Message) -> Option<M>) -> M {
    let mut bytes = [0; 256];
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
    take(Mad::parse(&bytes).expect("a message").message).expect("the kind of message")
}

pub(super) fn req() -> Req {
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

pub(super) fn rep() -> Rep {
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

pub(super) fn rtu() -> Rtu {
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

pub(super) fn dreq() -> Dreq {
    let empty = parsed(0x15, |message| match message {
        uroce_cm::Message::Dreq(dreq) => Some(dreq),
        _ => None,
    });
    let remote_qpn = Qpn::new(ANSWERS);
    Dreq { local_comm_id: CALLER, remote_comm_id: CALLED, remote_qpn, ..empty }
}

pub(super) fn drep() -> Drep {
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
pub(super) fn later(mut scene: Scene) -> Scene {
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
fn an_rtu_shows_that_a_rep_came_which_the_capture_lacks() {
    let called = |confirms: bool| {
        let mut scene = Scene::new();
        scene.mad(false, req());
        if confirms {
            scene.mad(false, rtu());
        }
        later(scene)
    };
    called(true).keeps("cm-no-reply");
    called(false).breaks("cm-no-reply");
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
fn a_capture_that_ends_soon_behind_a_repetition_tells_of_no_missing_answer() {
    let asked = |closes: bool, times: u32, silence| {
        let mut scene = if closes { made() } else { Scene::new() };
        for turn in 0..times {
            scene.wait(Duration::from_secs(u64::from(turn > 0)));
            match closes {
                true => scene.mad(false, dreq()),
                false => scene.mad(false, req()),
            }
        }
        scene.wait(silence);
        scene.give(management(false), &[]);
        scene
    };
    let (short, pause) = (Duration::from_millis(1), Duration::from_secs(1));
    for (name, closes) in [("cm-no-reply", false), ("cm-no-drep", true)] {
        asked(closes, 1, 8 * pause).keeps(name);
        asked(closes, 2, short).keeps(name);
        asked(closes, 2, pause).breaks(name);
        // Two of them were without an answer for a whole pause.
        asked(closes, 3, short).breaks(name);
    }
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

/// READs one after the other, though two may be outstanding. The capture lacks the response to the first one, or the
/// network has lost it, and the requester asks again.
#[test]
fn a_response_that_the_capture_lacks_is_no_read_too_many() {
    let reads = |is_sent_again, last: u32| {
        let mut scene = made();
        scene.send(0);
        scene.ack(0, 1);
        for psn in 1..4 {
            scene.read(psn, 8);
            if psn == 2 {
                scene.response(Opcode::RC_READ_RESPONSE_ONLY, psn, 8);
            }
        }
        scene.read(4, 8);
        scene.response(Opcode::RC_READ_RESPONSE_ONLY, 3, 8);
        scene.response(Opcode::RC_READ_RESPONSE_ONLY, 4, 8);
        if is_sent_again {
            scene.wait(Duration::from_millis(100));
            scene.read(1, 8);
            scene.response(Opcode::RC_READ_RESPONSE_ONLY, 1, 8);
        }
        for psn in 5..last {
            scene.send(psn);
            scene.ack(psn, psn + 1);
        }
        later(scene)
    };
    for last in [5, 3000] {
        reads(false, last).keeps("read-depth");
        reads(false, last).breaks("capture-incomplete");
        reads(true, last).breaks("read-depth");
        reads(true, last).keeps("capture-incomplete");
    }
}

#[test]
fn copies_that_the_network_made_are_no_repetitions() {
    let mut scene = Scene::new();
    (0..5).for_each(|_| scene.mad(false, req()));
    scene.mad(true, rep());
    scene.mad(false, rtu());
    scene.keeps("cm-repeated");
}

/// SENDs 0 to 9 are acknowledged, and SEND 10 comes to a bad end or to a good one; the queue pairs connect again after
/// `pause`, and all is well.
fn connected_again(ends: impl Fn(&mut Scene), pause: Duration) -> Scene {
    let mut scene = made();
    for psn in 0..10 {
        scene.send(psn);
        scene.ack(psn, psn + 1);
    }
    scene.send(10);
    ends(&mut scene);
    scene.wait(pause);
    let (caller, called, psn) = (CommId(0x101), CommId(0x201), Psn::new(500));
    scene.mad(false, Req { local_comm_id: caller, starting_psn: psn, ..req() });
    let ids = Rep { local_comm_id: called, remote_comm_id: caller, ..rep() };
    scene.mad(true, Rep { starting_psn: psn, ..ids });
    scene.mad(false, Rtu { local_comm_id: caller, remote_comm_id: called, ..rtu() });
    for psn in 500..510 {
        scene.send(psn);
        scene.ack(psn, psn - 499);
    }
    later(scene)
}

fn is_refused(scene: &mut Scene) {
    scene.nak(10, NakCode::RemoteAccess);
}

fn is_not_answered(scene: &mut Scene) {
    for _ in 0..3 {
        scene.wait(Duration::from_millis(100));
        scene.send(10);
    }
}

fn is_not_taken(scene: &mut Scene) {
    scene.rnr(10);
}

#[test]
fn what_ended_a_queue_pair_is_told_although_it_connects_again() {
    let kinds = |ends: fn(&mut Scene), pause| {
        let explanations = connected_again(ends, pause).explanations();
        explanations.iter().map(|it| it.kind).collect::<Vec<_>>()
    };
    let second = Duration::from_secs(1);
    assert_eq!(kinds(is_refused, second), [EndKind::FatalNak]);
    assert_eq!(kinds(is_not_answered, second), [EndKind::RetriesExceeded]);
    assert_eq!(kinds(is_not_taken, second), [EndKind::RnrRetriesExceeded]);
    connected_again(is_not_answered, second).breaks("retries-exceeded");
    connected_again(is_not_taken, second).breaks("rnr-retries-exceeded");
    assert_eq!(kinds(|scene| scene.ack(10, 11), second), []);
    connected_again(|scene| scene.ack(10, 11), second).keeps_all();
}

#[test]
fn a_requester_that_is_closed_before_it_can_have_given_up_has_not_failed() {
    let soon = Duration::from_millis(20);
    connected_again(is_not_answered, soon).keeps("retries-exceeded");
    assert_eq!(connected_again(is_not_answered, soon).explanations(), []);
    connected_again(is_not_taken, soon).keeps("rnr-retries-exceeded");
}

/// PSNs that jump may be what the capture lacks, so that silence proves nothing; a NAK does.
#[test]
fn psns_that_begin_anew_without_connection_management() {
    let jumps = |ends: fn(&mut Scene)| {
        let mut scene = Scene::connected();
        scene.send(10);
        ends(&mut scene);
        scene.wait(Duration::from_secs(1));
        (500_000..500_010).for_each(|psn| scene.send(psn));
        scene.explanations().iter().map(|it| it.kind).collect::<Vec<_>>()
    };
    assert_eq!(jumps(is_refused), [EndKind::FatalNak]);
    assert_eq!(jumps(is_not_answered), []);
}
