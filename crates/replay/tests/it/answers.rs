//! Which answers are the same, and which are not.

use uroce_replay::{Device, Difference, Limits, Mark, Options, Report, Turns, Verdict, play};
use uroce_wire::{Opcode, Reth, Syndrome};

use crate::scene;
use crate::scene::{ACCESS, ACK, INVALID, NOT_READY, RESPONDER, RKEY, SEQUENCE, Scene, bytes};

fn marks(report: &Report) -> Vec<Mark> {
    report.answers.iter().map(|line| line.mark).collect()
}

fn same(scene: Scene) {
    let report = scene.report();
    assert_eq!(report.verdict, Verdict::Same, "{}", report.to_text(false));
    assert!(report.counts.equal > 0, "{}", report.to_text(false));
}

#[test]
fn acknowledged_sends_are_the_same() {
    same(Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACK, 2));
}

#[test]
fn one_acknowledgement_of_then_covers_several_of_now() {
    let report = Scene::default().send(5).send(6).answer(6, ACK, 2).report();
    assert_eq!((report.verdict, report.turns), (Verdict::Same, Turns::Each));
    assert_eq!(marks(&report), [Mark::Covered, Mark::Equal]);
    let late = Scene::default().send(5).answer(5, ACK, 1).answer(5, ACK, 1).report();
    assert_eq!(marks(&late), [Mark::Equal, Mark::Covered]);
}

#[test]
fn a_message_that_was_not_counted_differs() {
    let report = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACK, 1).report();
    assert_eq!(report.verdict, Verdict::Differs);
    assert_eq!(report.answers[1].differences, [Difference::Msn]);
    let text = report.to_text(true);
    assert!(text.contains("ACK MSN 1; now RC_ACKNOWLEDGE PSN 0x000006 ACK MSN 2 (MSN)"), "{text}");
}

#[test]
fn msns_count_from_where_the_capture_begins() {
    let report = Scene::default().send(5).answer(5, ACK, 0xff_ffff).send(6).answer(6, ACK, 0);
    let report = report.report();
    assert_eq!((report.verdict, report.msn_offset), (Verdict::Same, 0xff_fffe));
    assert_eq!(report.answers[0].now.as_ref().and_then(|now| now.msn), Some(0xff_ffff));
}

#[test]
fn a_refusal_of_then_that_is_none_now_differs() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, SEQUENCE, 1);
    let report = scene.report();
    assert_eq!(marks(&report), [Mark::Equal, Mark::Differs]);
    assert_eq!(report.answers[1].differences, [Difference::Syndrome, Difference::Msn]);
}

#[test]
fn what_a_sequence_nak_lists_is_not_compared() {
    let missing_two = [0, 0, 0, 2];
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(8);
    same(scene.response(Opcode::RC_ACKNOWLEDGE, 6, SEQUENCE, 1, &missing_two));
}

/// How often a list of gaps comes depends on how many packets are taken in together.
#[test]
fn a_list_of_gaps_may_come_again_but_a_plain_nak_may_not() {
    let start = Scene::default().send(5).answer(5, ACK, 1).send_that_asks_for_gaps(7);
    let end = |scene: Scene| scene.send(6).answer(8, ACK, 4).report();

    let twice = start.nak_with_gap(6, 1).send_that_asks_for_gaps(8).nak_with_gap(6, 1);
    let report = end(twice.nak_with_gap(6, 1));
    assert_eq!(report.verdict, Verdict::Same, "{}", report.to_text(false));
    assert!(marks(&report).contains(&Mark::Covered), "{}", report.to_text(false));

    let plain = Scene::default().send(5).answer(5, ACK, 1).send(7).answer(6, SEQUENCE, 1);
    assert_eq!(end(plain.answer(6, SEQUENCE, 1).send(8)).verdict, Verdict::Differs);
}

#[test]
fn silence_of_then_differs_once_time_has_passed() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6);
    assert_eq!(marks(&scene.report()), [Mark::Equal, Mark::BehindTheEnd]);
    let mut waits = Scene::default().send(5).answer(5, ACK, 1).send(6);
    for _ in 0..2500 {
        waits = waits.send(6);
    }
    let report = waits.report();
    assert_eq!(report.verdict, Verdict::Differs, "{}", report.to_text(false));
}

