//! Messages from their first packet to their completion.

use std::time::Duration;

use uroce_wire::{NakCode, Opcode};

use crate::track::testkit::{A, B, MTU, Wire, read_opcode};
use crate::track::{FlowId, Outcome, TrackerConfig, Verb};

#[test]
fn one_ack_completes_many_messages() {
    let mut wire = Wire::new();
    wire.sends(A, B, 0..5);
    let ack = wire.ack(B, A, 3);
    let settled = ack.acknowledges.unwrap();
    assert_eq!((settled.packets, settled.messages, settled.bytes), (4, 4, 400));
    assert_eq!((ack.outstanding.packets, ack.outstanding.bytes), (1, 100));
    assert_eq!(wire.messages().len(), 4);
    assert_eq!(wire.figures(FlowId(0)).requests_per_answer(), Some(4.0));
}

#[test]
fn a_write_of_many_packets_is_one_message() {
    let mut wire = Wire::new();
    let packets = wire.write(A, B, 10, 4, |_| true);
    assert!(packets.iter().all(|packet| packet.message == packets[0].message));
    assert_eq!(packets[3].outstanding.bytes, 4 * u64::from(MTU));
    wire.ack(B, A, 13);
    let message = wire.messages().pop().unwrap();
    assert_eq!((message.verb, message.bytes, message.packets), (Verb::Write, 4096, 4));
    assert_eq!((message.first_frame, message.last_frame, message.completed_frame), (1, 4, 5));
    assert_eq!(
        (message.duration, message.outcome),
        (Duration::from_micros(40), Outcome::Completed)
    );
}

#[test]
fn a_message_whose_packets_come_in_any_order_is_whole() {
    for missing in 0..4 {
        let mut wire = Wire::new();
        wire.send(A, B, 9);
        wire.write(A, B, 10, 4, |index| index != missing);
        wire.send(A, B, 14);
        wire.nak(B, A, 10 + missing, NakCode::PsnSequence);
        wire.write(A, B, 10, 4, |index| index == missing);
        wire.ack(B, A, 14);
        let messages = wire.messages();
        let write = messages.iter().find(|message| message.verb == Verb::Write).unwrap();
        assert_eq!(
            (messages.len(), write.bytes, write.is_incomplete),
            (3, 4096, false),
            "{missing}"
        );
    }
}

#[test]
fn a_read_is_complete_with_its_last_response_and_not_with_an_ack() {
    let mut wire = Wire::new();
    let read = wire.read(A, B, 5, 3 * MTU);
    assert_eq!((read.outstanding.packets, read.outstanding.reads), (3, 1));
    wire.send(A, B, 8);
    wire.data(B, A, read_opcode(0, 3), 5, MTU);
    wire.data(B, A, read_opcode(1, 3), 6, MTU);
    assert!(wire.messages().is_empty());
    let last = wire.data(B, A, read_opcode(2, 3), 7, MTU);
    assert_eq!(last.outstanding.reads, 0);
    let message = wire.messages().pop().unwrap();
    assert_eq!((message.verb, message.bytes, message.is_incomplete), (Verb::Read, 3072, false));
    wire.ack(B, A, 8);
    assert_eq!(wire.messages().len(), 1);
}

#[test]
fn the_length_of_a_read_is_learned_from_the_next_request_or_its_first_response() {
    let mut wire = Wire::with(TrackerConfig::default());
    wire.read(A, B, 5, 5000);
    let next = wire.send(A, B, 10);
    assert!(next.gap_before.is_none(), "5000 bytes are 5 packets of 1024");
    assert_eq!(wire.tracker.flow(FlowId(0)).unwrap().path_mtu(), Some(1024));

    let mut wire = Wire::with(TrackerConfig::default());
    wire.read(A, B, 5, 5000);
    wire.data(B, A, Opcode::RC_READ_RESPONSE_FIRST, 5, 2048);
    assert!(wire.send(A, B, 8).gap_before.is_none());
    let mut wire = Wire::with(TrackerConfig::default());
    wire.read(A, B, 5, 5000);
    assert!(wire.send(A, B, 9).gap_before.is_some(), "no path MTU gives 4 packets");
}

