use std::time::Duration;

use uroce_wire::{Aeth, NakCode, Opcode, Qpn, Reth, Syndrome};

use super::scene::{ANSWERS, ASKS, Scene, back, management, request};
use crate::judge::EndKind;
use crate::{Packet, sample};

const MS: Duration = Duration::from_millis(1);

/// SEND 10 meets `naks` RNR NAKs of 0.64 ms, each followed by a repetition after `wait`.
fn not_ready(naks: u32, wait: Duration) -> Scene {
    let mut scene = Scene::connected();
    scene.send(10);
    for _ in 0..naks {
        scene.rnr(10);
        scene.wait(wait);
        scene.send(10);
    }
    scene
}

#[test]
fn rnr_naks_are_notes_and_many_of_them_a_loop() {
    let mut scene = not_ready(3, MS);
    scene.ack(10, 11);
    assert_eq!(scene.names(), ["receiver-not-ready"]);
    not_ready(16, MS).breaks("rnr-loop");
    not_ready(15, MS).keeps("rnr-loop");
}

#[test]
fn the_timer_of_an_rnr_nak_is_kept() {
    not_ready(3, MS / 10).breaks("rnr-timer-ignored");
    not_ready(3, MS).keeps("rnr-timer-ignored");
    not_ready(1, MS / 10).keeps("rnr-timer-ignored");
}

#[test]
fn whoever_is_asked_for_the_packet_sooner_does_not_wait() {
    let hurries = |sooner: fn(&mut Scene, u32)| {
        let mut scene = Scene::connected();
        for psn in [10, 13, 16] {
            scene.read(psn, 8);
            (psn + 1..psn + 3).for_each(|psn| scene.send(psn));
            scene.rnr(psn + 1);
            sooner(&mut scene, psn);
            (psn + 1..psn + 3).for_each(|psn| scene.send(psn));
            scene.response(Opcode::RC_READ_RESPONSE_ONLY, psn, 8);
            scene.ack(psn + 2, psn + 2);
        }
        scene
    };
    hurries(|_, _| ()).breaks("rnr-timer-ignored");
    // The response to the READ before it was lost.
    hurries(|scene, psn| scene.read(psn, 8)).keeps("rnr-timer-ignored");
    hurries(|scene, psn| scene.nak(psn + 1, NakCode::PsnSequence)).keeps("rnr-timer-ignored");
}

#[test]
fn silence_behind_an_rnr_nak() {
    let ends = |is_answered| {
        let mut scene = not_ready(2, MS);
        scene.rnr(10);
        if is_answered {
            scene.wait(MS);
            scene.send(10);
            scene.ack(10, 11);
        }
        scene.wait(MS * 300);
        scene.give(super::scene::management(false), &[]);
        scene
    };
    ends(false).breaks("rnr-retries-exceeded");
    ends(true).keeps("rnr-retries-exceeded");
    let [explanation] = &ends(false).explanations()[..] else { panic!("one explanation") };
    assert_eq!(explanation.kind, EndKind::RnrRetriesExceeded);
    assert!(explanation.text.contains("3 RNR NAKs"), "{}", explanation.text);
}

/// SEND 10 is sent `copies` times, 100 ms apart; the capture goes on for a second.
fn silent(scene: Scene, copies: u32) -> Scene {
    silent_from_10(scene, 1, copies)
}

/// The same of so many SENDs from 10 on.
fn silent_from_10(mut scene: Scene, packets: u32, rounds: u32) -> Scene {
    for _ in 0..rounds {
        (10..10 + packets).for_each(|psn| scene.send(psn));
        scene.wait(MS * 100);
    }
    scene.wait(MS * 1000);
    scene.give(super::scene::management(false), &[]);
    scene
}

