//! Somebody forges NAKs with lists of gaps, ACKs and RNR NAKs for what is on its way (A9, ADR 33): nothing panics, no assertion of
//! the transport fails, and what is outstanding stays bounded.

use uroce_transport::*;
use uroce_wire::Syndrome;

use crate::harness::*;

/// Two nodes, of which the first is to be lied to, on a path that loses, doubles and delays.
fn pair_with_faults(seed: u64, random: &mut Random) -> Pair {
    let mut pair = Pair::new(Setup {
        psn: [random.pick(&[0x100, 0xff_ffe0, 0xff_ff00]), 0x900],
        rd_atomic: random.pick(&[1, 4, 100]),
        retry_cnt: random.pick(&[1, 7]),
        keeps: [false, random.below(4) > 0],
        train: random.pick(&[0, 40]),
        arrives: random.pick(&[0, 64]),
        ..Setup::as_device()
    });
    pair.traces = false;
    pair.latency_ns = random.pick(&[5_000, 20_000]);
    let loss = random.pick(&[0, 30, 200]);
    let mut faults = Random::new(seed * 7 + 1);
    pair.filter(move |_| match faults.below(1000) {
        draw if draw < loss => Fate::Drop,
        draw if draw < loss + 20 => Fate::DuplicateLate(30_000),
        draw if draw < loss + 40 => Fate::Delay(20_000),
        _ => Fate::Deliver,
    });
    let sge = [pair.nodes[1].sge(200_000, 60_000)];
    (0..20).for_each(|id| pair.nodes[1].recv(id, &sge).unwrap());
    pair
}

fn post(pair: &mut Pair, wr_id: u64, random: &mut Random) {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let longest = random.pick(&[200, 2_000, 60_000, 200_000]);
    let length = random.below(longest) as u32;
    let (op, length) = match random.below(9) {
        0..4 => (SendOp::Write { va, rkey }, length),
        4 => (SendOp::Send, length.min(60_000)),
        5..7 => (SendOp::Read { va, rkey }, length),
        7 => (SendOp::FetchAdd { va, rkey, add: 1 }, 8),
        _ => (SendOp::AtomicWrite { va, rkey }, 8),
    };
    let sge = [pair.nodes[0].sge(100_000, length)];
    // The queue may be full, and the queue pair in the error state.
    let _refused = pair.nodes[0].send(&wr_sges(wr_id, op, &sge));
}

/// A list that may make sense: up to 60 gaps, and how far was seen, of `flying` packets.
fn forged_list(flying: u32, random: &mut Random) -> Vec<u8> {
    let mut list = vec![];
    let mut at = 0;
    let entries = random.pick(&[1, 3, 61]);
    for _ in 0..random.below(entries) {
        let longest = random.pick(&[1, 1, 2, 10, 513, 0xffff]);
        let packets = random.below(longest) as u32 + u32::from(random.below(9) > 0);
        list.extend((at as u16).to_be_bytes());
        list.extend((packets as u16).to_be_bytes());
        let step = random.pick(&[1, 1, 2, 40]);
        at += packets + random.below(step) as u32 + u32::from(random.below(9) > 0);
    }
    if random.below(3) > 0 {
        let seen = flying as i32 + random.pick(&[0, 0, 0, -1, -5, 1]);
        list.extend((seen as u16).to_be_bytes());
        list.extend([0, 0]);
    }
    list
}

fn lie(pair: &mut Pair, random: &mut Random) {
    let flying = pair.nodes[0].qp.traffic().window.outstanding.max(1);
    let una = pair.nodes[0].qp.next_psn().sub(flying);
    let ahead = random.pick(&[1, 1, 1, 5, 50, 300]);
    let psn = una.add(random.below(ahead) as u32).get();
    let list = forged_list(flying, random);
    match random.below(8) {
        0 => pair.answer(psn, Syndrome::ack(31)),
        1 if random.below(4) == 0 => pair.answer(psn, Syndrome::rnr(1)),
        _ => pair.nak_with_list(psn, &list),
    }
}

#[test]
fn a9_forged_lists_break_no_invariant() {
    let seeds = std::env::var("UROCE_SEEDS").map_or(300, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        let mut random = Random::new(seed);
        let mut pair = pair_with_faults(seed, &mut random);
        for wr_id in 0..150 {
            if random.below(5) == 0 {
                post(&mut pair, wr_id, &mut random);
            }
            let pause = random.pick(&[10, 1_000, 30_000, 100_000, 100_000_000]);
            pair.run_for(random.below(pause));
            (0..random.below(4)).for_each(|_| lie(&mut pair, &mut random));
            let outstanding = pair.nodes[0].qp.traffic().window.outstanding;
            assert!(outstanding < 1_000, "seed {seed}: {outstanding}");
        }
    }
}
