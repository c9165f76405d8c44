//! Which flows are one conversation.

use std::time::Duration;

use uroce_cm::{CommId, MAD_LEN, Mad, Message};
use uroce_wire::{Opcode, Psn, Qpn};

use crate::track::testkit::{A, B, End, MTU, Wire, read_opcode};
use crate::track::{FlowId, Pairing, Role, TrackerConfig};

#[test]
fn an_acknowledged_psn_pairs_two_flows() {
    let mut wire = Wire::new();
    wire.send(A, B, 77);
    let ack = wire.ack(B, A, 77);
    assert_eq!((ack.flow, ack.peer), (FlowId(1), Some(FlowId(0))));
    let conversation = wire.tracker.conversations()[0];
    assert_eq!(conversation.flows, [FlowId(0), FlowId(1)]);
    assert_eq!(conversation.paired_by, Pairing::AcknowledgedPsn);
    assert!(conversation.is_certain());
    assert_eq!(wire.tracker.flow(FlowId(0)).unwrap().source_qpn(), Some(Qpn::new(A.qpn)));
}

#[test]
fn two_queue_pairs_between_the_same_hosts_are_not_mixed() {
    let (a2, b2) = (End { qpn: 0x31, ..A }, End { qpn: 0x32, ..B });
    let mut wire = Wire::new();
    for step in 0..20 {
        wire.send(A, B, 1000 + step);
        wire.send(a2, b2, 500_000 + step);
        wire.ack(b2, a2, 500_000 + step);
        wire.ack(B, A, 1000 + step);
    }
    let pairs: Vec<_> = wire.tracker.conversations().iter().map(|pair| pair.flows).collect();
    assert_eq!(pairs, [[FlowId(1), FlowId(2)], [FlowId(0), FlowId(3)]]);
    assert!(wire.tracker.conversations().iter().all(|pair| pair.contradicting == 0));
}

#[test]
fn queue_pairs_that_begin_with_one_psn_stay_undecided_until_they_differ() {
    let (a2, b2) = (End { qpn: 0x31, ..A }, End { qpn: 0x32, ..B });
    let mut wire = Wire::new();
    wire.send(A, B, 0);
    wire.send(a2, b2, 0);
    assert_eq!(wire.ack(B, A, 0).peer, None);
    assert_eq!(wire.ack(b2, a2, 0).peer, None);
    wire.sends(a2, b2, 1..100);
    let peer = wire.ack(b2, a2, 99).peer;
    assert_eq!(peer, Some(FlowId(1)), "only that flow has sent so much");
    assert_eq!(wire.ack(B, A, 0).peer, Some(FlowId(0)));
}

#[test]
fn answers_to_what_was_sent_before_the_capture_contradict_nothing() {
    let mut wire = Wire::new();
    wire.sends(A, B, 1000..1010);
    for psn in 990..999 {
        assert_eq!(wire.ack(B, A, psn).peer, None);
    }
    assert_eq!(wire.ack(B, A, 1000).peer, Some(FlowId(0)));
    let far_away = {
        let mut wire = Wire::new();
        wire.send(A, B, 1_000_000);
        wire.ack(B, A, 990);
        wire.ack(B, A, 1_000_000).peer
    };
    assert_eq!(far_away, None, "that is of another queue pair");
}

/// `pairs` queue pairs send; then each of them is answered, the last one first. Which flow each answer was taken for, where that is known.
fn many(pairs: u32, first_psn: impl Fn(u32) -> u32) -> Vec<Option<u32>> {
    let end = |end: End, pair| End { qpn: 0x1000 + pair, ..end };
    let mut wire = Wire::new();
    for pair in 0..pairs {
        wire.sends(end(A, pair), end(B, pair), first_psn(pair)..first_psn(pair) + 3);
    }
    let answers =
        (0..pairs).rev().map(|pair| wire.ack(end(B, pair), end(A, pair), first_psn(pair) + 2));
    answers.map(|answer| answer.peer.map(|peer| peer.0)).collect()
}

#[test]
fn many_queue_pairs_between_two_hosts_are_told_apart() {
    let found = many(40, |pair| 1000 + pair * 100_000);
    assert_eq!(found, (0..40).rev().map(Some).collect::<Vec<_>>());
}