#[test]
fn repetitions_without_an_answer() {
    silent(Scene::connected(), 4).breaks("retries-exceeded");
    silent(Scene::connected(), 2).keeps("retries-exceeded");
    silent(Scene::new(), 4).breaks("unanswered");
    silent(Scene::new(), 4).keeps("retries-exceeded");
    let kinds = |scene: Scene| scene.explanations().iter().map(|it| it.kind).collect::<Vec<_>>();
    assert_eq!(kinds(silent(Scene::connected(), 4)), [EndKind::RetriesExceeded]);
    assert_eq!(kinds(silent(Scene::new(), 4)), [EndKind::NeverAnswered]);
}

/// SENDs 10 and 11 are sent in `rounds`, 100 ms apart; the capture goes on for a second.
fn silent_rounds(rounds: u32) -> Scene {
    silent_from_10(Scene::connected(), 2, rounds)
}

#[test]
fn repetitions_of_several_packets_without_an_answer() {
    let finding = silent_rounds(7).breaks("retries-exceeded");
    assert!(finding.text.contains("PSN 0xa sent 7 times"), "{}", finding.text);
    silent_rounds(7).keeps("timeout-storm");
    silent_rounds(9).breaks("timeout-storm");
    silent_rounds(2).keeps("retries-exceeded");
    let [explanation] = &silent_rounds(7).explanations()[..] else { panic!("one explanation") };
    assert_eq!(explanation.kind, EndKind::RetriesExceeded);
}

#[test]
fn repetitions_of_several_packets_that_are_answered_in_the_end() {
    let answered = |psn| {
        let mut scene = silent_rounds(4);
        (10..12).for_each(|psn| scene.send(psn));
        scene.ack(psn, psn + 1);
        scene
    };
    answered(11).keeps("retries-exceeded");
    // What was answered is not what nothing was heard of afterwards.
    answered(10).keeps("retries-exceeded");
}

#[test]
fn repetitions_that_are_answered_in_the_end() {
    let mut scene = silent(Scene::connected(), 4);
    scene.send(10);
    scene.ack(10, 11);
    scene.keeps("retries-exceeded");
}

#[test]
fn a_storm_of_timeouts() {
    silent(Scene::connected(), 9).breaks("timeout-storm");
    silent(Scene::connected(), 6).keeps("timeout-storm");
}

/// The capture ends too early to show that the requester gave up.
#[test]
fn a_peer_of_which_nothing_ever_came_is_told_and_not_the_storm() {
    let asks = |copies: u32, other: &[Packet]| {
        let mut scene = Scene::new();
        other.iter().for_each(|packet| scene.give(*packet, &[]));
        for _ in 0..copies {
            scene.wait(MS * 100);
            scene.send(10);
        }
        scene
    };
    let finding = asks(9, &[]).breaks("unanswered");
    for part in ["nothing ever came from 10.0.0.2", "one direction only", "PSN 0xa sent 9 times"] {
        assert!(finding.text.contains(part), "{part} in {}", finding.text);
    }
    asks(9, &[]).keeps("timeout-storm");
    assert_eq!(asks(9, &[]).explanations(), [], "it may go on");
    asks(2, &[]).keeps("unanswered");
    let finding = asks(3, &[super::scene::management(true)]).breaks("unanswered");
    assert!(finding.text.contains("only other packets of 10.0.0.2"), "{}", finding.text);
    silent(Scene::connected(), 9).keeps("unanswered");
}

/// Several queue pairs do the same at the same time: nothing tells whose answers are whose.
#[test]
fn where_answers_may_belong_to_several_flows_none_of_them_is_dead() {
    let both = |scene: &mut Scene, packet: Packet| {
        scene.give(packet, &[]);
        let mut other = packet;
        other.bth.dest_qpn = Qpn::new(packet.bth.dest_qpn.get() + 0x100);
        scene.give(other, &[]);
    };
    let silent = |is_answered: bool| {
        let mut scene = Scene::new();
        for psn in 0..10 {
            both(&mut scene, request(Opcode::RC_SEND_ONLY, psn, 100));
            if is_answered {
                both(&mut scene, sample::answer(ASKS, psn, Syndrome::ack(31)));
            }
        }
        // Without an answer a requester begins with its first packet again.
        let oldest = if is_answered { 10 } else { 0 };
        for _ in 0..4 {
            both(&mut scene, request(Opcode::RC_SEND_ONLY, oldest, 100));
            scene.wait(MS * 100);
        }
        scene.wait(MS * 1000);
        scene.give(management(false), &[]);
        scene
    };
    assert!(silent(true).explanations().is_empty());
    silent(true).keeps_all();
    assert_eq!(silent(false).explanations().len(), 2);
}

