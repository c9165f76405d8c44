//! The report: its lines, its JSON, and what does not change it.

use uroce_replay::{Device, Difference, Limits, Mark, Options, Remote, Report, Verdict, play};
use uroce_wire::{Aeth, Bth, HeaderWriter, Opcode, Psn, Qpn, Syndrome};

use crate::scene::{ACCESS, ACK, INVALID, NOT_READY, RKEY, SEQUENCE, Scene};

fn with(scene: &Scene, options: Options) -> Report {
    let device = Device::default();
    play(scene.recording(), &device, &Limits::default(), &options).expect("it can be played")
}

#[test]
fn a_report_of_one_answer_reads_so() {
    let report = Scene::default().send(5).answer(5, ACK, 1).report();
    let head = "10.0.0.2 QP 0x22 answers 10.0.0.1 QP 0x11\n  \
                1 request played; path MTU 1024, first PSN 0x5, 0 memory regions of 0 bytes\n";
    let line = "    0.000001  frame 2      equal     RC_ACKNOWLEDGE PSN 0x000005 ACK MSN 1\n";
    let end = "same answers: 1 equal, 0 differ, 0 only then, 0 only now\n";
    assert_eq!(report.to_text(false), format!("{head}{line}{end}"));
    assert_eq!(report.to_text(true), format!("{head}{end}"));
}

#[test]
fn lines_of_answers_that_differ_say_what() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACCESS, 7);
    let text = scene.report().to_text(true);
    let line = "    0.000003  frame 4      differs   RC_ACKNOWLEDGE PSN 0x000006 NAK: remote access error MSN 7; now \
                RC_ACKNOWLEDGE PSN 0x000006 ACK MSN 2 (syndrome, MSN)\n";
    assert!(text.contains(line), "{text}");
    assert!(
        text.ends_with("the answers differ: 1 equal, 1 differ, 0 only then, 0 only now\n"),
        "{text}"
    );
}

#[test]
fn answers_of_one_side_only_are_shown_as_such() {
    let scene =
        Scene::default().send(5).answer(5, ACK, 1).answer(9, INVALID, 1).pause(3000).send(6);
    let text = scene.pause(3000).send(6).report().to_text(false);
    let then = "frame 3      only then RC_ACKNOWLEDGE PSN 0x000009 NAK: invalid request MSN 1\n";
    assert!(text.contains(then), "{text}");
    assert!(text.contains("1 only then"), "{text}");
}

#[test]
fn notes_stand_between_the_head_and_the_answers() {
    let scene = Scene::default()
        .send(5)
        .answer(5, ACK, 100)
        .send(6)
        .damaged()
        .send(6)
        .comment("fault: dropped by rule 1")
        .send(6)
        .answer(6, ACK, 101);
    let text = scene.report().to_text(true);
    let notes: Vec<&str> = text.lines().skip(2).take(3).collect();
    let wanted = [
        "  1 not played: wrong ICRC",
        "  1 not played: a fault rule took them away",
        "  MSNs of now are counted from 99, where the capture begins",
    ];
    assert_eq!(notes, wanted, "{text}");
}

#[test]
fn the_meaning_of_each_kind_of_syndrome_is_shown() {
    let shown = |syndrome: u8| {
        let scene =
            Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, Syndrome(syndrome), 2);
        let report = scene.report();
        let line = report.answers.iter().rev().find_map(|line| line.then.clone());
        line.and_then(|shown| shown.meaning).expect("a syndrome")
    };
    let cases = [
        (0x1f, "ACK"),
        (0x05, "ACK, credit code 5"),
        (0x2c, "RNR NAK, timer code 12"),
        (0x60, "NAK: PSN sequence error"),
        (0x61, "NAK: invalid request"),
        (0x62, "NAK: remote access error"),
        (0x63, "NAK: remote operational error"),
        (0x7f, "NAK of reserved code 31"),
        (0x80, "reserved syndrome 0x80"),
    ];
    for (syndrome, meaning) in cases {
        assert_eq!(shown(syndrome), meaning);
    }
}

/// What machines read: names in snake case, times in nanoseconds, nothing of our own numbering.
#[test]
fn a_report_in_json_has_these_fields() {
    let report = Scene::default().send(5).answer(5, ACK, 1).report();
    let json = serde_json::to_value(&report).expect("plain data");
    let keys: Vec<&str> = json.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut wanted = [
        "requester",
        "responder",
        "setup",
        "requests",
        "turns",
        "msn_offset",
        "restarts",
        "faults",
        "answers",
        "counts",
        "data",
        "verdict",
    ];
    wanted.sort_unstable();
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(keys, wanted);
    assert_eq!(json["verdict"], "same");
    assert_eq!(json["turns"], "each");
    assert_eq!(json["answers"][0]["mark"], "equal");
    assert_eq!(json["answers"][0]["time_ns"], 1_000);
    assert_eq!(json["answers"][0]["then"]["psn"], 5);
    assert!(json["answers"][0].get("position").is_none());
    assert_eq!(json["responder"]["qpn"], 0x22);
}

