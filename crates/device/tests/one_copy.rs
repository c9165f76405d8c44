//! The middle of a long message goes from region to region (docs/adr/020-one-copy.md).

mod common;

use common::{Buffer, Node, assert_ok, collect, ip, keep_busy, pattern, rc_pair};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::SendOp;
use uroce_device::wire::Qpn;
use uroce_device::{DeviceConfig, Faults};
use uroce_testkit::wait_until;

const LENGTH: usize = 1_000_003;

/// Packets that `node` has sent, and those of them that went past its datapath.
fn sent(node: &Node) -> (u64, u64) {
    let all = node.counter("sent_pkts");
    (all, all - node.counter("datapath_tx_packets"))
}

/// On a busy machine the threads of both ends may seldom run side by side; another run tells whether that was all.
const RUNS: usize = 5;

/// In one of several runs, most of the packets that a node has sent have to have gone past its datapath.
fn mostly_past(run: impl FnMut() -> (u64, u64)) {
    let mut runs = std::iter::repeat_with(run).take(RUNS).inspect(|run| println!("{run:?}"));
    assert!(runs.any(|(all, past)| past > all / 2), "fewer went past it in each run");
}

struct Ends {
    a: Node,
    b: Node,
    qa: Qpn,
    qb: Qpn,
    at_a: Buffer,
    at_b: Buffer,
}

fn ends(a: Node, b: Node) -> Ends {
    let (qa, qb) = rc_pair(&a, &b);
    let (at_a, at_b) = (a.buffer(LENGTH), b.buffer(LENGTH));
    Ends { a, b, qa, qb, at_a, at_b }
}

impl Ends {
    fn in_one_process() -> Ends {
        let fabric = LoopbackFabric::without_icrc();
        ends(Node::threaded(&fabric, 1), Node::threaded(&fabric, 2))
    }

    /// What B has, for A.
    fn there(&self) -> (u64, uroce_device::memory::Rkey) {
        (self.at_b.addr(), self.at_b.mr.rkey)
    }

    /// A message of A, of which all of A's buffer is the near end.
    fn move_one(&self, op: SendOp, (from, to): (&Buffer, &Buffer), seed: u8) {
        from.write(0, &pattern(LENGTH, seed));
        self.a.send(self.qa, 1, op, &[self.at_a.sge(0, LENGTH as u32)]);
        assert_ok(&collect(&[(&self.a, 1)])[0]);
        assert!(to.bytes(0, LENGTH) == pattern(LENGTH, seed), "seed {seed}");
    }

    fn send(&self, seed: u8) {
        self.move_one(SendOp::Send, (&self.at_a, &self.at_b), seed);
    }

    fn write(&self, seed: u8) {
        let (va, rkey) = self.there();
        self.move_one(SendOp::Write { va, rkey }, (&self.at_a, &self.at_b), seed);
    }

    fn read(&self, seed: u8) {
        let (va, rkey) = self.there();
        self.move_one(SendOp::Read { va, rkey }, (&self.at_b, &self.at_a), seed);
    }
}

#[test]
fn most_of_a_long_write_goes_past_the_datapath() {
    mostly_past(|| {
        let ends = Ends::in_one_process();
        (0..20).for_each(|seed| ends.write(seed));
        let sent = sent(&ends.a);
        assert_eq!(ends.b.counter("rcvd_pkts"), sent.0, "packets of runs are counted like others");
        sent
    });
}

#[test]
fn most_of_a_long_read_goes_past_the_datapath() {
    mostly_past(|| {
        let ends = Ends::in_one_process();
        (0..20).for_each(|seed| ends.read(seed));
        sent(&ends.b)
    });
}

#[test]
fn most_of_a_long_send_goes_past_the_datapath_and_completes_once() {
    mostly_past(|| {
        let ends = Ends::in_one_process();
        for seed in 0..20 {
            ends.b.recv(ends.qb, seed, &[ends.at_b.sge(0, LENGTH as u32)]);
        }
        // B's application does not poll meanwhile.
        (0..20).for_each(|seed| ends.send(seed));
        let sent = sent(&ends.a);
        let received = &collect(&[(&ends.b, 20)])[0];
        assert_ok(received);
        assert!(received.iter().map(|wc| wc.wr_id).eq(0..20));
        assert!(received.iter().all(|wc| wc.byte_len as usize == LENGTH));
        sent
    });
}