#[test]
fn of_very_many_queue_pairs_only_those_that_are_alike_stay_undecided() {
    let found = many(100, |pair| 1000 + pair % 99 * 100_000);
    let alike = |pair: &u32| pair.is_multiple_of(99);
    let expected: Vec<_> = (0..100).rev().map(|pair| (!alike(&pair)).then_some(pair)).collect();
    assert_eq!(found, expected);
    assert!(many(500, |_| 1000).iter().all(Option::is_none));
}

/// The capture begins while several queue pairs with near PSNs are at work: the first answer that it has belongs to
/// none of the requests that it has.
#[test]
fn an_answer_of_another_queue_pair_is_found_out_when_more_of_both_is_seen() {
    let (a2, b2) = (End { qpn: 0x31, ..A }, End { qpn: 0x32, ..B });
    let mut wire = Wire::new();
    let one = wire.send(A, B, 100).flow;
    assert_eq!(wire.ack(b2, a2, 100).peer, Some(one), "nothing else is known");
    wire.send(A, B, 101);
    let two = wire.read(a2, b2, 101, 3 * MTU).flow;
    for index in 0..3 {
        let answer = wire.data(b2, a2, read_opcode(index, 3), 101 + index, MTU);
        assert_eq!((answer.peer, answer.is_unsolicited), (Some(two), false));
    }
    assert_eq!(wire.ack(B, A, 101).peer, Some(one));
    let [one, two] = [one, two].map(|id| wire.tracker.flow(id).unwrap());
    assert_eq!((one.is_mispaired(), two.is_mispaired()), (true, false));
    assert_eq!((one.figures().messages_completed, two.figures().messages_completed), (2, 1));
}

/// As many answers as it takes to tell are not lost to the requests that they belong to.
#[test]
fn answers_that_came_before_it_was_known_whose_they_are_count() {
    let (a2, b2) = (End { qpn: 0x31, ..A }, End { qpn: 0x32, ..B });
    let mut wire = Wire::new();
    for (from, to, sends) in [(A, B, 3), (a2, b2, 100)] {
        wire.read(from, to, 0, 100);
        wire.sends(from, to, 1..sends);
    }
    for (from, to) in [(B, A), (b2, a2)] {
        let answer = wire.data(from, to, read_opcode(0, 1), 0, 100);
        assert_eq!(answer.peer, None, "both have asked for it");
    }
    assert_eq!(wire.ack(b2, a2, 99).peer, Some(FlowId(1)));
    wire.ack(B, A, 2);
    let completed = [FlowId(0), FlowId(1)].map(|id| wire.figures(id).messages_completed);
    assert_eq!(completed, [3, 100]);
}

#[test]
fn few_answers_are_taken_at_the_end_for_those_to_the_flow_that_they_fit_best() {
    let (a2, b2) = (End { qpn: 0x31, ..A }, End { qpn: 0x32, ..B });
    let mut wire = Wire::new();
    wire.read(A, B, 100, 100);
    wire.send(a2, b2, 103);
    let answer = wire.data(B, A, read_opcode(0, 1), 100, 100);
    assert_eq!(answer.peer, None, "the capture may lack a request of the other flow");
    wire.tracker.finish();
    let flow = wire.tracker.flow(FlowId(0)).unwrap();
    assert_eq!((flow.peer(), flow.is_undecided()), (Some(FlowId(2)), true));
    assert_eq!(flow.figures().messages_completed, 1);
}

#[test]
fn a_responder_that_answers_wrongly_keeps_its_requester() {
    let (a2, b2) = (End { qpn: 0x31, ..A }, End { qpn: 0x32, ..B });
    let mut wire = Wire::new();
    for psn in 0..30 {
        wire.send(A, B, psn);
        wire.send(a2, b2, 0x10_0000 + psn);
        wire.ack(B, A, psn);
        wire.ack(b2, a2, 0x10_0000 + psn);
    }
    wire.send(A, B, 30);
    let wrong = wire.data(B, A, read_opcode(0, 1), 30, 100);
    assert_eq!((wrong.peer, wrong.is_unsolicited), (Some(FlowId(0)), true));
    assert_eq!(wire.ack(B, A, 30).peer, Some(FlowId(0)));
    assert!(wire.tracker.flows().iter().all(|flow| !flow.is_mispaired()));
}

