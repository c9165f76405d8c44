//! Each rule is broken once.

use uroce_wire::{Aeth, Bth, Header as _, Mtu, NakCode, Opcode, Packet, Psn, Qpn, Reth, Syndrome};

use super::requests::RequestMonitor;
use super::responses::ResponseMonitor;
use crate::violation::Invariant;

/// A packet of this opcode, with what stands behind its BTH.
fn bytes(opcode: Opcode, psn: u32, behind: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; Bth::LEN];
    Bth::new(opcode, Qpn::new(7), Psn::new(psn)).write(&mut bytes).expect("room");
    bytes.extend_from_slice(behind);
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

fn send(psn: u32) -> Vec<u8> {
    bytes(Opcode::RC_SEND_ONLY, psn, &[])
}

fn read(psn: u32, length: u32) -> Vec<u8> {
    let mut reth = [0; Reth::LEN];
    Reth { va: 0, rkey: 0, length }.write(&mut reth).expect("room");
    bytes(Opcode::RC_READ_REQUEST, psn, &reth)
}

fn ack(psn: u32, syndrome: Syndrome, msn: u32) -> Vec<u8> {
    let mut aeth = [0; Aeth::LEN];
    Aeth { syndrome, msn }.write(&mut aeth).expect("room");
    bytes(Opcode::RC_ACKNOWLEDGE, psn, &aeth)
}

fn parsed(bytes: &[u8]) -> Packet<'_> {
    Packet::parse(bytes).expect("a packet")
}

fn nak() -> Syndrome {
    Syndrome::nak(NakCode::PsnSequence)
}

fn requester() -> RequestMonitor {
    RequestMonitor::new(0xff_ffff, Mtu::M256, 1)
}

/// The rule that a request breaks.
fn breach(monitor: &mut RequestMonitor, bytes: &[u8], now_ns: u64) -> Option<Invariant> {
    monitor.handle_sent(&parsed(bytes), now_ns).err().map(|(invariant, _)| invariant)
}

#[test]
fn i7_a_new_request_has_the_next_psn() {
    let mut monitor = requester();
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), None);
    assert_eq!(breach(&mut monitor, &send(1), 0), Some(Invariant::Sequence));
}

#[test]
fn i7_what_is_acknowledged_is_not_sent_again() {
    let mut monitor = requester();
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), None);
    assert_eq!(breach(&mut monitor, &send(0), 0), None);
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), None, "it is not acknowledged");
    monitor.handle_arrived(&parsed(&ack(0xff_ffff, Syndrome::ack(31), 1)), 0);
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), Some(Invariant::Sequence));
}

#[test]
fn i8_one_read_more_than_allowed_is_too_much() {
    let mut monitor = requester();
    assert_eq!(breach(&mut monitor, &read(0xff_ffff, 300), 0), None);
    assert_eq!(breach(&mut monitor, &read(1, 1), 0), Some(Invariant::Limits));
}

#[test]
fn i8_nothing_is_sent_before_an_rnr_wait_is_over() {
    let mut monitor = requester();
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), None);
    // Code 1 asks for 10 us.
    monitor.handle_arrived(&parsed(&ack(0xff_ffff, Syndrome::rnr(1), 0)), 1_000);
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 10_999), Some(Invariant::Limits));
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 11_000), None);
}

#[test]
fn i8_a_late_copy_of_an_rnr_nak_asks_for_no_wait() {
    let mut monitor = requester();
    assert_eq!(breach(&mut monitor, &read(0xff_ffff, 1), 0), None);
    assert_eq!(breach(&mut monitor, &send(0), 0), None);
    // The response is missing.
    monitor.handle_arrived(&parsed(&ack(0, Syndrome::ack(31), 2)), 500);
    monitor.handle_arrived(&parsed(&ack(0, Syndrome::rnr(1), 0)), 1_000);
    assert_eq!(breach(&mut monitor, &send(0), 1_001), None);
}

#[test]
fn i8_a_nak_behind_the_request_that_left_again_asks_for_another_wait() {
    let nak = ack(0, Syndrome::rnr(1), 0);
    for (comes_first, breach_at_end) in [(true, None), (false, Some(Invariant::Limits))] {
        let mut monitor = requester();
        assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), None);
        assert_eq!(breach(&mut monitor, &send(0), 0), None);
        monitor.handle_arrived(&parsed(&nak), 1_000);
        // Code 1 asks for 10 us.
        let end_ns = 11_000;
        if comes_first {
            monitor.handle_arrived(&parsed(&nak), end_ns);
        }
        assert_eq!(breach(&mut monitor, &send(0), end_ns), None);
        if !comes_first {
            monitor.handle_arrived(&parsed(&nak), end_ns);
        }
        assert_eq!(breach(&mut monitor, &send(0), end_ns + 1), breach_at_end);
    }
}

