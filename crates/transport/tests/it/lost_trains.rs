//! R159: what is taken for trains that get lost as a whole, and what is not.

use std::cell::RefCell;
use std::rc::Rc;

use uroce_transport::*;
use uroce_wire::{NakCode, Syndrome, ack_timeout_ns};

use crate::harness::*;

const LENGTH: u32 = 40_000;

fn write(pair: &mut Pair, wr_id: u64) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = pair.nodes[0].sge(0, LENGTH);
    pair.nodes[0].send(&wr_sges(wr_id, SendOp::Write { va, rkey }, &[source])).unwrap();
}

/// How often one of the queue pairs has found that trains are lost.
fn verdicts(pair: &mut Pair) -> usize {
    pair.nodes.iter_mut().filter_map(|node| node.qp.take_lost_trains().then_some(())).count()
}

#[test]
fn r159_silence_raises_doubts_about_trains_and_naks_do_not() {
    let mut pair = Pair::rc();
    write(&mut pair, 1);
    pair.filter(|_| Fate::Drop);
    for _ in 0..3 {
        pair.run_for(10_000);
        pair.answer(0x100, Syndrome::nak(NakCode::PsnSequence));
    }
    assert!(!pair.nodes[0].qp.doubts_trains(), "three NAKs for the same packet");
    let timeout = ack_timeout_ns(14).unwrap();
    pair.run_for(5 * timeout);
    assert!(!pair.nodes[0].qp.doubts_trains(), "one timeout");
    pair.run_for(9 * timeout);
    assert!(pair.nodes[0].qp.doubts_trains());
}

#[test]
fn r159_a_peer_that_stands_still_again_and_again_is_no_sign_of_lost_trains() {
    for read in [false, true] {
        let mut pair = Pair::new(Setup::as_device());
        for round in 0..20 {
            let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
            let op = if read { SendOp::Read { va, rkey } } else { SendOp::Write { va, rkey } };
            for id in 0..3 {
                let sge = pair.nodes[0].sge(0, LENGTH);
                pair.nodes[0].send(&wr_sges(id, op, &[sge])).unwrap();
            }
            pair.run_for(12_000);
            // It hears nothing for 0.6 s; or what it has heard comes all at once.
            match round % 2 {
                0 => pair.filter(|_| Fate::Drop),
                _ => {
                    let end = pair.now.add_ns(600 * MS);
                    pair.filter(move |seen| Fate::Delay(end.since(seen.at)));
                }
            }
            pair.run_for(600 * MS);
            pair.no_filter();
            pair.run();
            assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
            assert_eq!(verdicts(&mut pair), 0, "round {round}, READ {read}");
        }
    }
}

#[test]
fn r159_random_losses_are_no_sign_of_lost_trains() {
    for setup in [Setup::as_device(), Setup { probes: [true; 2], ..Setup::default() }] {
        for (seed, read) in (1..=40u64).flat_map(|seed| [(seed, false), (seed, true)]) {
            let mut pair = Pair::new(setup);
            let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
            let op = if read { SendOp::Read { va, rkey } } else { SendOp::Write { va, rkey } };
            for id in 0..10 {
                let sge = pair.nodes[0].sge(0, LENGTH);
                pair.nodes[0].send(&wr_sges(id, op, &[sge])).unwrap();
            }
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            pair.filter(move |_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                if random % 10 == 0 { Fate::Drop } else { Fate::Deliver }
            });
            pair.run();
            assert_eq!(verdicts(&mut pair), 0, "seed {seed}, READ {read}");
        }
    }
}

/// Packets of one end that leave at the same moment are a train, unless its queue pair has doubts; such trains get lost.
#[test]
fn r159_trains_that_are_lost_twice_where_single_packets_pass_are_a_verdict() {
    for setup in [Setup::as_device(), Setup { probes: [true; 2], ..Setup::default() }] {
        let mut pair = Pair::new(setup);
        let doubts = Rc::new(RefCell::new(false));
        let seen_doubts = doubts.clone();
        let mut last = None;
        pair.filter(move |seen| {
            let rides = seen.from == 0 && last == Some(seen.at) && !*seen_doubts.borrow();
            last = Some(seen.at);
            if rides { Fate::Drop } else { Fate::Deliver }
        });
        (0..8).for_each(|id| write(&mut pair, id));
        let mut found = 0;
        while pair.step() {
            *doubts.borrow_mut() = pair.nodes[0].qp.doubts_trains();
            found += verdicts(&mut pair);
        }
        assert!(pair.nodes[0].sends().iter().all(Wc::is_ok));
        assert!(found > 0);
    }
}