/// A program that is started again has other queue pairs, and nothing but answers tells which.
#[test]
fn a_queue_pair_that_begins_anew_may_have_another_peer() {
    let next = End { qpn: 0x33, ..A };
    let mut wire = Wire::new();
    for psn in 0..100 {
        wire.send(A, B, psn);
        wire.ack(B, A, psn);
    }
    for psn in 0x70_0000..0x70_0010 {
        wire.send(next, B, psn);
        assert_eq!(wire.ack(B, next, psn).peer, Some(FlowId(0)));
    }
    assert_eq!(wire.figures(FlowId(0)).messages_completed, 116);
    let source = wire.tracker.flow(FlowId(0)).unwrap().source_qpn();
    assert_eq!(source, Some(Qpn::new(next.qpn)));
}

#[test]
fn a_queue_pair_that_begins_anew_with_the_same_peer_is_the_same_conversation() {
    let mut wire = Wire::new();
    for life in 0..100 {
        wire.send(A, B, life * 0x10_0000);
        wire.ack(B, A, life * 0x10_0000);
    }
    assert_eq!(wire.figures(FlowId(0)).messages_completed, 100);
    assert_eq!(wire.tracker.conversations().len(), 1);
}

/// The client keeps its number, and the server has another one.
#[test]
fn answers_to_requests_of_another_flow_are_taken_for_that() {
    let next = End { qpn: 0x33, ..B };
    for first in [0, 0x70_0000] {
        let mut wire = Wire::new();
        for psn in 0..100 {
            wire.read(A, B, psn, 100);
            wire.data(B, A, read_opcode(0, 1), psn, 100);
        }
        for psn in 0..20 {
            let psn = first + 3 * psn;
            wire.read(A, next, psn, 3 * MTU);
            for index in 0..3 {
                let answer = wire.data(next, A, read_opcode(index, 3), psn + index, MTU);
                assert_ne!(answer.peer, Some(FlowId(0)), "{psn}");
                assert!(!answer.is_unsolicited);
            }
        }
        let completed = [FlowId(0), FlowId(2)].map(|id| wire.figures(id).messages_completed);
        assert_eq!(completed, [100, 20]);
        assert!(wire.tracker.flows().iter().all(|flow| !flow.is_mispaired()));
    }
}

/// READs of several queue pairs, while the path MTU is not known.
#[test]
fn a_read_of_unknown_length_has_no_more_packets_than_its_bytes_allow() {
    let (a2, b2) = (End { qpn: 0x31, ..A }, End { qpn: 0x32, ..B });
    let mut wire = Wire::with(TrackerConfig::default());
    wire.read(A, B, 1000, 4 * MTU);
    wire.read(a2, b2, 5000, 4 * MTU);
    for (from, to, psn, peer) in [(b2, a2, 5000, 1), (B, A, 1000, 0)] {
        for index in 0..4 {
            let answer = wire.data(from, to, read_opcode(index, 4), psn + index, MTU);
            assert_eq!(answer.peer, Some(FlowId(peer)));
        }
        assert_eq!(wire.figures(FlowId(peer)).messages_completed, 1);
    }
}

#[test]
fn a_queue_pair_that_connects_to_another_one_leaves_the_one_before() {
    let next = End { qpn: 0x33, ..B };
    let mut wire = Wire::new();
    connect(&mut wire);
    let before = wire.send(A, B, 300).flow;
    assert_eq!(wire.ack(B, A, 300).peer, Some(before));
    let (a, b) = (End { qpn: 1, ..A }, End { qpn: 1, ..B });
    wire.datagram(a, b, 0, &req(A.qpn, 900));
    wire.datagram(b, a, 0, &rep(A.qpn, next.qpn, 500));
    let now = wire.send(A, next, 500).flow;
    let ack = wire.ack(next, A, 500);
    assert_eq!((ack.peer, ack.is_unsolicited), (Some(now), false));
    assert_eq!(wire.tracker.flow(before).unwrap().peer(), None);
    assert_eq!(wire.tracker.flow(now).unwrap().peer(), Some(ack.flow));
}

