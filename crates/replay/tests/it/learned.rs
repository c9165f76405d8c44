//! What a recording tells of the queue pair and the memory that it takes to play it.

use uroce_replay::{Access, Limits, RegionSetup, ReplayError, Setup};
use uroce_wire::{Feth, Mtu, Opcode, Psn, Reth, Syndrome};

use crate::scene::{ACCESS, ACK, INVALID, NOT_READY, RKEY, SEQUENCE, Scene, bytes};

fn learn(scene: &Scene) -> Setup {
    Setup::learn(&mut scene.recording(), &Limits::default()).expect("it can be played")
}

fn region(rkey: u32, start: u64, length: u64, access: Access) -> RegionSetup {
    let access = access | Access::LOCAL_WRITE;
    RegionSetup { rkey, start, length, access, is_window: false }
}

/// A request of any opcode with a RETH.
fn with_reth(
    scene: Scene,
    opcode: Opcode,
    psn: u32,
    va: u64,
    length: u32,
    payload: &[u8],
) -> Scene {
    scene.request(opcode, psn, &bytes(&Reth { va, rkey: RKEY, length }), payload)
}

#[test]
fn each_operation_shows_the_right_that_it_used() {
    let feth = bytes(&Feth { placement: 1, selectivity: 0 });
    let flush = [feth, bytes(&Reth { va: 0x1000, rkey: RKEY, length: 16 })].concat();
    let cases = [
        (Scene::default().write(5, 0x1000, &[1; 16]), Access::REMOTE_WRITE),
        (
            with_reth(Scene::default(), Opcode::RC_WRITE_FIRST, 5, 0x1000, 16, &[1; 256]),
            Access::REMOTE_WRITE,
        ),
        (Scene::default().read(5, 0x1000, 16), Access::REMOTE_READ),
        (Scene::default().request(Opcode::RC_FLUSH, 5, &flush, &[]), Access::FLUSH_GLOBAL),
    ];
    for (scene, access) in cases {
        let setup = learn(&scene.answer(5, ACK, 1));
        assert_eq!(setup.regions, [region(RKEY, 0x1000, 16, access)], "{access:?}");
        assert_eq!(setup.access, access | Access::LOCAL_WRITE);
    }
    let atomic = learn(&Scene::default().fetch_add(5, 0x1000, 1).answer(5, ACK, 1));
    assert_eq!(atomic.regions, [region(RKEY, 0x1000, 8, Access::REMOTE_ATOMIC)]);
    let sends = learn(&Scene::default().send(5).answer(5, ACK, 1));
    assert_eq!((sends.regions, sends.access), (vec![], Access::LOCAL_WRITE));
}

/// An address and a length.
type Range = (u64, u64);

#[test]
fn a_region_spans_all_that_was_named_under_its_key_from_a_multiple_of_8() {
    let cases: [(&[Range], Range); 6] = [
        (&[(0x1003, 5)], (0x1000, 8)),
        (&[(0x1000, 1)], (0x1000, 1)),
        (&[(0x1007, 1), (0x1001, 1)], (0x1000, 8)),
        (&[(0x2000, 16), (0x1000, 16)], (0x1000, 0x1010)),
        (&[(0, 4)], (0, 4)),
        (&[(u64::MAX - 8, 8)], (u64::MAX - 15, 15)),
    ];
    for (named, (start, length)) in cases {
        let mut scene = Scene::default();
        for (psn, (va, len)) in (5..).zip(named) {
            scene = scene.read(psn, *va, *len as u32);
        }
        let setup = learn(&scene.answer(5, ACK, 1));
        assert_eq!(setup.regions, [region(RKEY, start, length, Access::REMOTE_READ)], "{named:?}");
    }
}

/// Nothing is registered for a request of no bytes, or for one that leads over the end of all addresses.
#[test]
fn what_names_no_memory_registers_none() {
    for (va, length) in [(0x1000, 0), (u64::MAX, 2), (u64::MAX - 3, u32::MAX)] {
        let setup = learn(&Scene::default().read(5, va, length).answer(5, ACK, 1));
        assert_eq!(setup.regions, [], "{va:#x} {length}");
    }
}

