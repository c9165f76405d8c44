//! A lost tail costs a few round trips, not a timeout.

use uroce_transport::*;
use uroce_wire::Opcode;

use crate::harness::*;

/// A pair that probes, and that has measured its round trip.
fn pair() -> Pair {
    let mut pair = Pair::rc();
    pair.nodes[0].qp.set_tail_probes(true);
    write(&mut pair, 1, 256);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    pair.trace.clear();
    pair
}

fn write(pair: &mut Pair, wr_id: u64, length: u32) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, length);
    pair.nodes[0].send(&wr_sges(wr_id, SendOp::Write { va, rkey }, &[source])).unwrap();
}

/// Runs until everything is quiet; returns how long that took.
fn run(pair: &mut Pair) -> u64 {
    let start = pair.now;
    pair.run();
    pair.trace.last().map_or(0, |seen| seen.at.since(start))
}

#[test]
fn r75_a_lost_ack_is_asked_for_again_long_before_the_timeout() {
    let mut pair = pair();
    pair.lose_once(1, Opcode::RC_ACKNOWLEDGE, 0);
    write(&mut pair, 2, 1000);
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < 2 * MS, "{took} ns");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    assert_eq!(pair.seen(0, "RC_WRITE_LAST").len(), 2, "{:?}", names(&pair));
}

#[test]
fn r75_a_lost_last_packet_is_sent_again_and_alone() {
    let mut pair = pair();
    pair.lose_once(0, Opcode::RC_WRITE_LAST, 0);
    write(&mut pair, 2, 1000);
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < 2 * MS, "{took} ns");
    assert_eq!(pair.trace.iter().filter(|seen| seen.from == 0).count(), 5);
    assert_eq!(pair.nodes[1].bytes(0, 1000), pair.nodes[0].bytes(0, 1000));
}

/// Loses the first `times` sendings of the packet with this PSN.
fn lose(pair: &mut Pair, from: usize, psn: u32, times: u32) {
    let mut left = times;
    pair.filter(move |seen| {
        let hit = seen.from == from && left > 0 && seen.packet().bth.psn.get() == psn;
        left -= u32::from(hit);
        if hit { Fate::Drop } else { Fate::Deliver }
    });
}

#[test]
fn r71_a_packet_that_is_lost_again_when_it_is_sent_again_costs_no_timeout() {
    let mut pair = pair();
    let psn = 0x100 + 1 + 5;
    lose(&mut pair, 0, psn, 3);
    write(&mut pair, 2, 20 * 256);
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < 5 * MS, "{took} ns");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
    assert_eq!(pair.nodes[0].counters.rcvd_seq_err, 1, "the peer says so once");
    assert_eq!(pair.nodes[1].bytes(0, 5120), pair.nodes[0].bytes(0, 5120));
}

#[test]
fn r71_the_same_with_more_behind_it_than_the_window_holds_now() {
    let mut pair = pair();
    write(&mut pair, 2, 1 << 18);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok(), "the window has acked_since_growth");
    lose(&mut pair, 0, 0x100 + 1 + 1024 + 5, 3);
    write(&mut pair, 3, 1 << 18);
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < 5 * MS, "{took} ns");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

#[test]
fn r71_a_lost_nak_costs_no_timeout() {
    let mut pair = pair();
    let (mut packets, mut naks) = (1, 1);
    pair.filter(move |seen| {
        let left = if seen.from == 0 { &mut packets } else { &mut naks };
        let hit = match seen.from {
            0 => seen.packet().bth.psn.get() == 0x100 + 1 + 5,
            _ => seen.syndrome().is_some_and(|syndrome| syndrome >> 5 == 3),
        };
        let hit = hit && *left > 0;
        *left -= u32::from(hit);
        if hit { Fate::Drop } else { Fate::Deliver }
    });
    write(&mut pair, 2, 20 * 256);
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < 5 * MS, "{took} ns");
    let counters = &pair.nodes[0].counters;
    assert_eq!((counters.ack_timeout, counters.rcvd_seq_err), (0, 0), "the NAK never came");
    assert_eq!(pair.nodes[1].bytes(0, 5120), pair.nodes[0].bytes(0, 5120));
}

#[test]
fn r68_a_response_that_is_lost_again_when_it_is_asked_for_again_costs_no_timeout() {
    let mut pair = pair();
    lose(&mut pair, 1, 0x100 + 1 + 5, 3);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = pair.nodes[0].sge(0, 20 * 256);
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &[target])).unwrap();
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < 5 * MS, "{took} ns");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

#[test]
fn r75_a_dead_peer_gets_a_few_probes_and_then_the_usual_retries() {
    let mut pair = pair();
    pair.filter(|seen| if seen.from == 0 { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 2, 256);
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RetryExcErr);
    let sent = pair.trace.iter().filter(|seen| seen.from == 0).count();
    assert_eq!(sent, 1 + 7 + limits::TAIL_PROBES as usize);
}

