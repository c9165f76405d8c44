//! Packets whose ICRC is wrong: damaged, or of a capture in which no ICRC is right.

use uroce_wire::{Aeth, NakCode, Opcode, Syndrome};

use crate::track::testkit::{A, B, End, Wire};
use crate::track::{Annotation, FlowId, Missing};
use crate::{IcrcStatus, NotChecked, Packet};

const WRONG: IcrcStatus = IcrcStatus::Wrong { found: 1, expected: 2 };

/// A SEND with a wrong ICRC.
fn damaged_send(wire: &mut Wire, to: End, psn: u32) -> Annotation {
    let packet = wire.packet(A, to, Opcode::RC_SEND_ONLY, psn);
    wire.give(&Packet { icrc: WRONG, payload_len: 100, ..packet })
}

/// An ACK from B with a wrong ICRC.
fn damaged_ack(wire: &mut Wire, psn: u32) -> Annotation {
    let aeth = Some(Aeth { syndrome: Syndrome::ack(31), msn: 1 });
    let packet = wire.packet(B, A, Opcode::RC_ACKNOWLEDGE, psn);
    wire.give(&Packet { icrc: WRONG, aeth, ..packet })
}

/// Ten SENDs that were acknowledged.
fn connected() -> Wire {
    let mut wire = Wire::new();
    for psn in 0..10 {
        wire.send(A, B, psn);
        wire.ack(B, A, psn);
    }
    wire
}

#[test]
fn a_damaged_request_is_counted_and_changes_nothing() {
    let mut wire = connected();
    assert!(damaged_send(&mut wire, B, 0x80_0000).is_damaged, "another life of the queue pair");
    let again = damaged_send(&mut wire, B, 3);
    assert!(again.is_damaged && again.retransmission.is_none());
    wire.sends(A, B, 10..12);
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.restarts, figures.retransmitted(), figures.skipped), (0, 0, 0));
    assert_eq!((figures.requests, figures.icrc_errors, figures.packets), (12, 2, 14));
    assert_eq!(figures.damaged, 2);
}

#[test]
fn a_nak_that_misses_a_damaged_request_names_it() {
    let mut wire = connected();
    let nak = |wire: &mut Wire, psn| wire.nak(B, A, psn, NakCode::PsnSequence).missing;
    damaged_send(&mut wire, B, 10);
    let first = 21;
    wire.sends(A, B, 11..13);
    assert_eq!(nak(&mut wire, 10), Some(Missing::Damaged { frame: first }));
    wire.sends(A, B, 10..13);
    assert_eq!(nak(&mut wire, 10), Some(Missing::Copy { frame: first + 4 }), "now the good one");
    wire.send(A, B, 10);
    damaged_send(&mut wire, B, 11);
    wire.send(A, B, 12);
    assert_eq!(nak(&mut wire, 11), Some(Missing::Damaged { frame: first + 9 }), "the newest copy");
    wire.sends(A, B, 11..13);
    for psn in 13..20 {
        damaged_send(&mut wire, B, psn);
    }
    wire.send(A, B, 20);
    assert_eq!(nak(&mut wire, 13), Some(Missing::NotCaptured), "four are remembered");
}

#[test]
fn a_damaged_answer_settles_nothing() {
    let mut wire = connected();
    wire.send(A, B, 10);
    assert_eq!(damaged_ack(&mut wire, 10).acknowledges, None);
    wire.tracker.finish();
    let (requests, answers) = (wire.figures(FlowId(0)), wire.figures(FlowId(1)));
    assert_eq!((requests.messages_completed, answers.acks, answers.icrc_errors), (10, 10, 1));
}

#[test]
fn a_damaged_queue_pair_number_makes_no_flow() {
    let mut wire = connected();
    let elsewhere = damaged_send(&mut wire, End { qpn: 0x99, ..B }, 10);
    assert_eq!((elsewhere.flow, elsewhere.is_damaged), (FlowId::UNTRACKED, true));
    assert_eq!(wire.tracker.flows().len(), 2);
    let summary = wire.tracker.summary();
    assert_eq!((summary.damaged_packets, summary.untracked_packets), (1, 0));
}

#[test]
fn a_capture_without_any_right_icrc_is_followed() {
    let mut wire = Wire::new();
    for psn in 0..10 {
        let annotation = damaged_send(&mut wire, B, psn);
        assert!(!annotation.is_damaged);
        damaged_ack(&mut wire, psn);
    }
    wire.tracker.finish();
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.messages_completed, figures.icrc_errors), (10, 10));
    assert_eq!(figures.damaged, 0);
    assert_eq!(wire.tracker.conversations().len(), 1);
}

/// One wrong ICRC of 32,768 is by chance one that a rewritten header would explain.
#[test]
fn one_icrc_that_is_nearly_right_shows_no_damage() {
    let mut wire = Wire::new();
    let chance = |psn| matches!(psn, 5 | 7 | 20);
    for psn in 0..30 {
        let packet = wire.packet(A, B, Opcode::RC_SEND_ONLY, psn);
        let icrc = if chance(psn) { IcrcStatus::RightWithIpId(psn as u16) } else { WRONG };
        assert!(!wire.give(&Packet { icrc, payload_len: 100, ..packet }).is_damaged, "{psn}");
    }
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.requests, figures.damaged), (30, 0));
}

#[test]
fn where_a_header_is_rewritten_a_wrong_icrc_is_damage() {
    let mut wire = Wire::new();
    for psn in 0..10 {
        let packet = wire.packet(A, B, Opcode::RC_SEND_ONLY, psn);
        let icrc = IcrcStatus::RightWithSourcePort(7);
        wire.give(&Packet { icrc, payload_len: 100, ..packet });
    }
    assert!(damaged_send(&mut wire, B, 10).is_damaged);
}

#[test]
fn what_was_cut_before_the_first_right_packet_is_not_forgotten() {
    let mut wire = Wire::new();
    for psn in 0..10 {
        let packet = wire.packet(A, B, Opcode::RC_SEND_ONLY, psn);
        let icrc = IcrcStatus::NotChecked(NotChecked::Cut);
        wire.give(&Packet { icrc, payload_len: 100, ..packet });
    }
    damaged_send(&mut wire, B, 10);
    wire.send(A, B, 11);
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.requests, figures.packets, figures.icrc_errors), (12, 12, 1));
}

#[test]
fn a_right_packet_shows_that_the_first_one_was_damaged() {
    let mut wire = Wire::new();
    damaged_send(&mut wire, B, 5000);
    for psn in 0..10 {
        let annotation = wire.send(A, B, psn);
        assert_eq!((annotation.gap_before, annotation.is_reordered), (None, false));
        wire.ack(B, A, psn);
    }
    wire.tracker.finish();
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.messages, figures.messages_completed), (10, 10));
    assert_eq!((figures.requests, figures.packets, figures.icrc_errors), (10, 11, 1));
    assert_eq!(figures.damaged, 1);
    assert_eq!((figures.skipped, figures.restarts), (0, 0));
}
