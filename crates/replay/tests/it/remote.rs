//! Recordings played to a queue pair of another device.

use uroce_replay::{
    Limits, Mark, Options, Remote, RemoteRequest, ReplayError, Report, Turns, Verdict,
};
use uroce_wire::{Aeth, Bth, HeaderWriter, ICRC_LEN, Opcode, Packet, Psn, Qpn, Reth, Syndrome};

use crate::scene::{ACCESS, ACK, NOT_READY, RKEY, SEQUENCE, Scene, bytes};

const PEER: Qpn = Qpn::new(0x77);
const OWN: Qpn = Qpn::new(0x88);

fn remote(scene: &Scene) -> Remote {
    let mut remote =
        Remote::new(scene.recording(), false, &Limits::default()).expect("it can be played");
    remote.connect(PEER, OWN);
    remote
}

fn answer(to: Qpn, psn: u32, syndrome: Syndrome, msn: u32) -> Vec<u8> {
    let mut packet = vec![0; 20];
    let mut writer = HeaderWriter::new(&mut packet);
    writer.put(&Bth::new(Opcode::RC_ACKNOWLEDGE, to, Psn::new(psn))).expect("room");
    writer.put(&Aeth { syndrome, msn }).expect("room");
    packet
}

fn requests(remote: &mut Remote) -> Vec<RemoteRequest> {
    std::iter::from_fn(|| remote.poll_request()).collect()
}

/// Sends everything, and answers each request with one of these.
fn answered(scene: &Scene, answers: &[Vec<u8>]) -> Report {
    let mut remote = remote(scene);
    let count = requests(&mut remote).len();
    assert!(count > 0 && remote.next_time().is_none());
    for packet in answers {
        remote.handle_packet(packet).expect("few answers");
    }
    remote.finish(&Options::default())
}

#[test]
fn requests_go_to_the_queue_pair_keys_and_addresses_of_now() {
    let scene = Scene::default().write(5, 0x1010, b"word").read(6, 0x1000, 8).answer(6, ACK, 2);
    let mut remote = remote(&scene);
    let region = remote.setup().regions[0];
    assert_eq!((region.rkey, region.start, region.length), (RKEY, 0x1000, 0x14));
    remote.place(RKEY, 0x7f12_0000, 0xbeef);
    let sent = requests(&mut remote);
    let seen = sent.iter().map(|request| {
        let whole = [&request.covered[..], &[0; ICRC_LEN]].concat();
        let packet = Packet::parse(&whole).expect("a packet");
        assert_eq!((packet.bth.dest_qpn, request.wants_receive), (PEER, false));
        (packet.bth.psn.get(), packet.reth())
    });
    let at = |va, length| Some(Reth { va, rkey: 0xbeef, length });
    let seen: Vec<_> = seen.collect();
    assert_eq!(seen, [(5, at(0x7f12_0010, 4)), (6, at(0x7f12_0000, 8))]);
}

#[test]
fn a_receive_is_posted_for_a_send_that_was_not_told_to_wait() {
    let scene = Scene::default().send(5).answer(5, NOT_READY, 0).send(5).answer(5, ACK, 1);
    let wanted: Vec<bool> =
        requests(&mut remote(&scene)).iter().map(|request| request.wants_receive).collect();
    assert_eq!(wanted, [false, true]);
}

#[test]
fn answers_as_recorded_are_the_same_and_late_ones_find_their_request() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(6).answer(6, ACK, 2);
    let report = answered(&scene, &[answer(OWN, 5, ACK, 1), answer(OWN, 6, ACK, 2)]);
    assert_eq!((report.verdict, report.turns), (Verdict::Same, Turns::Peer));
    assert_eq!((report.requests.played, report.counts.equal), (2, 2));
}

#[test]
fn another_answer_differs_and_packets_of_other_queue_pairs_do_not_count() {
    let scene = Scene::default().send(5).answer(5, ACK, 1).send(7).answer(6, SEQUENCE, 1);
    let answers = [answer(OWN, 5, ACK, 1), answer(OWN, 6, ACCESS, 1), answer(PEER, 6, SEQUENCE, 1)];
    let report = answered(&scene, &answers);
    let marks: Vec<Mark> = report.answers.iter().map(|line| line.mark).collect();
    assert_eq!((report.verdict, marks), (Verdict::Differs, vec![Mark::Equal, Mark::Differs]));
}

#[test]
fn answers_are_limited_and_nonsense_is_left_out() {
    let limits = Limits { answers: 1, ..Limits::default() };
    let scene = Scene::default().send(5).answer(5, ACK, 1);
    let mut remote = Remote::new(scene.recording(), false, &limits).expect("it can be played");
    remote.connect(PEER, OWN);
    let _ = requests(&mut remote);
    assert_eq!(remote.handle_packet(b"nonsense"), Ok(()));
    assert_eq!(remote.handle_packet(&answer(OWN, 5, ACK, 1)), Ok(()));
    let more = remote.handle_packet(&answer(OWN, 5, ACK, 1));
    assert_eq!(more, Err(ReplayError::TooManyAnswers { limit: 1 }));
}

#[test]
fn memory_windows_cannot_be_made_from_afar() {
    let reth = bytes(&Reth { va: 0x1000, rkey: RKEY, length: 4 });
    let scene = Scene::default()
        .request(Opcode::RC_WRITE_ONLY, 5, &reth, b"word")
        .send_and_invalidate(6, RKEY)
        .answer(6, ACK, 2);
    let error = Remote::new(scene.recording(), false, &Limits::default()).map(drop);
    let said = error.expect_err("nobody can bind it").to_string();
    assert!(said.contains("rkey 0x00012345 was a memory window"), "{said}");
}
