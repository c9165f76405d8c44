//! A lost tail costs a few round trips, not a timeout.

use uroce_memory::Rkey;
use uroce_transport::*;
use uroce_wire::{Opcode, ack_timeout_ns};

use crate::harness::*;

/// A pair that probes, and that has measured its round trip.
fn pair() -> Pair {
    let mut pair = Pair::rc();
    pair.set_features(0, |features| features.tail_probes = true);
    write(&mut pair, 1, 256);
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    pair.trace.clear();
    pair
}

/// Posts a request about the beginning of the peer's memory.
fn post(pair: &mut Pair, wr_id: u64, length: u32, op: impl Fn(u64, Rkey) -> SendOp) {
    let op = op(pair.nodes[1].va(0), pair.nodes[1].rkey());
    let sge = pair.nodes[0].sge(0, length);
    pair.nodes[0].send(&wr_sges(wr_id, op, &[sge])).unwrap();
}

fn write(pair: &mut Pair, wr_id: u64, length: u32) {
    post(pair, wr_id, length, |va, rkey| SendOp::Write { va, rkey });
}

fn read(pair: &mut Pair, wr_id: u64, length: u32) {
    post(pair, wr_id, length, |va, rkey| SendOp::Read { va, rkey });
}

fn fetch_add(pair: &mut Pair, wr_id: u64) {
    post(pair, wr_id, 8, |va, rkey| SendOp::FetchAdd { va, rkey, add: 1 });
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
    read(&mut pair, 2, 20 * 256);
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
    read(&mut pair, 2, 100);
    let took = run(&mut pair);
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert!(took < MS, "{took} ns");
    assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
}

/// Loses so many answers to READs and atomics, and the ACKs before the last of them.
fn lose_answers(pair: &mut Pair, mut answers: u32) {
    pair.filter(move |seen| {
        let lost = seen.from == 1 && answers > 0;
        answers -= u32::from(lost && seen.opcode != Opcode::RC_ACKNOWLEDGE);
        if lost { Fate::Drop } else { Fate::Deliver }
    });
}

/// The peer answers no duplicate of what is before a READ (R57).
#[test]
fn r152_a_lost_answer_behind_a_write_is_asked_for_again_long_before_the_timeout() {
    for keeps in [false, true] {
        let mut pair = pair();
        pair.set_features(0, |features| features.selective_repeat = keeps);
        for reads in [true, false] {
            lose_answers(&mut pair, 1);
            write(&mut pair, 2, 1000);
            match reads {
                true => read(&mut pair, 3, 8),
                false => fetch_add(&mut pair, 3),
            }
            let took = run(&mut pair);
            let done = pair.nodes[0].sends();
            assert!(done.iter().all(Wc::is_ok), "{done:?}");
            assert!(took < 2 * MS, "{took} ns");
            assert_eq!(pair.nodes[0].counters.ack_timeout, 0);
        }
    }
}

/// Everything completes, after so many timeouts.
fn completes(pair: &mut Pair, timeouts: u64) {
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.iter().all(Wc::is_ok), "{done:?}");
    assert_eq!(pair.nodes[0].counters.ack_timeout, timeouts);
}

#[test]
fn r152_an_answer_behind_a_write_that_is_lost_twice_costs_no_timeout() {
    let mut pair = pair();
    lose_answers(&mut pair, 2);
    write(&mut pair, 2, 1000);
    read(&mut pair, 3, 8);
    completes(&mut pair, 0);
}

/// The READ draws a NAK, for which no retry is there.
#[test]
fn r152_a_write_and_a_read_that_are_lost_cost_no_retry() {
    let setup = Setup { retry_cnt: 0, probes: [true; 2], ..Setup::default() };
    let mut pair = Pair::new(setup);
    write(&mut pair, 1, 256);
    pair.run();
    let heals = pair.now.add_ns(10_000);
    pair.filter(move |seen| if seen.at < heals { Fate::Drop } else { Fate::Deliver });
    write(&mut pair, 2, 1000);
    read(&mut pair, 3, 8);
    completes(&mut pair, 0);
}

#[test]
fn r152_what_is_lost_while_the_window_goes_out_again_is_probed_for() {
    let mut pair = pair();
    let timeout = pair.now.add_ns(ack_timeout_ns(14).unwrap());
    let mut again = 0;
    pair.filter(move |seen| {
        again += u32::from(seen.from == 0 && seen.at >= timeout);
        let lost = seen.from == 0 && again > 16 && seen.at.since(timeout) < 100_000;
        if seen.at < timeout || lost { Fate::Drop } else { Fate::Deliver }
    });
    write(&mut pair, 2, 64 * 256);
    completes(&mut pair, 1);
}