#[test]
fn a_read_whose_length_was_cut_off_ends_with_its_last_response_or_the_next_request() {
    for config in [
        TrackerConfig::default(),
        TrackerConfig { path_mtu: Some(MTU), ..TrackerConfig::default() },
    ] {
        let mut wire = Wire::with(config);
        for (psn, is_answered_first) in [(5, true), (20, false)] {
            let packet = wire.packet(A, B, Opcode::RC_READ_REQUEST, psn);
            wire.give(&packet);
            if !is_answered_first {
                assert!(wire.send(A, B, psn + 3).gap_before.is_none());
            }
            for index in 0..3 {
                let answer = wire.data(B, A, read_opcode(index, 3), psn + index, MTU);
                assert!(!answer.is_unsolicited && answer.peer == Some(FlowId(0)));
            }
            if is_answered_first {
                wire.sends(A, B, psn + 3..20);
            }
        }
        wire.ack(B, A, 23);
        wire.tracker.finish();
        let figures = wire.figures(FlowId(0));
        assert_eq!((figures.messages, figures.messages_completed), (15, 15));
        assert_eq!((figures.skipped, figures.lost_by_capture, figures.retransmitted()), (0, 0, 0));
    }
}

#[test]
fn an_atomic_is_complete_with_its_own_response() {
    let mut wire = Wire::new();
    wire.fetch_add(A, B, 5);
    wire.fetch_add(A, B, 6);
    wire.data(B, A, Opcode::RC_ATOMIC_ACKNOWLEDGE, 5, 0);
    let message = wire.messages().pop().unwrap();
    assert_eq!((message.verb, message.outcome), (Verb::FetchAdd, Outcome::Completed));
    assert_eq!(wire.figures(FlowId(0)).max_outstanding_reads, 2);
}

#[test]
fn a_refused_message_takes_those_behind_it_along() {
    let mut wire = Wire::new();
    wire.sends(A, B, 0..4);
    wire.nak(B, A, 1, NakCode::RemoteAccess);
    let outcomes: Vec<_> = wire.messages().iter().map(|message| message.outcome).collect();
    let refused = Outcome::Refused(NakCode::RemoteAccess);
    assert_eq!(outcomes, [Outcome::Completed, refused, Outcome::Flushed, Outcome::Flushed]);
    let figures = wire.figures(FlowId(0));
    assert_eq!((figures.messages_completed, figures.messages_failed), (1, 3));
    assert_eq!(wire.figures(FlowId(1)).naks, [0, 0, 1, 0, 0, 0]);
}

#[test]
fn messages_of_uc_are_over_when_they_are_sent() {
    let mut wire = Wire::new();
    wire.data(A, B, Opcode::UC_SEND_FIRST, 0, MTU);
    wire.data(A, B, Opcode::UC_SEND_LAST, 1, 10);
    wire.data(A, B, Opcode::UC_SEND_ONLY, 3, 10);
    let messages = wire.messages();
    assert_eq!(messages.iter().map(|message| message.bytes).collect::<Vec<_>>(), [1034, 10]);
    assert!(messages.iter().all(|message| message.outcome == Outcome::Sent));
    wire.tracker.finish();
    assert_eq!((wire.figures(FlowId(0)).skipped, wire.figures(FlowId(0)).lost_unknown), (1, 1));
}

#[test]
fn the_slowest_messages_are_remembered() {
    let config = TrackerConfig { slowest_messages: 2, ..TrackerConfig::default() };
    let mut wire = Wire::with(config);
    for (psn, wait) in [(0, 5), (1, 50), (2, 20), (3, 1)] {
        wire.send(A, B, psn);
        wire.wait(Duration::from_micros(wait));
        wire.ack(B, A, psn);
    }
    let slowest = wire.tracker.flow(FlowId(0)).unwrap().slowest();
    let numbers: Vec<_> = slowest.iter().map(|message| message.id.number).collect();
    assert_eq!(numbers, [1, 2]);
}