#[test]
fn a_connection_that_is_closed_answers_no_more() {
    let scene = |pause| {
        let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).pause(pause);
        // The capture goes on with others.
        scene.disconnect(RESPONDER.1).pause(5000).disconnect(0x99).report()
    };
    assert_eq!(marks(&scene(100)), [Mark::Equal, Mark::BehindTheEnd]);
    assert_eq!(marks(&scene(3000)), [Mark::Equal, Mark::OnlyNow]);
}

#[test]
fn a_gap_is_refused_once_and_what_comes_behind_it_kept() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(7).answer(6, SEQUENCE, 1);
    same(scene.send(6).answer(7, ACK, 3));
}

#[test]
fn a_gap_that_closed_before_the_answer_was_no_gap() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(7).send(6).answer(7, ACK, 3);
    let report = scene.report();
    assert_eq!((report.verdict, report.turns), (Verdict::Same, Turns::Each));
    assert_eq!(marks(&report), [Mark::Equal, Mark::Covered, Mark::Equal]);
    let answered = Scene::default().send(5).answer(5, ACK, 1).send(7).answer(5, ACK, 1).send(6);
    assert_eq!(answered.answer(7, ACK, 3).report().verdict, Verdict::Differs);
}

#[test]
fn a_device_that_keeps_nothing_is_played_as_one() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(7).answer(6, SEQUENCE, 1);
    let scene = scene.send(6).answer(6, ACK, 2).send(7).answer(7, ACK, 3);
    let device = Device { drops_behind_gap: true, ..Device::default() };
    let (limits, options) = (Limits::default(), Options::default());
    let report = play(scene.recording(), &device, &limits, &options).expect("it can be played");
    assert_eq!(report.verdict, Verdict::Same, "{}", report.to_text(false));
}

#[test]
fn receives_were_there_when_the_recording_says_so() {
    let scene = Scene::default().send(5).answer(5, NOT_READY, 0).send(6);
    let scene = scene.send(5).answer(5, NOT_READY, 0).send(5).answer(5, ACK, 1);
    same(scene.send(6).answer(6, ACK, 2));
}

#[test]
fn the_rnr_timer_is_that_of_the_recording() {
    let other = Syndrome::rnr(3);
    same(Scene::default().send(5).answer(5, other, 0).send(5).answer(5, ACK, 1));
}

#[test]
fn memory_is_registered_for_what_succeeded() {
    let scene = Scene::default().write(5, 0x1003, b"words").answer(5, ACK, 1);
    same(scene.write(6, 0x9000, b"more words").answer(6, ACK, 2));
    let scene = Scene::default().write(5, 0x1000, b"words").answer(5, ACK, 1);
    same(scene.write(6, 0x9000, b"more words").answer(6, ACCESS, 1));
    let scene = Scene::default().write(5, 0x1000, b"words").answer(5, ACK, 1);
    same(scene.read(6, 0x1000, 4).answer(6, INVALID, 1));
}

#[test]
fn reads_show_what_was_in_memory_and_lengths_are_compared() {
    let only = Opcode::RC_READ_RESPONSE_ONLY;
    let read = |data: &[u8]| {
        Scene::default().read(5, 0x1000, 5).response(only, 5, ACK, 1, data).write(6, 0x1000, b"w")
    };
    let report = read(b"hello").answer(6, ACK, 2).report();
    assert_eq!((report.verdict, report.data.same, report.data.other), (Verdict::Same, 1, 0));
    let short = read(b"hell").answer(6, ACK, 2).report();
    assert_eq!(short.answers[0].differences, [Difference::Length]);
}

#[test]
fn data_that_the_application_changed_count_only_if_asked_for() {
    let only = Opcode::RC_READ_RESPONSE_ONLY;
    let scene = Scene::default().read(5, 0x1000, 4).response(only, 5, ACK, 1, b"then");
    let scene = scene.read(6, 0x1000, 4).response(only, 6, ACK, 2, b"next");
    let report = scene.report();
    assert_eq!((report.verdict, report.data.other), (Verdict::Same, 1));
    let options = Options { data: true, ..Options::default() };
    let report = play(scene.recording(), &Device::default(), &Limits::default(), &options);
    let report = report.expect("it can be played");
    assert_eq!(report.answers[1].differences, [Difference::Data]);
}