#[test]
fn names_of_differences_and_which_marks_are_some() {
    let names = [
        (Difference::Opcode, "opcode"),
        (Difference::Syndrome, "syndrome"),
        (Difference::Msn, "MSN"),
        (Difference::Length, "length"),
        (Difference::Data, "data"),
    ];
    assert!(names.iter().all(|(difference, name)| difference.name() == *name));
    let marks = [
        (Mark::Equal, false),
        (Mark::Differs, true),
        (Mark::OnlyThen, true),
        (Mark::OnlyNow, true),
        (Mark::Covered, false),
        (Mark::BehindTheEnd, false),
    ];
    assert!(marks.iter().all(|(mark, is)| mark.is_difference() == *is));
}

/// MSNs and credits, each with and without its option.
#[test]
fn what_counts_is_chosen_by_options() {
    let msn = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACK, 9);
    let credits = Scene::default().send(5).answer(5, Syndrome::ack(3), 1).send(6).answer(
        6,
        Syndrome::ack(0),
        2,
    );
    for ignore_msn in [false, true] {
        for ignore_credits in [false, true] {
            let options = Options { ignore_msn, ignore_credits, ..Options::default() };
            assert_eq!(with(&msn, options).differences(), u64::from(!ignore_msn));
            assert_eq!(with(&credits, options).differences(), 2 * u64::from(!ignore_credits));
        }
    }
    // Credits do not excuse a refusal.
    let refused = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACCESS, 1);
    let options = Options { ignore_msn: true, ignore_credits: true, ..Options::default() };
    assert_eq!(with(&refused, options).answers[1].differences, [Difference::Syndrome]);
}

/// A conversation of all kinds: its report is the same wherever its PSNs begin, over the wrap too.
#[test]
fn r15_a_recording_over_the_wrap_of_the_psn_is_played_like_any_other() {
    let scene = |base: u32| {
        let psn = |offset: u32| (base + offset) & 0xff_ffff;
        let (first, last) = (Opcode::RC_READ_RESPONSE_FIRST, Opcode::RC_READ_RESPONSE_LAST);
        let original = 7u64.to_be_bytes();
        Scene::default()
            .send(psn(0))
            .answer(psn(0), ACK, 1)
            .read(psn(1), 0x1000, 1030)
            .response(first, psn(1), ACK, 2, &[3; 1024])
            .response(last, psn(2), ACK, 2, &[4; 6])
            .send(psn(4))
            .answer(psn(3), SEQUENCE, 2)
            .send(psn(3))
            .answer(psn(4), ACK, 4)
            .fetch_add(psn(5), 0x2000, 1)
            .response(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn(5), ACK, 5, &original)
            .send(psn(6))
            .answer(psn(6), NOT_READY, 5)
            .send(psn(6))
            .answer(psn(6), ACK, 6)
            .report()
    };
    let marks = |report: &Report| report.answers.iter().map(|line| line.mark).collect::<Vec<_>>();
    let plain = scene(100);
    assert_eq!(plain.verdict, Verdict::Same, "{}", plain.to_text(false));
    for base in
        [0, 0x7f_fffd, 0xff_fff9, 0xff_fffa, 0xff_fffb, 0xff_fffc, 0xff_fffd, 0xff_fffe, 0xff_ffff]
    {
        let report = scene(base);
        assert_eq!((report.verdict, marks(&report)), (Verdict::Same, marks(&plain)), "{base:#x}");
        assert_eq!((report.counts, report.data), (plain.counts, plain.data), "{base:#x}");
        assert_eq!(report.setup.first_psn, base);
    }
}

