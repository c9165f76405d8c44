//! When a receive was posted, when an answer came too late to be in the capture, and how marks add up.

use uroce_replay::{Device, Limits, Mark, Options, Remote, Report, play};
use uroce_wire::{Opcode, Reth};

use crate::scene;
use crate::scene::{ACK, NOT_READY, RKEY, Scene, bytes};

/// For each request whether a receive is posted before it.
fn wanted(scene: &Scene) -> Vec<bool> {
    let limits = Limits::default();
    let mut remote = Remote::new(scene.recording(), false, &limits).expect("it can be played");
    std::iter::from_fn(|| remote.poll_request()).map(|request| request.wants_receive).collect()
}

fn write_with_imm(scene: Scene, psn: u32) -> Scene {
    let reth = bytes(&Reth { va: 0x1000, rkey: RKEY, length: 4 });
    scene.request(Opcode::RC_WRITE_ONLY_IMM, psn, &[&reth[..], &[0, 0, 0, 1]].concat(), b"word")
}

/// One for each message that takes one, before its first packet, and none for a repetition.
#[test]
fn each_message_that_takes_a_receive_gets_one() {
    let sends = Scene::default().send(5).send(6).answer(6, ACK, 2);
    assert_eq!(wanted(&sends), [true, true]);
    let writes = write_with_imm(Scene::default().write(5, 0x1000, b"word"), 6).answer(6, ACK, 2);
    assert_eq!(wanted(&writes), [false, true]);
    let others = Scene::default().read(5, 0x1000, 8).fetch_add(6, 0x1000, 1).answer(6, ACK, 2);
    assert_eq!(wanted(&others), [false, false]);
    let long = Scene::default()
        .request(Opcode::RC_SEND_FIRST, 5, &[], &[0; 256])
        .request(Opcode::RC_SEND_MIDDLE, 6, &[], &[0; 256])
        .request(Opcode::RC_SEND_LAST, 7, &[], b"end")
        .answer(7, ACK, 1);
    assert_eq!(wanted(&long), [true, false, false]);
    let again = Scene::default().send(5).answer(5, ACK, 1).send(5).answer(5, ACK, 1);
    assert_eq!(wanted(&again), [true, false]);
}

/// An attempt that drew an RNR NAK had none; what came behind it was not executed either.
#[test]
fn attempts_that_were_told_to_wait_had_no_receive() {
    let twice = Scene::default().send(5).answer(5, NOT_READY, 0).send(5).answer(5, NOT_READY, 0);
    assert_eq!(wanted(&twice.send(5).answer(5, ACK, 1)), [false, false, true]);
    let behind = Scene::default().send(5).send(6).answer(5, NOT_READY, 0);
    let behind = behind.send(5).answer(5, ACK, 1).send(6).answer(6, ACK, 2);
    assert_eq!(wanted(&behind), [false, false, true, true]);
    let second = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, NOT_READY, 1);
    assert_eq!(wanted(&second.send(6).answer(6, ACK, 2)), [true, false, true]);
    let imm = write_with_imm(Scene::default(), 5).answer(5, NOT_READY, 0);
    assert_eq!(wanted(&write_with_imm(imm, 5).answer(5, ACK, 1)), [false, true]);
}

fn marks(report: &Report) -> Vec<Mark> {
    report.answers.iter().map(|line| line.mark).collect()
}

/// An answer may be missing for a millisecond before the end, and not a microsecond longer.
#[test]
fn the_end_of_a_capture_excuses_a_millisecond() {
    for (pause, mark) in [(0, Mark::BehindTheEnd), (998, Mark::BehindTheEnd), (999, Mark::OnlyNow)]
    {
        let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).pause(pause);
        // Another conversation goes on.
        let report = scene.disconnect(0x99).report();
        assert_eq!(marks(&report), [Mark::Equal, mark], "{pause} us later");
    }
}

/// Of three responses to a READ the capture has the first; the others came, or did not.
#[test]
fn responses_that_were_never_captured_are_only_now() {
    let first = Opcode::RC_READ_RESPONSE_FIRST;
    let scene = Scene::default().read(5, 0x1000, 2100).response(first, 5, ACK, 1, &[0; 1024]);
    let report = scene.pause(3000).disconnect(0x99).report();
    // Answers of now stand where their request does, in front of the recorded one.
    assert_eq!(marks(&report), [Mark::OnlyNow, Mark::OnlyNow, Mark::Equal]);
    assert_eq!(report.differences(), 2);
}

/// What then had more of is only then, and each mark is counted once.
#[test]
fn marks_are_counted_and_differences_are_three_of_them() {
    let mut seen = 0;
    for name in ["rc-send", "rc-send-ipv6", "write-lat", "fetch-add", "loss"] {
        for recording in scene::pcap(name) {
            for drops_behind_gap in [false, true] {
                let device = Device { drops_behind_gap, ..Device::default() };
                let played =
                    play(recording.clone(), &device, &Limits::default(), &Options::default());
                let report = played.expect("it can be played");
                let counts = report.counts;
                let of =
                    |mark| report.answers.iter().filter(|line| line.mark == mark).count() as u64;
                assert_eq!((counts.equal, counts.differs), (of(Mark::Equal), of(Mark::Differs)));
                assert_eq!(
                    (counts.only_then, counts.only_now),
                    (of(Mark::OnlyThen), of(Mark::OnlyNow))
                );
                assert_eq!(
                    (counts.covered, counts.behind_the_end),
                    (of(Mark::Covered), of(Mark::BehindTheEnd))
                );
                let differences = counts.differs + counts.only_then + counts.only_now;
                assert_eq!(report.differences(), differences, "{name}");
                for line in &report.answers {
                    let both = line.then.is_some() && line.now.is_some();
                    assert_eq!(
                        both,
                        matches!(line.mark, Mark::Equal | Mark::Differs),
                        "{name} {line:?}"
                    );
                    assert_eq!(
                        line.differences.is_empty(),
                        line.mark != Mark::Differs,
                        "{name} {line:?}"
                    );
                }
                assert!(
                    report.answers.windows(2).all(|pair| pair[0].frame <= pair[1].frame),
                    "{name}"
                );
                seen += report.answers.len();
            }
        }
    }
    assert!(seen > 100, "{seen} answers");
}