#[test]
fn flows_without_answers_are_paired_at_the_end_if_there_is_no_choice() {
    let mut wire = Wire::new();
    wire.data(A, B, Opcode::UC_SEND_ONLY, 0, 10);
    wire.data(B, A, Opcode::UC_SEND_ONLY, 0, 10);
    wire.tracker.finish();
    let conversation = wire.tracker.conversations()[0];
    assert_eq!((conversation.paired_by, conversation.is_certain()), (Pairing::Addresses, false));
}

#[test]
fn datagrams_name_where_they_come_from() {
    let mut wire = Wire::new();
    assert_eq!(wire.datagram(A, B, 1, &[1; 32]).role, Role::Datagram);
    wire.datagram(B, A, 9, &[1; 32]);
    let conversation = wire.tracker.conversations()[0];
    assert_eq!(conversation.paired_by, Pairing::SourceQueuePair);
    assert_eq!(wire.messages().len(), 2);
}

/// A message of connection management with all its fields zero.
fn empty(attribute: u16) -> Message {
    let mut bytes = [0; MAD_LEN];
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
    Mad::parse(&bytes).expect("a message").message
}

fn req(qpn: u32, psn: u32) -> [u8; MAD_LEN] {
    let Message::Req(mut req) = empty(0x10) else { unreachable!() };
    (req.local_comm_id, req.local_qpn) = (CommId(qpn), Qpn::new(qpn));
    (req.starting_psn, req.path_mtu, req.primary.ack_timeout) = (Psn::new(psn), 3, 14);
    Mad { tid: 1, message: Message::Req(req) }.emit()
}

fn rep(to: u32, qpn: u32, psn: u32) -> [u8; MAD_LEN] {
    let Message::Rep(mut rep) = empty(0x13) else { unreachable!() };
    (rep.local_comm_id, rep.remote_comm_id) = (CommId(qpn), CommId(to));
    (rep.local_qpn, rep.starting_psn) = (Qpn::new(qpn), Psn::new(psn));
    Mad { tid: 1, message: Message::Rep(rep) }.emit()
}

/// REQ from A and REP from B: A shall begin with PSN 300, B with PSN 700.
fn connect(wire: &mut Wire) {
    let (a, b) = (End { qpn: 1, ..A }, End { qpn: 1, ..B });
    assert_eq!(wire.datagram(a, b, 0, &req(A.qpn, 700)).role, Role::Management);
    wire.datagram(b, a, 0, &rep(A.qpn, B.qpn, 300));
}

#[test]
fn connection_management_pairs_flows_and_tells_their_first_psn() {
    let mut wire = Wire::with(TrackerConfig::default());
    connect(&mut wire);
    let first = wire.send(A, B, 302);
    assert_eq!(
        first.gap_before.map(|gap| (gap.first.on_wire().get(), gap.packets)),
        Some((300, 2))
    );
    let back = wire.send(B, A, 700);
    assert_eq!((back.gap_before, back.peer), (None, Some(first.flow)));
    let pair = wire.tracker.conversations().last().unwrap();
    assert_eq!(pair.paired_by, Pairing::ConnectionManagement);
    assert_eq!(wire.tracker.flow(first.flow).unwrap().path_mtu(), Some(1024));
    let connection = wire.tracker.connections()[0];
    assert_eq!(connection.ack_timeout, Some(Duration::from_nanos(4096 << 14)));
    assert_eq!((connection.active.qpn.get(), connection.passive.qpn.get()), (A.qpn, B.qpn));
}

#[test]
fn a_rep_that_is_sent_again_changes_nothing_and_a_new_connection_begins_anew() {
    let mut wire = Wire::new();
    connect(&mut wire);
    let first = wire.send(A, B, 300).flow;
    connect(&mut wire);
    assert!(wire.send(A, B, 301).gap_before.is_none());
    assert_eq!(wire.figures(first).restarts, 0);
    let (a, b) = (End { qpn: 1, ..A }, End { qpn: 1, ..B });
    wire.datagram(a, b, 0, &req(A.qpn, 800));
    wire.datagram(b, a, 0, &rep(A.qpn, B.qpn, 400));
    assert!(wire.send(A, B, 400).gap_before.is_none());
    assert_eq!(wire.figures(first).restarts, 1);
}
