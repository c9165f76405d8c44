//! Answers that the injector makes.

use uroce_fault::{Direction, Origin, Refusal, Verdict};
use uroce_wire::{Aeth, Bth, Header, Opcode, Syndrome};

use crate::packets;
use crate::packets::{LOCAL, LOCAL_QP, REMOTE, REMOTE_QP, Wire, ack, acknowledge, cm, data, send};
use crate::packets::{TestPacket, send_back};

/// The answer that came out last.
fn answer(wire: &Wire) -> (Bth, Aeth) {
    let out = wire.out.last().expect("an answer");
    assert_eq!(out.origin, Origin::Answer);
    assert_eq!(out.packet.meta.direction, Direction::Rx);
    assert!(out.packet.icrc_is_right());
    let bytes = &out.packet.bytes;
    (Bth::read(bytes).expect("a BTH"), Aeth::read(&bytes[12..]).expect("an AETH"))
}

#[test]
fn an_answer_needs_the_queue_pair_of_the_sender() {
    let mut wire = Wire::new("tx op=send -> answer:nak:2");
    assert_eq!(wire.give(&send(1)), Verdict::Pass);
    let report = wire.injector.report().next().expect("a rule");
    assert_eq!((report.matched, report.applied, report.not_applied), (1, 0, 1));
    assert_eq!(report.reason.map(|reason| reason.to_string()).as_deref(), Some("peer QPN unknown"));
}

#[test]
fn acknowledgements_show_it() {
    let mut wire = Wire::new("tx op=send psn=6 -> answer:nak:2");
    wire.give(&send(5));
    wire.give(&acknowledge(5, Syndrome::ack(31), 77));
    assert_eq!(wire.give(&send(6)), Verdict::Dropped);
    let (bth, aeth) = answer(&wire);
    assert_eq!(
        (bth.dest_qpn.get(), bth.psn.get(), bth.opcode),
        (LOCAL_QP, 6, Opcode::RC_ACKNOWLEDGE)
    );
    assert_eq!((aeth.syndrome.0, aeth.msn), (0x62, 77));
    let flow = wire.out.last().expect("an answer").packet.meta.flow;
    assert_eq!((flow.src, flow.dst, flow.dst_port), (REMOTE.into(), LOCAL.into(), 4791));
    assert_eq!(wire.comments[2], "fault: answered with nak:2 by rule 1");
}

#[test]
fn two_candidates_show_nothing() {
    let mut wire = Wire::new("tx op=send psn=6 -> answer:nak:2");
    wire.give(&send(5));
    wire.give(&TestPacket::new(Direction::Tx, Opcode::RC_SEND_ONLY, REMOTE_QP + 1, 5, &[]));
    wire.give(&ack(5));
    assert_eq!(wire.give(&send(6)), Verdict::Pass);
}

#[test]
fn connection_management_shows_it() {
    let mut wire = Wire::new("tx op=send -> answer:rnr:12");
    let mut request = [0; 36];
    request[..4].copy_from_slice(&[1, 2, 3, 4]);
    request[33..35].copy_from_slice(&(LOCAL_QP as u16).to_be_bytes());
    request[34] = 0;
    request[32..35].copy_from_slice(&LOCAL_QP.to_be_bytes()[1..]);
    wire.give(&cm(0x10, &request));
    let mut reply = [0; 16];
    reply[4..8].copy_from_slice(&[1, 2, 3, 4]);
    reply[12..15].copy_from_slice(&REMOTE_QP.to_be_bytes()[1..]);
    let mut reply = cm(0x13, &reply);
    reply.meta = packets::meta(Direction::Rx);
    wire.give(&reply);
    assert_eq!(wire.give(&send(3)), Verdict::Dropped);
    assert_eq!(answer(&wire).1.syndrome, Syndrome::rnr(12));
}

#[test]
fn the_caller_may_say_it() {
    let mut wire = Wire::new("any -> answer:ack");
    wire.injector.learn_peer((LOCAL.into(), LOCAL_QP), (REMOTE.into(), REMOTE_QP));
    assert_eq!(wire.give(&send(3)), Verdict::Dropped);
    let (bth, aeth) = answer(&wire);
    assert_eq!((bth.dest_qpn.get(), aeth.syndrome, aeth.msn), (LOCAL_QP, Syndrome::ack(31), 1));
    assert_eq!(wire.give(&send_back(8)), Verdict::Dropped);
    let out = wire.out.last().expect("an answer");
    assert_eq!(Bth::read(&out.packet.bytes).expect("a BTH").dest_qpn.get(), REMOTE_QP);
    assert_eq!(out.packet.meta.direction, Direction::Tx);
    assert_eq!(out.packet.meta.tag, 99);
}

#[test]
fn a_cnp_lets_its_packet_pass() {
    let mut wire = Wire::new("tx -> answer:cnp");
    assert_eq!(wire.give(&data(Opcode::UD_SEND_ONLY, 1)), Verdict::Pass);
    let cnp = &wire.out[1].packet;
    assert_eq!((cnp.opcode(), cnp.bytes.len()), (Opcode::CNP, 32));
    assert!(cnp.icrc_is_right());
}

#[test]
fn an_answered_packet_may_pass_as_well() {
    let mut wire = Wire::new("any -> answer:ack, pass");
    wire.injector.learn_peer((LOCAL.into(), LOCAL_QP), (REMOTE.into(), REMOTE_QP));
    assert_eq!(wire.give(&send(3)), Verdict::Pass);
    assert_eq!(wire.out.len(), 2);
}

#[test]
fn only_requests_are_acknowledged() {
    for packet in [ack(1), data(Opcode::UC_SEND_ONLY, 1), data(Opcode::CNP, 0)] {
        let mut wire = Wire::new("any -> answer:ack");
        wire.injector.learn_peer((LOCAL.into(), LOCAL_QP), (REMOTE.into(), REMOTE_QP));
        assert_eq!(wire.give(&packet), Verdict::Pass);
        let report = wire.injector.report().next().expect("a rule");
        assert_eq!(report.reason, Some(Refusal::NotARequest));
    }
}

#[test]
fn the_next_ack_becomes_a_remote_access_error() {
    let mut wire = Wire::new("rx op=ack -> set:syndrome=0x62 count=1");
    wire.give(&ack(1));
    wire.give(&ack(2));
    let syndromes = wire.out.iter().map(|out| (out.packet.syndrome(), out.packet.icrc_is_right()));
    assert_eq!(syndromes.collect::<Vec<_>>(), [(0x62, true), (0x1f, true)]);
}

/// A peer drops an answer in another partition, and rxe sends MigReq 0.
#[test]
fn an_answer_has_the_partition_and_migration_state_of_the_request() {
    let mut wire = Wire::new("tx op=send psn=6 -> answer:nak:2");
    wire.give(&send(5));
    wire.give(&acknowledge(5, Syndrome::ack(31), 77));
    let mut request = send(6);
    request.bytes[1] &= !0x40;
    request.bytes[2..4].copy_from_slice(&[0x80, 0x07]);
    assert_eq!(wire.give(&request), Verdict::Dropped);
    let (bth, _) = answer(&wire);
    assert_eq!((bth.migreq, bth.pkey), (false, 0x8007));
}