#[test]
fn a_refused_request_shows_what_was_not_there() {
    let granted = Scene::default().write(5, 0x1000, &[1; 8]).answer(5, ACK, 1);
    let access = granted.read(6, 0x9000, 8).answer(6, ACCESS, 1);
    let setup = learn(&access);
    assert_eq!(setup.regions, [region(RKEY, 0x1000, 8, Access::REMOTE_WRITE)], "no such memory");
    assert!(setup.access.contains(Access::REMOTE_READ), "but the queue pair could be asked");
    let granted = Scene::default().write(5, 0x1000, &[1; 8]).answer(5, ACK, 1);
    let invalid = learn(&granted.read(6, 0x1000, 8).answer(6, INVALID, 1));
    assert!(!invalid.access.contains(Access::REMOTE_READ), "the queue pair could not be asked");
    let rights = Access::REMOTE_WRITE | Access::REMOTE_READ;
    assert_eq!(invalid.regions, [region(RKEY, 0x1000, 8, rights)]);
}

#[test]
fn a_key_that_was_invalidated_was_a_window() {
    let used =
        Scene::default().write(5, 0x1000, &[1; 8]).send_and_invalidate(6, RKEY).answer(6, ACK, 2);
    let window = RegionSetup { is_window: true, ..region(RKEY, 0x1000, 8, Access::REMOTE_WRITE) };
    assert_eq!(learn(&used).regions, [window]);
    let unused = Scene::default().send_and_invalidate(5, 0x77).answer(5, ACK, 1);
    let window = RegionSetup { is_window: true, ..region(0x77, 0, 8, Access::empty()) };
    assert_eq!(learn(&unused).regions, [window], "it was bound to something");
}

#[test]
fn regions_are_in_the_order_of_their_keys_and_their_bytes_are_limited_together() {
    let mut scene = Scene::default();
    for (psn, rkey) in (5..).zip([9u32, 3, 7]) {
        let reth = bytes(&Reth { va: 0x100, rkey, length: 100 });
        scene = scene.request(Opcode::RC_READ_REQUEST, psn, &reth, &[]);
    }
    let scene = scene.answer(7, ACK, 3);
    let keys: Vec<_> = learn(&scene).regions.iter().map(|region| region.rkey).collect();
    assert_eq!(keys, [3, 7, 9]);
    for (memory, wanted) in
        [(300, None), (299, Some((300, 9))), (199, Some((200, 7))), (99, Some((100, 3)))]
    {
        let limits = Limits { memory, ..Limits::default() };
        let learned = Setup::learn(&mut scene.recording(), &limits).err();
        let error =
            wanted.map(|(bytes, rkey)| ReplayError::TooMuchMemory { bytes, rkey, limit: memory });
        assert_eq!(learned, error, "{memory} bytes");
    }
    for (keys, fits) in [(3, true), (2, false), (0, false)] {
        let limits = Limits { keys, ..Limits::default() };
        let learned = Setup::learn(&mut scene.recording(), &limits).map(drop);
        assert_eq!(
            learned,
            if fits { Ok(()) } else { Err(ReplayError::TooManyKeys { limit: keys }) }
        );
    }
}

#[test]
fn the_path_mtu_is_that_of_full_packets_else_the_usual_one() {
    let first =
        |bytes: usize| Scene::default().request(Opcode::RC_SEND_FIRST, 5, &[], &vec![0; bytes]);
    for (bytes, mtu) in [
        (256, Mtu::M256),
        (512, Mtu::M512),
        (1024, Mtu::M1024),
        (2048, Mtu::M2048),
        (4096, Mtu::M4096),
    ] {
        let scene = first(bytes).request(Opcode::RC_SEND_LAST, 6, &[], b"end").answer(6, ACK, 1);
        assert_eq!(learn(&scene).path_mtu, mtu);
    }
    // A message of one packet only shows that the MTU is not smaller.
    let only =
        |bytes: usize| Scene::default().request(Opcode::RC_SEND_ONLY, 5, &[], &vec![0; bytes]);
    for (bytes, mtu) in
        [(0, Mtu::M1024), (1024, Mtu::M1024), (1025, Mtu::M2048), (2049, Mtu::M4096)]
    {
        assert_eq!(learn(&only(bytes).answer(5, ACK, 1)).path_mtu, mtu, "{bytes} bytes");
    }
    let response = Scene::default().read(5, 0, 3000);
    let response = response.response(Opcode::RC_READ_RESPONSE_ONLY, 5, ACK, 1, &[0; 3000]);
    assert_eq!(learn(&response).path_mtu, Mtu::M4096, "responses show it as well");
}

