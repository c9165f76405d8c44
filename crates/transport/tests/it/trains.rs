//! A train has the packets that would leave one by one, and does what they would do.

use proptest::prelude::*;
use uroce_transport::*;
use uroce_wire::{Bth, Mtu};

use crate::harness::*;

/// What happened between two ends.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// When, from whom, and what: addresses differ from one pair of ends to the next.
    packets: Vec<(u64, usize, Bth, Vec<u8>)>,
    memory: [Vec<u8>; 2],
    completions: [Vec<Wc>; 4],
    counters: [String; 2],
}

/// A request of one end.
#[derive(Debug, Clone, Copy)]
struct Request {
    from: usize,
    operation: usize,
    length: u32,
    signaled: bool,
    entries: usize,
}

const SPACE: usize = 40 * 1024;

fn post(pair: &mut Pair, index: usize, request: &Request) {
    let Request { from, operation, length, signaled, entries } = *request;
    let (to, at) = (1 - from, index * 64 % 1024);
    let target = pair.nodes[to].sge(SPACE + at, length);
    pair.nodes[to].recv(index as u64, &[target]).unwrap();
    let (va, rkey) = (pair.nodes[to].va(SPACE + at), pair.nodes[to].rkey());
    let op = match operation {
        0 => SendOp::Send,
        1 => SendOp::Write { va, rkey },
        _ => SendOp::Read { va: pair.nodes[to].va(at), rkey },
    };
    let local = if operation > 1 { 2 * SPACE } else { 0 };
    let cut = length / 2;
    let whole = [pair.nodes[from].sge(local + at, length)];
    let parts = [
        pair.nodes[from].sge(local + at, cut),
        pair.nodes[from].sge(local + at + cut as usize, length - cut),
    ];
    let sges = if entries == 1 { &whole[..] } else { &parts[..] };
    let flags = if signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
    let wr = SendWr { flags, ..wr_sges(index as u64, op, sges) };
    pair.nodes[from].send(&wr).unwrap();
}

/// What happens to packets on the way.
#[derive(Debug, Clone, Default)]
struct Mishaps {
    /// Every packet of this number is lost once.
    lost: usize,
    /// Which packet comes with which bit of its headers turned over, and its ICRC right all the same.
    altered: Vec<(usize, usize)>,
    /// Every packet of this number comes twice.
    doubled: usize,
}

impl Mishaps {
    fn fate(&self, nth: usize, packet: &Seen) -> Fate {
        let is_each = |number: usize| number > 0 && nth.is_multiple_of(number) && nth < 400;
        match self.altered.iter().find(|(which, _)| *which == nth) {
            Some(&(_, bit)) => {
                let mut bytes = packet.bytes.clone();
                bytes[bit / 8 % packet.bytes.len()] ^= 1 << (bit % 8);
                Fate::Replace(bytes)
            }
            None if is_each(self.lost) => Fate::Drop,
            None if is_each(self.doubled) => Fate::Duplicate,
            None => Fate::Deliver,
        }
    }
}

/// Moves the messages. In `setup` is how many packets leave and arrive behind a first one.
fn outcome(requests: &[Request], mishaps: &Mishaps, setup: Setup) -> Outcome {
    let mut pair = Pair::new(Setup { mtu: Mtu::M256, ..setup });
    for (seed, node) in (7..).zip(&pair.nodes) {
        node.fill(0, &pattern(seed, SPACE));
    }
    let (mut seen, mishaps) = (0, mishaps.clone());
    pair.filter(move |packet| {
        seen += 1;
        mishaps.fate(seen, packet)
    });
    for (index, request) in requests.iter().enumerate() {
        post(&mut pair, index, request);
        if index % 8 == 7 {
            pair.run_for(3_000);
        }
    }
    pair.run();
    let trace = std::mem::take(&mut pair.trace);
    let seen = |seen: Seen| {
        let packet = seen.packet();
        (seen.at.as_nanos(), seen.from, packet.bth, packet.payload().to_vec())
    };
    let [a, b] = &mut pair.nodes;
    Outcome {
        packets: trace.into_iter().map(seen).collect(),
        memory: [a.bytes(0, 3 * SPACE), b.bytes(0, 3 * SPACE)],
        completions: [a.sends(), a.recvs(), b.sends(), b.recvs()],
        counters: [format!("{:?}", a.counters), format!("{:?}", b.counters)],
    }
}

fn request() -> impl Strategy<Value = Request> {
    let length = prop_oneof![3 => Just(64), 1 => 1u32..300, 2 => 256u32..9_000, 1 => Just(8_192)];
    let entries = prop_oneof![5 => Just(1usize), 1 => Just(2)];
    (0usize..2, 0usize..3, length, any::<bool>(), entries).prop_map(
        |(from, operation, length, signaled, entries)| Request {
            from,
            operation,
            length: length.max(2),
            signaled,
            entries,
        },
    )
}

fn one_by_one(allowance: u64) -> Setup {
    Setup { allowance, ..Setup::as_device() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn r19_a_train_has_the_packets_that_would_leave_one_by_one(
        requests in prop::collection::vec(request(), 1..40),
        lost in prop_oneof![Just(0usize), 5usize..90],
        train in 1usize..80,
        allowance in prop_oneof![Just(u64::MAX), 300u64..20_000],
        splits: [bool; 2],
    ) {
        let mishaps = Mishaps { lost, ..Mishaps::default() };
        let setup = Setup { splits, ..one_by_one(allowance) };
        let singly = outcome(&requests, &mishaps, setup);
        let in_trains = outcome(&requests, &mishaps, Setup { train, ..setup });
        prop_assert_eq!(singly, in_trains);
    }

    #[test]
    fn r19_a_train_does_what_its_packets_do(
        requests in prop::collection::vec(request(), 1..40),
        lost in prop_oneof![Just(0usize), 5usize..90],
        doubled in prop_oneof![Just(0usize), 5usize..90],
        altered in prop_oneof![
            Just(Vec::new()),
            prop::collection::vec((1usize..300, 0usize..28 * 8), 1..4)
        ],
        arrives in 1usize..80,
        allowance in prop_oneof![Just(u64::MAX), 300u64..20_000],
        as_device: bool,
        splits: [bool; 2],
    ) {
        let mishaps = Mishaps { lost, altered, doubled };
        let setup = if as_device { one_by_one(allowance) } else { Setup::default() };
        let setup = Setup { splits, ..setup };
        let singly = outcome(&requests, &mishaps, setup);
        let in_trains = outcome(&requests, &mishaps, Setup { arrives, ..setup });
        prop_assert_eq!(singly, in_trains);
    }
}

#[test]
fn r19_what_is_alike_leaves_and_is_taken_in_in_one_call() {
    for (operation, length, at_least) in [(0, 64, 35), (1, 8, 35), (1, 15_000, 40), (2, 15_000, 40)]
    {
        let request = Request { from: 0, operation, length, signaled: true, entries: 1 };
        let count = if length > 256 { 1 } else { 40 };
        let mut pair = Pair::new(Setup { train: 64, arrives: 64, ..Setup::as_device() });
        (0..count).for_each(|index| post(&mut pair, index, &request));
        pair.run();
        assert_eq!(pair.nodes[0].sends().len(), count);
        assert!(pair.in_trains >= at_least, "{operation} {length}: {}", pair.in_trains);
        let arrived = pair.arrived_in_trains;
        assert!(arrived + 5 >= at_least, "{operation} {length}: {arrived}");
    }
}