/// Nothing may go past what looks at bytes: an ICRC, or something around the datapath of either end.
#[test]
fn nothing_goes_past_who_wants_to_see_the_bytes() {
    let around = |fabric: &LoopbackFabric, last, rules: &str| {
        let faults = (!rules.is_empty()).then(|| {
            let plan = rules.parse().expect("rules");
            Faults::new(plan, Some(7)).expect("a seed is given")
        });
        Node::open(DeviceConfig { faults, ..DeviceConfig::loopback(ip(last), fabric) })
    };
    for rules in [["", ""], ["rx drop 0.1%", ""], ["", "rx drop 0.1%"]] {
        let fabric = LoopbackFabric::new();
        let ends = ends(around(&fabric, 1, rules[0]), around(&fabric, 2, rules[1]));
        ends.write(1);
        ends.read(2);
        assert_eq!((sent(&ends.a).1, sent(&ends.b).1), (0, 0), "{rules:?}");
    }
}

/// Damage would not be noticed.
#[test]
fn faults_need_packets_with_an_icrc() {
    let faults = Faults::new("rx drop 1%".parse().expect("a rule"), Some(7)).expect("a seed");
    let fabric = LoopbackFabric::without_icrc();
    let config = DeviceConfig { faults: Some(faults), ..DeviceConfig::loopback(ip(1), &fabric) };
    let error = uroce_device::Device::open(config).expect_err("no ICRC");
    assert!(error.to_string().contains("LoopbackFabric::new()"), "{error}");
}

#[test]
fn a_device_without_a_thread_gets_packets() {
    let fabric = LoopbackFabric::without_icrc();
    let ends = ends(Node::threaded(&fabric, 1), Node::inline(&fabric, 2));
    ends.at_a.write(0, &pattern(LENGTH, 5));
    let (va, rkey) = ends.there();
    ends.a.send(ends.qa, 1, SendOp::Write { va, rkey }, &[ends.at_a.sge(0, LENGTH as u32)]);
    assert_ok(&collect(&[(&ends.a, 1), (&ends.b, 0)])[0]);
    assert_eq!(sent(&ends.a).1, 0);
}

#[test]
fn a_device_may_write_to_itself() {
    let fabric = LoopbackFabric::without_icrc();
    let node = Node::threaded(&fabric, 1);
    let (qa, _) = rc_pair(&node, &node);
    let (from, to) = (node.buffer(LENGTH), node.buffer(LENGTH));
    from.write(0, &pattern(LENGTH, 4));
    let op = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    node.send(qa, 1, op, &[from.sge(0, LENGTH as u32)]);
    assert_ok(&collect(&[(&node, 1)])[0]);
    assert!(to.bytes(0, LENGTH) == pattern(LENGTH, 4));
}

/// WRITEs and READs in turns.
fn move_much(node: &Node, qpn: Qpn, own: &Buffer, there: &Buffer) {
    let (va, rkey) = (there.addr(), there.mr.rkey);
    let ops = [SendOp::Write { va, rkey }, SendOp::Read { va, rkey }];
    keep_busy(node, qpn, (1000, 8), |id| (ops[id as usize % 2], own.sge(0, 100_000)));
}

#[test]
fn two_that_carry_to_each_other_crosswise_never_wait_for_each_other() {
    let fabric = LoopbackFabric::without_icrc();
    let Ends { a, b, qa, qb, at_a, at_b } =
        ends(Node::threaded(&fabric, 1), Node::threaded(&fabric, 2));
    let (more_a, more_b) = (a.buffer(LENGTH), b.buffer(LENGTH));
    [&at_a, &at_b, &more_a, &more_b].iter().for_each(|buffer| buffer.write(0, &[7; LENGTH]));
    std::thread::scope(|scope| {
        scope.spawn(|| move_much(&a, qa, &at_a, &at_b));
        scope.spawn(|| move_much(&b, qb, &more_b, &more_a));
    });
    for buffer in [at_a, at_b, more_a, more_b] {
        assert!(buffer.bytes(0, LENGTH).iter().all(|&byte| byte == 7));
    }
}

/// Whoever deregisters a region may use its memory for something else when the call returns.
#[test]
fn a7_nothing_is_written_to_a_region_that_is_deregistered_under_a_run() {
    for _ in 0..30 {
        let Ends { a, b, qa, at_a, at_b, .. } = Ends::in_one_process();
        at_a.write(0, &[7; LENGTH]);
        let (va, rkey) = (at_b.addr(), at_b.mr.rkey);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for id in 0..20 {
                    let op = SendOp::Write { va, rkey };
                    a.send(qa, id, op, &[at_a.sge(0, LENGTH as u32)]);
                }
                let ended = &collect(&[(&a, 20)])[0];
                assert_eq!(ended.len(), 20, "each request completes, if only with an error");
            });
            wait_until("the first WRITE has begun", || at_b.bytes(0, 1) == [7]);
            b.device.memory().dereg_mr(at_b.mr.id).expect("registered");
            at_b.region.fill(0, LENGTH, 1).expect("inside");
        });
        // All requests have ended.
        assert!(at_b.bytes(0, LENGTH).iter().all(|&byte| byte == 1));
    }
}