/// Rules between the recording and the device, and what they make of a conversation that is the same without.
#[test]
fn each_fault_between_recording_and_device_does_what_it_does_on_a_wire() {
    let scene = Scene::default()
        .send(5)
        .answer(5, ACK, 1)
        .send(6)
        .answer(6, ACK, 2)
        .send(7)
        .answer(7, ACK, 3);
    let cases = [
        ("rx -> dup", Verdict::Same),
        ("tx -> dup", Verdict::Same),
        ("rx psn=5 -> drop", Verdict::Differs),
        ("rx psn=6 -> corrupt=payload", Verdict::Differs),
        ("rx psn=6 -> set:tver=1", Verdict::Differs),
        ("rx psn=6 -> set:dest_qp=0x99", Verdict::Differs),
        // A marked packet draws a CNP, which nothing drew then.
        ("rx -> ce", Verdict::Differs),
        ("tx psn=7 -> drop", Verdict::Differs),
        ("tx psn=7 -> set:syndrome=0x62", Verdict::Differs),
        ("tx psn=5 -> drop", Verdict::Same),
        ("rx -> pass", Verdict::Same),
    ];
    for (rule, verdict) in cases {
        let faults = Some((rule.parse().expect("a rule"), 1));
        let device = Device { faults, ..Device::default() };
        let report = play(scene.recording(), &device, &Limits::default(), &Options::default());
        let report = report.expect("it can be played");
        assert_eq!(report.verdict, verdict, "{rule}: {}", report.to_text(false));
    }
}

#[test]
fn a_packet_of_another_connection_is_not_admitted_and_counted() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACK, 2);
    let faults = Some(("rx psn=6 -> set:pkey=0x1234".parse().expect("a rule"), 1));
    let device = Device { faults, ..Device::default() };
    let report = play(scene.recording(), &device, &Limits::default(), &Options::default());
    let report = report.expect("it can be played");
    assert_eq!((report.requests.played, report.requests.not_admitted), (2, 1));
    assert!(report.to_text(true).contains("  1 dropped: not of this connection\n"));
}

/// The times at which another machine gets its requests are those of the recording.
#[test]
fn a_remote_is_given_each_request_at_its_time() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).pause(100).send(6).answer(6, ACK, 2);
    let mut remote =
        Remote::new(scene.recording(), false, &Limits::default()).expect("it can be played");
    let mut times = Vec::new();
    while let Some(time) = remote.next_time() {
        assert_eq!(remote.next_time(), Some(time), "asking changes nothing");
        times.push(time);
        let request = remote.poll_request().expect("it is due");
        assert_eq!((request.source_port, request.traffic_class), (0xc123, 0));
    }
    assert_eq!(times, [0, 102_000]);
    assert!(remote.poll_request().is_none());
}

/// A key that has no place on the other machine becomes one that nothing has, and its address stays.
#[test]
fn a_remote_asks_for_nothing_under_keys_of_the_recording() {
    let scene = Scene::default().write(5, 0x1234, b"word").answer(5, ACK, 1);
    let mut remote =
        Remote::new(scene.recording(), false, &Limits::default()).expect("it can be played");
    remote.place(RKEY + 1, 0x9000, 0xbeef);
    let sent = remote.poll_request().expect("one");
    assert_eq!(sent.covered[12..24], [&0x1234u64.to_be_bytes()[..], &[0; 4]].concat());
}

#[test]
fn a_remote_leaves_out_what_was_lost_if_asked_to() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).send(7);
    let scene = scene.answer(6, SEQUENCE, 1).send(6).send(7).answer(7, ACK, 3);
    let psns = |skips_lost| {
        let limits = Limits::default();
        let mut remote =
            Remote::new(scene.recording(), skips_lost, &limits).expect("it can be played");
        let sent: Vec<u8> =
            std::iter::from_fn(|| remote.poll_request()).map(|sent| sent.covered[11]).collect();
        (sent, remote.finish(&Options::default()).requests.lost)
    };
    assert_eq!(psns(false), (vec![5, 6, 7, 6, 7], 0));
    assert_eq!(psns(true), (vec![5, 7, 6, 7], 1));
}

/// An answer of another machine belongs to the newest request of its PSN, and is shown at its time.
#[test]
fn answers_of_a_remote_are_shown_where_their_requests_are() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).pause(5000).send(6).pause(5000).send(7);
    let mut remote =
        Remote::new(scene.recording(), false, &Limits::default()).expect("it can be played");
    remote.connect(Qpn::new(0x77), Qpn::new(0x88));
    while remote.poll_request().is_some() {}
    for psn in [5, 6] {
        let mut packet = [0; 20];
        let mut writer = HeaderWriter::new(&mut packet);
        writer.put(&Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0x88), Psn::new(psn))).expect("room");
        writer.put(&Aeth { syndrome: ACK, msn: psn - 4 }).expect("room");
        remote.handle_packet(&packet).expect("few answers");
    }
    let report = remote.finish(&Options::default());
    let lines: Vec<_> = report.answers.iter().map(|line| (line.mark, line.frame)).collect();
    assert_eq!(lines, [(Mark::Equal, 2), (Mark::OnlyNow, 5003)]);
}