#[test]
fn r152_a_probe_goes_out_although_the_window_has_become_smaller() {
    let mut pair = pair();
    fetch_add(&mut pair, 1);
    (0..9).for_each(|id| write(&mut pair, 10 + id, 8));
    let heals = pair.now.add_ns(100_000);
    let mut answers = 0;
    pair.filter(move |seen| {
        if seen.from == 0 || seen.at >= heals {
            return Fate::Deliver;
        }
        answers += 1;
        // The answer of the atomic comes when it is asked for again, and before that an ACK of what is behind it.
        let is_atomic = seen.opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE;
        let passes = if is_atomic { answers > 1 } else { answers == 2 };
        if passes { Fate::Deliver } else { Fate::Drop }
    });
    pair.run_for(1_000);
    (0..52).for_each(|id| write(&mut pair, 20 + id, 8));
    completes(&mut pair, 0);
}

/// A late copy of a NAK makes the window smaller, and the READ that was executed is behind its end.
#[test]
fn r152_a_read_behind_the_end_of_the_window_is_probed_for() {
    let mut pair = pair();
    let heals = pair.now.add_ns(100_000);
    let mut is_first = true;
    pair.filter(move |seen| {
        if seen.from == 0 {
            let hit = is_first && seen.psn == 0x101;
            is_first &= !hit;
            return if hit { Fate::Drop } else { Fate::Deliver };
        }
        match seen.syndrome() {
            Some(0x60) => Fate::DuplicateLate(20_000),
            _ if seen.at < heals => Fate::Drop,
            _ => Fate::Deliver,
        }
    });
    write(&mut pair, 2, 40 * 256);
    read(&mut pair, 3, 8);
    completes(&mut pair, 0);
}

#[test]
fn r152_an_answer_behind_a_hole_gives_the_probes_back() {
    let mut pair = pair();
    let timeout = pair.now.add_ns(ack_timeout_ns(14).unwrap());
    let mut lost = 2;
    pair.filter(move |seen| {
        let early = seen.from == 1 && seen.at < timeout;
        let hit = seen.from == 1 && seen.psn == 0x101 && seen.at >= timeout && lost > 0;
        lost -= u32::from(hit);
        if early || hit { Fate::Drop } else { Fate::Deliver }
    });
    read(&mut pair, 2, 20 * 256);
    completes(&mut pair, 1);
}

/// A NAK behind a hole that was asked for already, while the window is closed.
#[test]
fn r152_a_nak_behind_a_hole_leaves_the_probe_on() {
    let mut pair = pair();
    let (mut hole, mut first) = (2, 1);
    pair.filter(move |seen| {
        let (left, psn) = if seen.from == 0 { (&mut first, 0x133) } else { (&mut hole, 0x101) };
        let hit = *left > 0 && seen.psn == psn;
        *left -= u32::from(hit);
        match seen.syndrome() {
            _ if hit => Fate::Drop,
            Some(0x60) => Fate::Delay(2_000),
            _ => Fate::Deliver,
        }
    });
    read(&mut pair, 1, 50 * 256);
    write(&mut pair, 2, 5 * 256);
    completes(&mut pair, 0);
}

/// The peer misses what goes out next, behind a single packet that was sent again.
#[test]
fn r71_a_nak_for_what_goes_out_next_does_not_silence_the_requester() {
    let setup = Setup { repairs: [true, false], keeps: [false, true], ..Setup::default() };
    let mut pair = Pair::new(Setup { probes: [true, false], ..setup });
    write(&mut pair, 0, 256);
    pair.run();
    let last = 0x130;
    let mut lost = vec![0x102, last, last, last + 1];
    let mut is_first = true;
    pair.filter(move |seen| {
        if seen.opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE && std::mem::take(&mut is_first) {
            return Fate::Drop;
        }
        match lost.iter().position(|psn| *psn == seen.psn) {
            Some(at) if seen.from == 0 => {
                lost.swap_remove(at);
                Fate::Drop
            }
            _ => Fate::Deliver,
        }
    });
    fetch_add(&mut pair, 1);
    write(&mut pair, 2, 63 * 256);
    completes(&mut pair, 0);
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
    read(&mut pair, 2, 1 << 18);
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
