//! Captures that cannot be played, or that were made to do harm.

use uroce_replay::{Device, Limits, Options, Recorder, Recording, ReplayError, play};
use uroce_wire::{Opcode, Reth};

use crate::scene;
use crate::scene::{ACK, RKEY, Scene, bytes};

fn outcome(recording: Recording, limits: &Limits) -> Result<(), ReplayError> {
    play(recording, &Device::default(), limits, &Options::default()).map(|_| ())
}

#[test]
fn what_lacks_a_side_is_refused() {
    assert_eq!(Scene::default().send(5).send(6).play().err(), Some(ReplayError::NoAnswer));
    assert!(Scene::default().answer(5, ACK, 1).recordings(usize::MAX).is_empty());
    assert!(scene::pcap("ud-send").is_empty());
    let middle = Scene::default().request(Opcode::RC_SEND_MIDDLE, 5, &[], &[0; 256]);
    assert_eq!(middle.answer(5, ACK, 1).play().err(), Some(ReplayError::NoRequest));
}

#[test]
fn lengths_of_the_wire_allocate_nothing() {
    let huge = Scene::default().read(5, 0x1000, u32::MAX).answer(5, ACK, 1).play();
    let Err(ReplayError::TooMuchMemory { bytes, rkey, .. }) = huge else { panic!("{huge:?}") };
    assert_eq!((bytes, rkey), (u64::from(u32::MAX), RKEY));
    let apart = Scene::default().write(5, 8, b"here").write(6, 1 << 60, b"and there");
    let apart = apart.answer(6, ACK, 2).play();
    assert!(matches!(apart, Err(ReplayError::TooMuchMemory { .. })), "{apart:?}");
}

#[test]
fn addresses_beyond_the_end_are_refused_by_the_device() {
    let scene = Scene::default().write(5, u64::MAX - 1, b"words").answer(5, scene::ACCESS, 0);
    assert_eq!(scene.report().differences(), 0);
    let scene = Scene::default().write(5, u64::MAX - 1, b"words").answer(5, ACK, 1);
    assert_eq!(scene.report().differences(), 1);
}

#[test]
fn every_limit_holds() {
    let mut keys = Scene::default();
    for key in 1..10 {
        let reth = bytes(&Reth { va: 0, rkey: key, length: 4 });
        keys = keys.request(Opcode::RC_WRITE_ONLY, key, &reth, b"four");
    }
    let keys = keys.answer(9, ACK, 9).recording();
    let few = Limits { keys: 3, ..Limits::default() };
    assert_eq!(outcome(keys, &few), Err(ReplayError::TooManyKeys { limit: 3 }));
    let long = Scene::default().read(5, 0, 1 << 20).answer(5, ACK, 1).recording();
    let few = Limits { answers: 16, ..Limits::default() };
    assert_eq!(outcome(long, &few), Err(ReplayError::TooManyAnswers { limit: 16 }));
}

#[test]
fn packets_beyond_the_limit_are_counted() {
    let path = format!("{}/../../pcaps/loss.pcap", env!("CARGO_MANIFEST_DIR"));
    let capture = std::fs::read(path).expect("a capture of the repository");
    let limits = Limits { packets: 100, ..Limits::default() };
    let mut recorder = Recorder::new(uroce_analyze::DissectorConfig::default(), limits);
    let mut reader = uroce_analyze::CaptureReader::new(&capture[..]).expect("a capture");
    while let Some(frame) = reader.next_frame().expect("whole") {
        recorder.handle_frame(&frame);
    }
    assert_eq!(recorder.packets(), 300);
    let recordings = recorder.finish();
    let kept: usize = recordings.iter().map(|one| one.requests.len() + one.answers.len()).sum();
    assert_eq!(kept, 100);
    assert_eq!(recordings.iter().map(|one| one.left_out).sum::<u64>(), 200);
}

/// Bytes of good captures changed at many places: nothing panics, and every loop ends.
#[test]
fn damaged_bytes_end_well() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let limits = Limits { memory: 1 << 20, answers: 1 << 12, ..Limits::default() };
    let mut played = 0;
    for name in ["rc-send", "write-lat", "fetch-add"] {
        let path = format!("{}/../../pcaps/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
        let good = std::fs::read(path).expect("a capture of the repository");
        for _ in 0..60 {
            let mut bytes = good.clone();
            for _ in 0..40 {
                let at = 24 + random() as usize % (bytes.len() - 24);
                bytes[at] = random() as u8;
            }
            for mut recording in scene::recordings(&bytes) {
                // As in a capture whose ICRCs say nothing.
                recording.requests.iter_mut().for_each(|request| request.is_damaged = false);
                played += u32::from(outcome(recording, &limits).is_ok());
            }
        }
    }
    assert!(played > 50, "{played}");
}
