//! What queue pairs of different engines do at the same time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use uroce_device::memory::Rkey;
use uroce_device::transport::{AsyncEvent, QpState, QpType, SendOp, SrqAttr, Wc, WcStatus};
use uroce_device::wire::Qpn;
use uroce_device::{DeviceConfig, ResourceKind};

use crate::common::{Buffer, Node, QKEY, assert_ok, collect, pattern};
use crate::{config, open, rc_pairs};

/// Bytes that each queue pair has for itself, in the one region of each device.
pub const PART: u64 = 16_384;
const PAIRS: usize = 64;

/// Posts one request on each first queue pair, and takes the completions of all of them.
pub fn all_do(
    nodes: &[Node],
    pairs: &[[(usize, Qpn); 2]],
    mut op: impl FnMut(u64) -> (SendOp, u64, u32),
    from: &Buffer,
) -> Vec<Wc> {
    let mut due = vec![0; nodes.len()];
    for (number, &[(engine, qpn), _]) in (0u64..).zip(pairs) {
        let (op, offset, length) = op(number);
        nodes[engine].send(qpn, number, op, &[from.sge(number * PART + offset, length)]);
        due[engine] += 1;
    }
    let waiting: Vec<_> = nodes.iter().zip(due).collect();
    collect(&waiting).concat()
}

fn part(number: u64, seed: u8) -> Vec<u8> {
    pattern(PART as usize / 2, seed.wrapping_add(number as u8))
}

#[test]
fn sixty_four_queue_pairs_of_four_engines_do_all_of_rc_in_one_region() {
    let (a, b) = (open(config(1, 4)), open(config(2, 4)));
    let pairs = rc_pairs(&a, &b, PAIRS);
    let size = PAIRS * PART as usize;
    let (from, to) = (a[0].buffer(size), b[0].buffer(size));
    let half = PART as u32 / 2;
    let there = |number: u64| (to.addr() + number * PART, to.mr.rkey);

    // SEND into receives of each queue pair.
    for (number, &[_, (engine, qpn)]) in (0u64..).zip(&pairs) {
        from.write((number * PART) as usize, &part(number, 1));
        b[engine].recv(qpn, number, &[to.sge(number * PART, half)]);
    }
    assert_ok(&all_do(&a, &pairs, |number| (SendOp::SendWithImm(number as u32), 0, half), &from));
    let received = b.iter().map(|node| (node, PAIRS / b.len())).collect::<Vec<_>>();
    for wc in collect(&received).concat() {
        assert!(wc.is_ok(), "{wc}");
        assert_eq!((wc.byte_len, wc.imm), (half, Some(wc.wr_id as u32)));
        assert_eq!(to.bytes((wc.wr_id * PART) as usize, half as usize), part(wc.wr_id, 1));
    }

    // WRITE, and READ of what was written.
    for number in 0..PAIRS as u64 {
        from.write((number * PART) as usize, &part(number, 2));
    }
    let write = |number| {
        let (va, rkey) = there(number);
        (SendOp::Write { va, rkey }, 0, half)
    };
    assert_ok(&all_do(&a, &pairs, write, &from));
    let read = |number| {
        let (va, rkey) = there(number);
        (SendOp::Read { va, rkey }, PART / 2, half)
    };
    assert_ok(&all_do(&a, &pairs, read, &from));
    for number in 0..PAIRS as u64 {
        let at = (number * PART) as usize;
        assert_eq!(to.bytes(at, half as usize), part(number, 2));
        assert_eq!(from.bytes(at + PART as usize / 2, half as usize), part(number, 2));
    }

    // All atomics go to one word, which all engines of the responder change.
    to.region.store_u64(0, 0).expect("aligned");
    let (va, rkey) = there(0);
    let add = |_| (SendOp::FetchAdd { va, rkey, add: 1 }, 0, 8);
    assert_ok(&all_do(&a, &pairs, add, &from));
    assert_eq!(to.region.load_u64(0), Ok(PAIRS as u64));
    let old =
        (0..PAIRS).map(|number| from.region.load_u64(number * PART as usize).expect("inside"));
    assert_eq!(old.collect::<HashSet<_>>().len(), PAIRS, "no two saw the same");
    let swap = |_| (SendOp::CompareSwap { va, rkey, compare: PAIRS as u64, swap: 7 }, 0, 8);
    assert_ok(&all_do(&a, &pairs, swap, &from));
    assert_eq!(to.region.load_u64(0), Ok(7), "one of them won");

    let write = |number| {
        let (va, rkey) = there(number);
        (SendOp::AtomicWrite { va, rkey }, 8, 8)
    };
    assert_ok(&all_do(&a, &pairs, write, &from));
    what_is_counted_and_listed(&a, &b);
    what_ends(&a, &b, &pairs, &from, to);
}