#[test]
fn copies_that_the_network_made_are_no_storm() {
    let mut scene = Scene::connected();
    (0..20).for_each(|_| scene.send(10));
    scene.keeps("timeout-storm");
}

#[test]
fn sent_again_before_a_timeout_can_have_passed() {
    let again = |after| {
        let mut scene = Scene::connected();
        scene.send(10);
        scene.wait(after);
        scene.send(10);
        scene
    };
    let mut early = again(MS);
    early.ack(10, 11);
    early.breaks("early-retransmission");
    again(MS * 100).keeps("early-retransmission");
}

/// A WRITE that is refused, and `late` requests 300 ms later.
fn refused(code: NakCode, late: u32) -> Scene {
    let mut scene = Scene::connected();
    let reth = Some(Reth { va: 0xabc0, rkey: 0x77, length: 8 });
    scene.give(Packet { reth, ..request(Opcode::RC_WRITE_ONLY, 10, 8) }, &[]);
    scene.send(11);
    scene.nak(10, code);
    scene.wait(MS * 300);
    (12..12 + late).for_each(|psn| scene.send(psn));
    scene
}

#[test]
fn a_nak_that_ends_the_queue_pair_says_what_it_refuses() {
    let finding = refused(NakCode::RemoteAccess, 0).breaks("fatal-nak");
    for part in ["remote access error", "RC_WRITE_ONLY of frame 21", "0xabc0", "0x00000077"] {
        assert!(finding.text.contains(part), "{part} in {}", finding.text);
    }
    refused(NakCode::PsnSequence, 0).keeps("fatal-nak");
}

#[test]
fn a_requester_that_goes_on_behind_it() {
    refused(NakCode::InvalidRequest, 3).breaks("sends-after-fatal-nak");
    refused(NakCode::InvalidRequest, 0).keeps("sends-after-fatal-nak");
    let mut reset = refused(NakCode::InvalidRequest, 3);
    reset.ack(14, 15);
    reset.keeps("sends-after-fatal-nak");
}

#[test]
fn a_requester_that_a_nak_did_not_reach_repeats_what_was_refused() {
    let mut repeats = refused(NakCode::RemoteAccess, 0);
    for _ in 0..7 {
        (10..12).for_each(|psn| repeats.send(psn));
        repeats.wait(MS * 268);
    }
    repeats.keeps("sends-after-fatal-nak");
}

#[test]
fn each_fatal_nak_is_explained_with_what_to_check() {
    for (code, word) in [
        (NakCode::InvalidRequest, "path MTU"),
        (NakCode::RemoteAccess, "rkey"),
        (NakCode::RemoteOperational, "lkey"),
    ] {
        let [explanation] = &refused(code, 0).explanations()[..] else { panic!("one explanation") };
        assert_eq!(explanation.kind, EndKind::FatalNak);
        assert!(explanation.text.contains(word), "{word} in {explanation}");
    }
    assert_eq!(Scene::connected().explanations(), []);
}

/// `packet` to another queue pair.
fn to(qpn: u32, mut packet: Packet) -> Packet {
    packet.bth.dest_qpn = Qpn::new(qpn);
    packet
}