#[test]
fn a_repeated_atomic_is_not_done_twice() {
    let result = |scene: Scene, psn, msn, original: u64| {
        let headers = original.to_be_bytes();
        scene.response(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, ACK, msn, &headers)
    };
    let scene = |again: u64| {
        let scene = result(Scene::default().fetch_add(5, 0x1000, 2), 5, 1, 40);
        let scene = result(scene.fetch_add(5, 0x1000, 2), 5, 1, 40);
        result(scene.fetch_add(6, 0x1000, 2), 6, 2, again)
    };
    let options = Options { data: true, ..Options::default() };
    let verdict = |scene: Scene| {
        let report = play(scene.recording(), &Device::default(), &Limits::default(), &options);
        report.expect("it can be played").verdict
    };
    assert_eq!(verdict(scene(42)), Verdict::Same);
    assert_eq!(verdict(scene(44)), Verdict::Differs);
}

#[test]
fn an_invalidated_key_was_a_window() {
    let scene = Scene::default().write(5, 0x1000, b"words").answer(5, ACK, 1);
    let scene = scene.send_and_invalidate(6, RKEY).answer(6, ACK, 2);
    same(scene.write(7, 0x1000, b"words").answer(7, ACCESS, 2));
}

#[test]
fn what_the_responder_never_got_is_not_played() {
    let scene = Scene::default().send(5).answer(5, ACK, 1);
    let scene = scene.send(6).comment("fault: dropped by rule 1").send(7).answer(6, SEQUENCE, 1);
    let report = scene.send(6).answer(7, ACK, 3).report();
    assert_eq!((report.verdict, report.requests.taken_away), (Verdict::Same, 1));
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).damaged().send(6);
    let report = scene.answer(6, ACK, 2).report();
    assert_eq!((report.verdict, report.requests.damaged), (Verdict::Same, 1));
}

#[test]
fn nothing_of_a_damaged_packet_is_believed() {
    let damaged = Scene::default().write(0x80_0000, 0x1000, b"words").with_damaged_key();
    let scene = damaged.write(5, 0x1000, b"words").answer(5, ACK, 1);
    let scene = scene.read(6, 0x1000, u32::MAX).damaged().write(6, 0x1000, b"words");
    let scene = scene.answer(6, INVALID, 1).damaged().answer(6, ACK, 2);
    let report = scene.report();
    assert_eq!((report.verdict, report.requests.damaged), (Verdict::Same, 2));
    assert_eq!(marks(&report), [Mark::Equal, Mark::Equal]);
    assert_eq!((report.setup.first_psn, report.setup.regions), (5, 1));
}

#[test]
fn what_was_lost_behind_the_capture_is_left_out_if_asked_for() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).send(7);
    let scene = scene.answer(6, SEQUENCE, 1).send(6).answer(7, ACK, 3);
    assert_eq!(scene.report().verdict, Verdict::Differs);
    let device = Device { skips_lost: true, ..Device::default() };
    let report = play(scene.recording(), &device, &Limits::default(), &Options::default());
    let report = report.expect("it can be played");
    assert_eq!((report.verdict, report.requests.lost), (Verdict::Same, 1));
}

/// A NAK that comes again may cross the packet that it asks for.
#[test]
fn what_was_sent_again_once_and_is_acknowledged_was_not_lost() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).send_that_asks_for_gaps(7);
    let scene = scene.nak_with_gap(6, 1).send_that_asks_for_gaps(8).send(6).nak_with_gap(6, 1);
    let scene = scene.answer(8, ACK, 4);
    let device = Device { skips_lost: true, ..Device::default() };
    let report = play(scene.recording(), &device, &Limits::default(), &Options::default());
    let report = report.expect("it can be played");
    assert_eq!(report.requests.lost, 1);
    assert_eq!(report.verdict, Verdict::Same, "{}", report.to_text(false));
}

#[test]
fn credits_of_other_devices_can_be_left_out() {
    let scene = Scene::default().send(5).answer(5, Syndrome::ack(7), 1);
    assert_eq!(scene.report().answers[0].differences, [Difference::Syndrome]);
    let options = Options { ignore_credits: true, ..Options::default() };
    let report = play(scene.recording(), &Device::default(), &Limits::default(), &options);
    assert_eq!(report.expect("it can be played").verdict, Verdict::Same);
}