#[test]
fn r152_a_lost_last_response_is_asked_for_again_long_before_the_timeout() {
    let mut pair = pair();
    pair.lose_once(1, Opcode::RC_READ_RESPONSE_ONLY, 0);
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = pair.nodes[0].sge(0, 100);
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &[target])).unwrap();
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < MS, "{took} ns");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

/// The peer answers no duplicate of what is before a READ (R57).
#[test]
fn r152_a_lost_answer_behind_a_write_is_asked_for_again_long_before_the_timeout() {
    for keeps in [false, true] {
        let mut pair = pair();
        pair.nodes[0].qp.set_selective_repeat(keeps);
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        for op in [SendOp::Read { va, rkey }, SendOp::FetchAdd { va, rkey, add: 1 }] {
            let mut answers = 1;
            pair.filter(move |seen| {
                let lost = seen.from == 1 && answers > 0;
                answers -= u32::from(lost && seen.opcode != Opcode::RC_ACKNOWLEDGE);
                if lost { Fate::Drop } else { Fate::Deliver }
            });
            write(&mut pair, 2, 1000);
            let target = pair.nodes[0].sge(0, 8);
            pair.nodes[0].send(&wr_sges(3, op, &[target])).unwrap();
            let took = run(&mut pair);
            let done = pair.nodes[0].sends();
            assert!(done.iter().all(Wc::is_ok), "{done:?}");
            assert!(took < 2 * MS, "{took} ns");
            assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
        }
    }
}

/// Packets of node 0 in bursts: when, from the start on, and how many.
fn bursts(pair: &Pair, start: Instant) -> Vec<(u64, usize)> {
    let mut bursts: Vec<(u64, usize)> = vec![];
    for seen in pair.trace.iter().filter(|seen| seen.from == 0) {
        let at = seen.at.since(start);
        match bursts.last_mut() {
            Some((last, count)) if *last == at => *count += 1,
            _ => bursts.push((at, 1)),
        }
    }
    bursts
}

#[test]
fn r154_a_silent_peer_finds_one_window_and_single_probes_before_the_timeout() {
    for setup in [Setup::as_device(), Setup { probes: [true; 2], ..Setup::default() }] {
        let mut pair = Pair::new(Setup { mtu: uroce_wire::Mtu::M1024, timeout: 18, ..setup });
        (0..8).for_each(|id| write(&mut pair, id, 1 << 18));
        pair.run();
        assert_eq!(pair.nodes[0].sends().len(), 8, "the window is open");
        pair.trace.clear();
        pair.filter(|seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
        (0..8).for_each(|id| write(&mut pair, id, 1 << 18));
        let start = pair.now;
        pair.run_for(500 * MS);
        let bursts = bursts(&pair, start);
        assert_eq!(bursts[0], (0, limits::SHORT_PATH_WINDOW as usize));
        assert_eq!(bursts.len(), 1 + limits::TAIL_PROBES as usize);
        assert!(bursts[1..].iter().all(|(_, count)| *count == 1), "{bursts:?}");
        assert_eq!(pair.nodes[0].qp.bytes_in_flight(), 0, "nothing of it is on its way any more");
        // What is sent after the timeout is little.
        pair.trace.clear();
        pair.run_for(1000 * MS);
        let again = pair.trace.iter().filter(|seen| seen.from == 0).count();
        assert_eq!(again, limits::MIN_WINDOW as usize);
        pair.no_filter();
        pair.run();
        assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
    }
}

#[test]
fn r154_the_same_of_a_peer_that_answers_no_read() {
    let mut pair = pair();
    pair.filter(|seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = pair.nodes[0].sge(0, 1 << 18);
    pair.nodes[0].send(&wr_sges(2, SendOp::Read { va, rkey }, &[target])).unwrap();
    let start = pair.now;
    pair.run_for(60 * MS);
    let bursts = bursts(&pair, start);
    assert_eq!(bursts.len(), 1 + limits::TAIL_PROBES as usize, "{bursts:?}");
    assert!(bursts.iter().all(|(_, count)| *count == 1));
    pair.no_filter();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].counters.ack_timeout, 1);
}

#[test]
fn r152_a_qp_that_knows_no_round_trip_yet_probes_too() {
    let mut pair = Pair::new(Setup { timeout: 18, ..Setup::as_device() });
    pair.lose_once(0, Opcode::RC_WRITE_ONLY, 0);
    write(&mut pair, 1, 100);
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < 100 * MS, "{took} ns");
}

fn names(pair: &Pair) -> Vec<&'static str> {
    pair.trace.iter().map(Seen::name).collect()
}