/// A NAK for PSN 0.
fn nak_to(qpn: u32, code: NakCode) -> Packet {
    let aeth = Some(Aeth { syndrome: Syndrome::nak(code), msn: 0 });
    to(qpn, Packet { aeth, ..back(Opcode::RC_ACKNOWLEDGE, 0, 0) })
}

#[test]
fn a_nak_that_ends_a_queue_pair_is_told_though_its_requests_are_not_known() {
    let two_pairs = |code| {
        let mut scene = Scene::new();
        let reth = Some(Reth { va: 0xabc0, rkey: 0x77, length: 8 });
        let write = Packet { reth, ..request(Opcode::RC_WRITE_ONLY, 0, 8) };
        [0, 1].iter().for_each(|at| scene.give(to(ANSWERS + at, write), &[]));
        [0, 1].iter().for_each(|at| scene.give(nak_to(ASKS + at, code), &[]));
        scene
    };
    let findings = two_pairs(NakCode::RemoteAccess).findings();
    let fatal = findings.iter().filter(|finding| finding.rule.name == "fatal-nak");
    let frames: Vec<_> = fatal.map(|finding| finding.frames.clone()).collect();
    assert_eq!(frames, [[3], [4]]);
    let explanations = two_pairs(NakCode::RemoteAccess).explanations();
    let kinds: Vec<_> = explanations.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [EndKind::FatalNak; 2]);
    two_pairs(NakCode::PsnSequence).keeps("fatal-nak");
    assert_eq!(two_pairs(NakCode::PsnSequence).explanations(), []);
}

#[test]
fn a_nak_that_ends_a_queue_pair_is_told_though_it_is_all_that_was_captured() {
    let alone = || {
        let mut scene = Scene::new();
        scene.give(nak_to(ASKS, NakCode::InvalidRequest), &[]);
        scene
    };
    let finding = alone().breaks("fatal-nak");
    assert!(finding.text.contains("invalid request for PSN 0"), "{}", finding.text);
    let [explanation] = &alone().explanations()[..] else { panic!("one explanation") };
    assert_eq!((explanation.kind, explanation.frame), (EndKind::FatalNak, 1));
}

/// SENDs went both ways and were acknowledged.
fn both_ask() -> Scene {
    let mut scene = Scene::connected();
    scene.give(back(Opcode::RC_SEND_ONLY, 500, 100), &[]);
    scene.give(from_asker(500, Syndrome::ack(31)), &[]);
    scene
}

/// What 10.0.0.1 says to a request of 10.0.0.2.
fn from_asker(psn: u32, syndrome: Syndrome) -> Packet {
    let aeth = Some(Aeth { syndrome, msn: psn });
    Packet { aeth, ..request(Opcode::RC_ACKNOWLEDGE, psn, 0) }
}

#[test]
fn whoever_refuses_a_request_for_good_waits_for_nothing_any_more() {
    let refuses = |begin: fn(Scene) -> Scene, code| {
        let mut scene = begin(both_ask());
        scene.give(back(Opcode::RC_SEND_ONLY, 501, 100), &[]);
        scene.give(from_asker(501, Syndrome::nak(code)), &[]);
        scene.wait(MS * 1000);
        scene.give(super::scene::management(false), &[]);
        scene
    };
    let not_ready = |mut scene: Scene| {
        scene.send(10);
        scene.rnr(10);
        scene
    };
    let repeats = |mut scene: Scene| {
        for _ in 0..4 {
            scene.send(10);
            scene.wait(MS * 10);
        }
        scene
    };
    for (begin, rule) in
        [(not_ready as fn(Scene) -> Scene, "rnr-retries-exceeded"), (repeats, "retries-exceeded")]
    {
        refuses(begin, NakCode::PsnSequence).breaks(rule);
        refuses(begin, NakCode::RemoteAccess).keeps(rule);
        let explanations = refuses(begin, NakCode::RemoteAccess).explanations();
        let kinds: Vec<_> = explanations.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [EndKind::FatalNak], "{explanations:?}");
    }
}
