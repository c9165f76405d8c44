//! READs from a peer that stands still again and again, on a bad path.

use uroce_transport::*;
use uroce_wire::Mtu;

use crate::harness::*;

const SEEDS: u64 = 200;
const READS: u64 = 8;
const LENGTH: u32 = 128 * 1024;
/// How long the peer stands still.
const STOP_NS: u64 = 450 * MS;
/// All of a stream, with its stops; most take a quarter of that.
const BOUND_NS: u64 = 10_000 * MS;

/// After every few hundred packets the peer stands still: what comes then is lost, or waits for it.
struct Path {
    random: Random,
    waits: bool,
    until_stop: u64,
    stop_ends: Instant,
}

impl Path {
    fn new(seed: u64) -> Path {
        let mut random = Random::new(seed);
        let until_stop = 1 + random.below(400);
        Path { random, waits: seed.is_multiple_of(2), until_stop, stop_ends: Instant::ZERO }
    }

    fn fate(&mut self, now: Instant) -> Fate {
        if now < self.stop_ends {
            return if self.waits { Fate::Delay(self.stop_ends.since(now)) } else { Fate::Drop };
        }
        self.until_stop -= 1;
        if self.until_stop == 0 {
            self.stop_ends = now.add_ns(STOP_NS);
            self.until_stop = 150 + self.random.below(250);
        }
        match self.random.below(100) {
            0..10 => Fate::Drop,
            10..15 => Fate::Duplicate,
            15..20 => Fate::DuplicateLate(self.random.below(2 * MS)),
            20..30 => Fate::Delay(self.random.below(MS)),
            _ => Fate::Deliver,
        }
    }
}

/// How long the READs of 1 MiB took.
fn stream(seed: u64) -> u64 {
    let mut pair = Pair::new(Setup { mtu: Mtu::M1024, rd_atomic: 4, ..Setup::as_device() });
    let data = pattern(seed as u8, MR_LEN);
    pair.nodes[1].fill(0, &data);
    for id in 0..READS {
        let offset = id as usize * LENGTH as usize;
        let (va, rkey) = (pair.nodes[1].va(offset), pair.nodes[1].rkey());
        let target = pair.nodes[0].sge(offset, LENGTH);
        pair.nodes[0].send(&wr_sges(id, SendOp::Read { va, rkey }, &[target])).unwrap();
    }
    let mut path = Path::new(seed);
    pair.filter(move |seen| path.fate(seen.at));
    let start = pair.now;
    let mut done = vec![];
    while done.len() < READS as usize && pair.now.since(start) < BOUND_NS {
        assert!(pair.step(), "seed {seed}: it stands still behind {done:?}");
        done.extend(pair.nodes[0].sends());
    }
    let ids = done.iter().map(|wc| (wc.wr_id, wc.is_ok()));
    assert!(ids.eq((0..READS).map(|id| (id, true))), "seed {seed}: {done:?}");
    assert!(pair.nodes[0].bytes(0, MR_LEN) == data, "seed {seed}: other bytes");
    pair.now.since(start)
}

#[test]
fn r162_reads_complete_through_stops_copies_delay_and_loss() {
    let mut times: Vec<u64> = (1..=SEEDS).map(stream).collect();
    times.sort_unstable();
    let ms = |index: usize| times[index] / MS;
    println!("median {} ms, longest {} ms", ms(times.len() / 2), ms(times.len() - 1));
}