fn what_is_counted_and_listed(a: &[Node], b: &[Node]) {
    // The requests alone of 64 queue pairs: SEND, WRITE (8 packets each), READ, three atomics.
    let requests = (8 + 8 + 1 + 3) * PAIRS as u64;
    assert!(a[0].counter("sent_pkts") >= requests, "{}", a[0].counter("sent_pkts"));
    assert_eq!(b[0].counter("drop_unknown_qpn") + b[0].counter("drop_no_process"), 0);
    let list = a[0].device.resources();
    let of_kind = |kind| list.iter().filter(|r| r.kind() == kind).collect::<Vec<_>>();
    assert_eq!(of_kind(ResourceKind::Device)[0].get("engines"), Some("4"));
    assert_eq!(of_kind(ResourceKind::Qp).len(), PAIRS);
    assert_eq!(of_kind(ResourceKind::Cq).len(), 4);
    assert_eq!(of_kind(ResourceKind::Mr).len(), 1, "a region is one, in however many engines");
    let pds = of_kind(ResourceKind::Pd);
    assert_eq!((pds.len(), pds[0].get("users")), (1, Some("65")), "64 queue pairs and a region");
    let counted = of_kind(ResourceKind::Counters)[0].get("sent_pkts").map(str::parse);
    assert_eq!(counted, Some(Ok(a[0].counter("sent_pkts"))));
}

/// No engine goes by a registration that has ended, and the domain is busy until the last engine lets go.
fn what_ends(a: &[Node], b: &[Node], pairs: &[[(usize, Qpn); 2]], from: &Buffer, to: Buffer) {
    let (va, rkey) = (to.addr(), to.mr.rkey);
    b[0].device.memory().dereg_mr(to.mr.id).expect("no window is bound");
    to.write(0, &[0xee; 8]);
    let denied = all_do(a, pairs, |_| (SendOp::Write { va, rkey }, 0, 8), from);
    assert_eq!(denied.len(), PAIRS);
    assert!(denied.iter().all(|wc| wc.status == WcStatus::RemAccessErr), "{denied:?}");
    assert_eq!(to.bytes(0, 8), [0xee; 8]);
    for &[_, (engine, qpn)] in pairs {
        b[engine].device.memory().dealloc_pd(b[engine].pd).expect_err("queue pairs use it");
        b[engine].device.destroy_qp(qpn).expect("it exists");
    }
    b[0].device.memory().dealloc_pd(b[0].pd).expect("nobody uses it");
    b[3].device.memory().dealloc_pd(b[3].pd).expect_err("it is gone");
}

#[test]
fn devices_with_different_numbers_of_engines_understand_each_other() {
    let (a, b) = (open(config(3, 3)), open(config(4, 1)));
    let pairs = rc_pairs(&a, &b, 6);
    let (from, to) = (a[0].buffer(6 * PART as usize), b[0].buffer(6 * PART as usize));
    let data = pattern(6 * PART as usize, 5);
    from.write(0, &data);
    let write = |number| {
        let va = to.addr() + number * PART;
        (SendOp::Write { va, rkey: to.mr.rkey }, 0, PART as u32)
    };
    assert_ok(&all_do(&a, &pairs, write, &from));
    assert_eq!(to.bytes(0, data.len()), data);

    // And back, from the one engine to the three.
    to.write(0, &pattern(data.len(), 6));
    let back: Vec<_> = pairs.iter().map(|&[one, other]| [other, one]).collect();
    let write = |number| {
        let va = from.addr() + number * PART;
        (SendOp::Write { va, rkey: from.mr.rkey }, 0, PART as u32)
    };
    assert_ok(&all_do(&b, &back, write, &to));
    assert_eq!(from.bytes(0, data.len()), pattern(data.len(), 6));
}

#[test]
fn queue_pairs_of_two_engines_of_one_device_talk_to_each_other() {
    let a = open(config(5, 2));
    let (q0, q1) = (a[0].qp(QpType::Rc), a[1].qp(QpType::Rc));
    let home = a[0].device.address();
    a[0].connect(q0, home, q1);
    a[1].connect(q1, home, q0);
    let buffer = a[0].buffer(128);
    buffer.write(0, &pattern(64, 9));
    a[1].recv(q1, 1, &[buffer.sge(64, 64)]);
    a[0].send(q0, 2, SendOp::Send, &[buffer.sge(0, 64)]);
    assert_ok(&collect(&[(&a[0], 1), (&a[1], 1)]).concat());
    assert_eq!(buffer.bytes(64, 64), pattern(64, 9));
}