#[test]
fn i15_faults_count_until_something_is_acknowledged() {
    let mut monitor = requester();
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), None);
    (0..8).for_each(|at_ns| monitor.note_fault(at_ns));
    assert_eq!(monitor.recent_faults(0), 7, "as many as there are retries");
    monitor.handle_arrived(&parsed(&ack(0xff_ffff, Syndrome::ack(31), 1)), 10);
    assert_eq!(monitor.recent_faults(0), 0);
    assert_eq!(monitor.recent_faults(5), 3, "since 5 ns: these packets may be on their way yet");
    monitor.note_fault(11);
    assert_eq!(monitor.recent_faults(0), 1);
}

#[test]
fn i15_a_requester_may_have_failed_before_an_acknowledgement_behind_which_it_sends_nothing() {
    let mut monitor = requester();
    let first = ack(0xff_ffff, Syndrome::ack(31), 1);
    assert_eq!(breach(&mut monitor, &send(0xff_ffff), 0), None);
    monitor.handle_arrived(&parsed(&first), 1);
    for psn in 0..3 {
        assert_eq!(breach(&mut monitor, &send(psn), 2), None);
    }
    monitor.note_fault(3);
    for (psn, now_ns) in [(0, 4), (1, 5)] {
        monitor.handle_arrived(&parsed(&ack(psn, Syndrome::ack(31), psn + 2)), now_ns);
    }
    assert_eq!([monitor.recent_faults(0), monitor.recent_faults_if_silent(0)], [0, 1]);
    assert_eq!(breach(&mut monitor, &send(2), 6), None, "it goes on");
    assert_eq!([monitor.recent_faults(0), monitor.recent_faults_if_silent(0)], [0, 0]);
}

/// What answers the next request shows no progress that the response has not shown already.
#[test]
fn i15_the_last_response_of_a_read_acknowledges_it() {
    let mut monitor = requester();
    assert_eq!(breach(&mut monitor, &read(0xff_ffff, 1), 0), None);
    assert_eq!(breach(&mut monitor, &send(0), 0), None);
    let response = bytes(Opcode::RC_READ_RESPONSE_ONLY, 0xff_ffff, &[0; Aeth::LEN]);
    monitor.handle_arrived(&parsed(&response), 1);
    monitor.note_fault(2);
    monitor.handle_arrived(&parsed(&ack(0, nak(), 1)), 3);
    assert_eq!(monitor.recent_faults(0), 1);
}

/// What becomes of an answer, after the requests with these PSNs have arrived.
fn answered(arrived: &[u32], answers: &[Vec<u8>]) -> Option<Invariant> {
    let mut monitor = ResponseMonitor::new(0, Mtu::M256);
    for psn in arrived {
        monitor.handle_arrived(&parsed(&send(*psn)));
    }
    let mut sent = answers.iter().map(|answer| monitor.handle_sent(&parsed(answer)));
    sent.find_map(|outcome| outcome.err()).map(|(invariant, _)| invariant)
}

#[test]
fn i7_acks_and_msns_only_grow_and_follow_what_has_arrived() {
    let good = Syndrome::ack(31);
    assert_eq!(answered(&[0, 1], &[ack(0, good, 1), ack(1, good, 2)]), None);
    assert_eq!(answered(&[0, 1], &[ack(1, good, 2), ack(0, good, 2)]), Some(Invariant::Sequence));
    assert_eq!(answered(&[0, 1], &[ack(1, good, 2), ack(1, good, 1)]), Some(Invariant::Sequence));
    assert_eq!(answered(&[0, 2], &[ack(1, good, 1)]), Some(Invariant::Sequence));
}

#[test]
fn i7_an_ack_behind_a_response_says_no_less() {
    let good = Syndrome::ack(31);
    let response = bytes(Opcode::RC_READ_RESPONSE_FIRST, 1, &[0; Aeth::LEN]);
    assert_eq!(answered(&[0, 1], &[ack(0, good, 1), response.clone()]), None);
    assert_eq!(answered(&[0, 1], &[response.clone(), ack(1, good, 2)]), None);
    assert_eq!(answered(&[0, 1], &[response, ack(0, good, 1)]), Some(Invariant::Sequence));
}

#[test]
fn i7_a_gap_has_one_nak_with_the_expected_psn() {
    assert_eq!(answered(&[0, 2], &[ack(1, nak(), 1)]), None);
    assert_eq!(answered(&[0, 2], &[ack(1, nak(), 1), ack(1, nak(), 1)]), Some(Invariant::Sequence));
    assert_eq!(answered(&[0, 2], &[ack(0, nak(), 1)]), Some(Invariant::Sequence));
    assert_eq!(answered(&[0, 2], &[ack(2, nak(), 1)]), Some(Invariant::Sequence));
}