#[test]
fn the_rnr_timer_is_that_of_the_first_rnr_nak_else_the_usual_one() {
    let plain = Scene::default().send(5).answer(5, ACK, 1);
    assert_eq!(learn(&plain).rnr_timer, 12);
    for timer in [0, 1, 31] {
        let scene = Scene::default().send(5).answer(5, Syndrome::rnr(timer), 0);
        let scene = scene.send(5).answer(5, NOT_READY, 0).send(5).answer(5, ACK, 1);
        assert_eq!(learn(&scene).rnr_timer, timer);
    }
}

/// An upper bound of what a receive must hold, over all SENDs.
#[test]
fn the_longest_message_is_that_of_all_its_packets() {
    let scene = Scene::default()
        .send(5)
        .request(Opcode::RC_SEND_FIRST, 6, &[], &[0; 256])
        .request(Opcode::RC_SEND_MIDDLE, 7, &[], &[0; 256])
        .request(Opcode::RC_SEND_LAST, 8, &[], &[0; 100])
        .write(9, 0, &[0; 900])
        .answer(9, ACK, 3);
    assert_eq!(learn(&scene).longest_message, 612);
    let limits = Limits { memory: 900, ..Limits::default() };
    let learned = Setup::learn(&mut scene.recording(), &limits).map(|setup| setup.longest_message);
    assert_eq!(learned, Ok(612));
}

/// The first request that begins a message; what a first sequence NAK asks for; or nothing.
#[test]
fn the_first_psn_is_that_of_the_first_message_or_of_what_the_first_nak_asks_for() {
    let first = |scene: &Scene| learn(scene).first_psn.get();
    assert_eq!(first(&Scene::default().send(5).answer(5, ACK, 1)), 5);
    let middle = Scene::default().request(Opcode::RC_SEND_MIDDLE, 4, &[], &[0; 256]);
    let middle = middle.request(Opcode::RC_SEND_LAST, 5, &[], b"end").send(6).answer(6, ACK, 9);
    assert_eq!(first(&middle), 6, "the end of a message cannot be played without its beginning");
    let mut recording = middle.recording();
    let setup = Setup::learn(&mut recording, &Limits::default()).expect("it can be played");
    assert_eq!((setup.first_psn, recording.requests.len()), (Psn::new(6), 1));
    assert!(!setup.is_start_known);
    for (behind, wanted) in [(1, 999), (10, 990), (4095, 1000 - 4095), (4096, 1000)] {
        let asked = 1000u32.wrapping_sub(behind) & 0xff_ffff;
        let scene =
            Scene::default().send(1000).answer(asked, SEQUENCE, 0).send(1001).answer(1001, ACK, 2);
        assert_eq!(first(&scene), wanted as u32 & 0xff_ffff, "{behind} behind");
    }
}

#[test]
fn errors_are_sentences_with_their_numbers() {
    let (bytes, rkey, limit) = (300, 0x77, 256);
    let cases = [
        (
            ReplayError::NoRequest,
            "no request of the conversation can be played: the capture has no first packet of a message",
        ),
        (
            ReplayError::NoAnswer,
            "the capture has requests and no answer to them; capture both directions",
        ),
        (
            ReplayError::TooMuchMemory { bytes, rkey, limit },
            "the requests name 300 bytes of memory, the last of them under rkey 0x00000077; the limit is 256",
        ),
        (ReplayError::TooManyKeys { limit: 3 }, "the requests name more than 3 keys"),
        (ReplayError::TooManyAnswers { limit: 9 }, "the queue pair answered more than 9 packets"),
        (
            ReplayError::Setup("no memory".to_owned()),
            "the queue pair cannot be set up as the recording has it: no memory",
        ),
    ];
    for (error, words) in cases {
        assert_eq!(error.to_string(), words);
    }
}