#[test]
fn datagrams_reach_the_engine_of_their_queue_pair() {
    let (a, b) = (open(config(6, 2)), open(config(7, 3)));
    let buffer = b[0].buffer(3 * 256);
    let text = a[0].buffer(64);
    for (number, node) in (0u64..).zip(&b) {
        let (sender, qpn) = (a[1].qp(QpType::Ud), node.qp(QpType::Ud));
        a[1].activate_ud(sender);
        node.activate_ud(qpn);
        node.recv(qpn, number, &[buffer.sge(number * 256, 256)]);
        text.write(0, &pattern(64, number as u8));
        let to = (node.device.address(), qpn, QKEY);
        a[1].send_ud(sender, number, to, &[text.sge(0, 64)]);
        assert_ok(&collect(&[(&a[1], 1), (node, 1)]).concat());
        assert_eq!(buffer.bytes(number as usize * 256 + 40, 64), pattern(64, number as u8));
    }
}

#[test]
fn a_peer_that_dies_is_missed_in_each_engine() {
    let (a, b) = (open(config(8, 3)), open(config(9, 2)));
    let pairs: Vec<_> = (0..6)
        .map(|number| {
            let (at_a, at_b) = (number % a.len(), number % b.len());
            let (qa, qb) = (a[at_a].qp(QpType::Rc), b[at_b].qp(QpType::Rc));
            a[at_a].connect(qa, b[at_b].device.address(), qb);
            b[at_b].connect(qb, a[at_a].device.address(), qa);
            [(at_a, qa), (at_b, qb)]
        })
        .collect();
    let (from, to) = (a[0].buffer(6 * PART as usize), b[0].buffer(8));
    let (va, rkey) = (to.addr(), to.mr.rkey);
    assert_ok(&all_do(&a, &pairs, |_| (SendOp::Write { va, rkey }, 0, 8), &from));
    drop(b);
    let missed = all_do(&a, &pairs, |_| (SendOp::Write { va, rkey }, 0, 8), &from);
    assert_eq!(missed.len(), 6);
    assert!(missed.iter().all(|wc| wc.status == WcStatus::RetryExcErr), "{missed:?}");
    for &[(engine, qpn), _] in &pairs {
        assert_eq!(a[engine].state(qpn), QpState::Err);
    }
}

#[test]
fn events_of_all_engines_come_to_one_list() {
    let (a, b) = (open(config(10, 2)), open(config(11, 2)));
    let device = &b[0].device;
    let attr = SrqAttr { max_wr: 8, max_sge: 1, limit: 2 };
    let srqs: Vec<_> =
        (0..2).map(|vector| device.create_srq_on(vector, b[0].pd, &attr).expect("SRQ")).collect();
    let buffer = b[0].buffer(64);
    for (engine, &srq) in srqs.iter().enumerate() {
        let request = uroce_device::QpRequest { srq: Some(srq), ..b[engine].request(QpType::Rc) };
        let (qa, qb) = (a[engine].qp(QpType::Rc), device.create_qp(&request).expect("a QP"));
        a[engine].connect(qa, device.address(), qb);
        b[engine].connect(qb, a[0].device.address(), qa);
        for wr_id in 0..2 {
            let wr = uroce_device::transport::RecvWr { wr_id, sges: &[buffer.sge(0, 64)] };
            device.post_srq_recv(srq, &[wr]).expect("room");
        }
        a[engine].send(qa, 1, SendOp::Send, &[]);
        assert_ok(&collect(&[(&a[engine], 1), (&b[engine], 1)]).concat());
        // The first packet is an event of its own.
        let end = Instant::now() + Duration::from_secs(10);
        let reached = loop {
            match device.async_events().next_event(Some(Duration::from_secs(1))).expect("poll") {
                Some(AsyncEvent::SrqLimitReached(reached)) => break Some(reached),
                _ if Instant::now() > end => break None,
                _ => {}
            }
        };
        assert_eq!(reached, Some(srq), "engine {engine}");
    }
    assert_ne!(srqs[0], srqs[1]);
}

#[test]
fn keys_of_all_engines_are_the_same_after_many_changes() {
    let seed = Some([5; 32]);
    let (a, b) = (open(config(12, 4)), open(DeviceConfig { seed, ..config(13, 4) }));
    let pairs = rc_pairs(&a, &b, 4);
    let mut regions: Vec<Buffer> = (0..40).map(|_| b[0].buffer(64)).collect();
    for _ in 0..20 {
        let gone = regions.remove(7);
        b[0].device.memory().dereg_mr(gone.mr.id).expect("no window is bound");
        regions.push(b[0].buffer(64));
    }
    let from = a[0].buffer(4 * PART as usize);
    for (number, region) in regions.iter().enumerate() {
        from.write(0, &[number as u8; 8]);
        let [(engine, qpn), _] = pairs[number % 4];
        let op = SendOp::Write { va: region.addr(), rkey: Rkey(region.mr.rkey.0) };
        a[engine].send(qpn, 0, op, &[from.sge(0, 8)]);
        assert_ok(&collect(&[(&a[engine], 1)]).concat());
        assert_eq!(region.bytes(0, 8), [number as u8; 8]);
    }
}