#[test]
fn a_fault_between_the_recording_and_the_device_differs() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACK, 2);
    for rule in ["rx drop count=1", "tx drop count=1"] {
        let faults = Some((rule.parse().expect("a rule"), 1));
        let device = Device { faults, ..Device::default() };
        let report = play(scene.recording(), &device, &Limits::default(), &Options::default());
        let report = report.expect("it can be played");
        let is_different = rule.starts_with("rx");
        // An ACK that is lost is made up for by the next one.
        assert_eq!(report.verdict == Verdict::Differs, is_different, "{rule}");
    }
}

/// What answers in the place of the responder keeps the request from it as well, whatever was done to it before.
#[test]
fn what_a_rule_answered_is_not_played() {
    let scene = Scene::default().send(5).comment("fault: answered with rnr:12 by rule 1");
    let scene = scene.answer(5, NOT_READY, 0).comment("fault: answered with rnr:12 by rule 1");
    let scene = scene.send(5).answer(5, ACK, 1).send(6);
    let scene = scene.comment("fault: delayed by 1us by rule 1; dropped by rule 2");
    let report = scene.send(6).answer(6, ACK, 2).report();
    assert_eq!((report.verdict, report.requests.taken_away), (Verdict::Same, 2));
}

/// A packet that a rule delays comes at its time: before the next request, or behind all of them.
#[test]
fn what_a_rule_delays_comes_when_it_is_due() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).pause(100).send(6).answer(6, ACK, 2);
    for (rule, verdict) in [
        ("rx psn=5 -> delay=20us", Verdict::Same),
        ("rx psn=6 -> delay=10ms", Verdict::Same),
        ("tx -> delay=10ms", Verdict::Same),
        ("rx psn=5 -> delay=200us", Verdict::Differs),
    ] {
        let faults = Some((rule.parse().expect("a rule"), 1));
        let device = Device { faults, drops_behind_gap: true, ..Device::default() };
        let report = play(scene.recording(), &device, &Limits::default(), &Options::default());
        let report = report.expect("it can be played");
        assert_eq!(report.verdict, verdict, "{rule}: {}", report.to_text(false));
        let applied = if rule.starts_with("tx") { 2 } else { 1 };
        assert_eq!(report.faults[0].applied, applied, "{rule}");
        assert!(report.to_text(false).contains(&format!("{applied} applied")), "{rule}");
    }
}

#[test]
fn a_cut_capture_is_played_with_zeros() {
    let reth = bytes(&Reth { va: 0x1000, rkey: RKEY, length: 100 });
    let scene = Scene::default().request(Opcode::RC_WRITE_ONLY, 5, &reth, &[7; 100]);
    let scene = scene.answer(5, ACK, 1);
    let recording = scene.recordings(64).remove(0);
    let report = play(recording, &Device::default(), &Limits::default(), &Options::default());
    let report = report.expect("it can be played");
    assert_eq!((report.verdict, report.requests.cut), (Verdict::Same, 1));
}

#[test]
fn captures_of_rxe_are_answered_as_it_did() {
    for name in ["rc-send", "rc-send-ipv6", "write-lat", "fetch-add", "loss"] {
        for recording in scene::pcap(name) {
            // rxe keeps nothing behind a gap.
            let device = Device { drops_behind_gap: true, ..Device::default() };
            let report = play(recording, &device, &Limits::default(), &Options::default());
            let report = report.expect("it can be played");
            assert_eq!(report.verdict, Verdict::Same, "{name}: {}", report.to_text(true));
            assert!(report.counts.equal >= 5, "{name}: {:?}", report.counts);
        }
    }
}

#[test]
fn the_same_recording_always_gives_the_same_report() {
    let report = || {
        let limits = Limits::default();
        let all = scene::pcap("loss").into_iter();
        let played = all.map(|one| play(one, &Device::default(), &limits, &Options::default()));
        serde_json::to_string(&played.map(|report| report.expect("it plays")).collect::<Vec<_>>())
    };
    assert_eq!(report().expect("plain data"), report().expect("plain data"));
}
