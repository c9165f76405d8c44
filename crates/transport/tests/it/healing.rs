//! A network that loses, delays and doubles packets, and heals: from then on everything completes (R75), and where the tail
//! probes were not used up, without a timeout (R152).
//!
//! `UROCE_SEEDS` says how many seeds are tried.

use uroce_transport::*;
use uroce_wire::{Mtu, Psn};

use crate::harness::*;

const SEEDS: u64 = 3_000;
/// Where the network has healed by then, two probes of three are still to come.
const PROBED_NS: u64 = 500_000;
/// Of 1,000 packets.
const LATE: u64 = 50;

/// What the responder does with what comes behind a gap, and how it answers READs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    KeepsIt,
    DropsIt,
    /// It drops it, answers nothing before the part of a READ that was asked for last, and knows no reserved bits.
    Rxe,
}

/// The parts of READs that were asked for last: first and last PSN of each, and where the part begins.
#[derive(Default)]
struct RxeReads(Vec<(Psn, Psn, Psn)>);

impl RxeReads {
    /// Whether this READ REQUEST is answered.
    fn answers(&mut self, seen: &Seen) -> bool {
        let psn = Psn::new(seen.psn);
        let length = seen.packet().reth().expect("of a READ").length;
        let last = psn.add(length.div_ceil(256).max(1) - 1);
        let holds = |(first, last, _): &&mut (Psn, Psn, Psn)| {
            psn.since(*first) >= 0 && psn.since(*last) <= 0
        };
        match self.0.iter_mut().rev().find(holds) {
            Some((.., part)) if psn.since(*part) < 0 => return false,
            Some((.., part)) => *part = psn,
            None => self.0.push((psn, last, psn)),
        }
        true
    }
}

/// Faults up to `heals`, and the ways of the peer at all times.
fn install(pair: &mut Pair, peer: Peer, heals: Instant, mut random: Random) {
    let loss = [random.pick(&[0, 100, 300, 700]), random.pick(&[100, 300, 700, 1000])];
    let late = random.pick(&[0, 0, LATE]);
    let mut reads = RxeReads::default();
    pair.filter(move |seen| {
        let is_faulty = seen.at < heals;
        if is_faulty && random.below(1000) < loss[seen.from] {
            return Fate::Drop;
        }
        if peer == Peer::Rxe {
            if seen.name().contains("READ_REQUEST") && !reads.answers(seen) {
                return Fate::Drop;
            }
            let mut bytes = seen.bytes.clone();
            bytes[8] &= 0x80;
            return Fate::Replace(bytes);
        }
        match random.below(1000) {
            draw if is_faulty && draw < late => Fate::Delay(random.below(40_000)),
            draw if is_faulty && draw < 2 * late => Fate::DuplicateLate(random.below(20_000)),
            _ => Fate::Deliver,
        }
    });
}

/// Posts requests of every kind, some of them at once; how many.
fn post(pair: &mut Pair, peer: Peer, random: &mut Random) -> u64 {
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let most = random.pick(&[6, 40]);
    let count = 1 + random.below(most);
    for id in 1..=count {
        let length = random.pick(&[256, 2_000, 12_000, 60_000]);
        let length = random.below(length) as u32;
        let write = (SendOp::Write { va, rkey }, length);
        let (op, length) = match random.below(8) {
            0..3 => write,
            3 => (SendOp::Send, length),
            4..6 => (SendOp::Read { va, rkey }, length),
            6 => (SendOp::FetchAdd { va, rkey, add: 1 }, 8),
            _ if peer == Peer::Rxe => write,
            _ => (SendOp::AtomicWrite { va, rkey }, 8),
        };
        let mut flags = random.pick(&[SendFlags::empty(), SendFlags::SIGNALED]);
        flags |= random.pick(&[SendFlags::empty(), SendFlags::empty(), SendFlags::FENCE]);
        if id == count {
            flags |= SendFlags::SIGNALED;
        }
        let sge = [pair.nodes[0].sge(100_000, length)];
        pair.nodes[0].send(&SendWr { flags, ..wr_sges(id, op, &sge) }).unwrap();
        if random.below(4) == 0 {
            pair.run_for(random.below(30_000));
        }
    }
    count
}

/// One network; what is wrong with it.
fn heal(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let peer = random.pick(&[Peer::KeepsIt, Peer::DropsIt, Peer::Rxe]);
    let mut pair = Pair::new(Setup {
        mtu: Mtu::M256,
        psn: [random.pick(&[0x100, 0xff_ffe0]), 0x900],
        rd_atomic: random.pick(&[1, 2, 4, 16]),
        keeps: [false, peer == Peer::KeepsIt],
        repairs: [random.below(4) > 0, false],
        probes: [true, false],
        arrives: random.pick(&[0, 64]),
        train: random.pick(&[0, 40]),
        ..Setup::default()
    });
    // The round trip is known.
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let sge = [pair.nodes[0].sge(0, 256)];
    pair.nodes[0].send(&wr_sges(0, SendOp::Write { va, rkey }, &sge)).unwrap();
    pair.run();
    let sge = [pair.nodes[1].sge(200_000, 60_000)];
    (0..40).for_each(|id| pair.nodes[1].recv(id, &sge).unwrap());
    let longest_ns = random.pick(&[60_000, PROBED_NS, PROBED_NS, 150_000_000]);
    let heal_ns = random.below(longest_ns);
    let heals = pair.now.add_ns(heal_ns);
    install(&mut pair, peer, heals, Random::new(random.below(u64::MAX)));
    let count = post(&mut pair, peer, &mut random);
    pair.run();
    let done = pair.nodes[0].sends();
    let timeouts = pair.nodes[0].counters.ack_timeout;
    let what = |what: &str| Err(format!("seed {seed}, {peer:?}, {heal_ns} ns: {what}"));
    match done.iter().find(|wc| !wc.is_ok()) {
        Some(failed) => what(&format!("{failed:?}")),
        None if done.last().is_none_or(|wc| wc.wr_id != count) => what("something is left"),
        None if heal_ns < PROBED_NS && timeouts > 0 => what(&format!("{timeouts} timeouts")),
        None => Ok(()),
    }
}

#[test]
fn r75_r152_what_a_network_has_lost_comes_once_it_has_healed() {
    let seeds = std::env::var("UROCE_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |seeds| seeds.parse().expect("a number"));
    let wrong: Vec<_> = (0..seeds).filter_map(|seed| heal(seed).err()).collect();
    assert!(wrong.is_empty(), "{} of {seeds}: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}
