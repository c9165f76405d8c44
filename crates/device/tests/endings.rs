//! Objects that end while packets for them are on their way, by several threads (A30).

mod common;
#[path = "common/forge.rs"]
mod forge;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{Node, ip, rc_pair, rc_pair_with, settle};
use forge::{Attacker, Forged};
use uroce_device::VirtualClock;
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpAttr, QpState, QpType, SendOp};
use uroce_device::wire::{Mtu, Qpn};

const BYTES: usize = 16 * 1024;
const CANARY: u8 = 0xc5;

/// Writes once to a region that is deregistered while the bytes come, and then destroys one queue pair, ends the
/// other in error, and looks whether a byte still changes.
fn ends_under_a_write(a: &Node, b: &Node, round: u64) {
    let (qa, qb) = rc_pair(a, b);
    let (from, to) = (a.buffer(BYTES), b.buffer(BYTES));
    from.write(0, &[round as u8; BYTES]);
    let write = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    for id in 0..4 {
        a.send(qa, id, write, &[from.sge(0, BYTES as u32)]);
    }
    (0..round % 7).for_each(|_| std::thread::yield_now());
    b.device.memory().dereg_mr(to.mr.id).expect("nothing is bound to it");
    to.write(0, &[CANARY; BYTES]);
    end(a, qa, round);
    end(b, qb, round + 1);
    assert!(a.device.query_qp(qa).is_err() && b.device.query_qp(qb).is_err());
    assert!(to.bytes(0, BYTES).iter().all(|byte| *byte == CANARY), "written after its end");
}

/// By way of the error state, of RESET, or at once.
fn end(node: &Node, qpn: Qpn, way: u64) {
    match way % 3 {
        0 => node.step(qpn, &QpAttr::default(), QpState::Err, Default::default()),
        1 => node.step(qpn, &QpAttr::default(), QpState::Reset, Default::default()),
        _ => {}
    }
    node.device.destroy_qp(qpn).expect("destroyed");
}

#[test]
fn a30_nothing_is_written_after_the_end_of_a_region_or_queue_pair() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 1), Node::threaded(&fabric, 2));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Completions are fetched by others at the same time.
        for node in [&a, &b] {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    node.poll();
                    std::thread::yield_now();
                }
            });
        }
        let enders = [0, 1].map(|thread| {
            let (a, b) = (&a, &b);
            scope.spawn(move || (0..60).for_each(|round| ends_under_a_write(a, b, round + thread)))
        });
        let ended = enders.map(|ender| ender.join());
        over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
}

/// Sixteen threads with a queue pair each on one device: each request completes once and in its thread's order.
#[test]
fn a30_sixteen_threads_share_a_device() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 1), Node::threaded(&fabric, 2));
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            let (a, b) = (&a, &b);
            scope.spawn(move || {
                let own = Node {
                    device: a.device.clone(),
                    pd: a.pd,
                    cq: a.device.create_cq(64, None, 0).expect("a CQ"),
                };
                let (qa, qb) = (own.qp(QpType::Rc), b.qp(QpType::Rc));
                own.connect(qa, ip(2), qb);
                b.connect(qb, ip(1), qa);
                let (from, to) = (own.buffer(64), b.buffer(64));
                let write = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
                for id in 0..50 {
                    from.write(0, &[(thread + id) as u8; 64]);
                    own.send(qa, id, write, &[from.sge(0, 64)]);
                    let done = common::collect(&[(&own, 1)]).concat();
                    assert!(done.len() == 1 && done[0].is_ok() && done[0].wr_id == id, "{done:?}");
                    assert_eq!(to.bytes(0, 64), [(thread + id) as u8; 64]);
                }
                own.device.destroy_qp(qa).expect("destroyed");
                own.device.destroy_cq(own.cq).expect("nothing uses it");
            });
        }
    });
}

/// A message has come behind READs of fifteen other queue pairs, whose responses take several poll iterations. Its sender, and the node and
/// the queue pair at which it was delivered.
fn delivered_behind_reads(mtu: Mtu) -> (Node, Node, Qpn) {
    const LENGTH: usize = 64 * 1024;
    let (fabric, clock) = (LoopbackFabric::new(), VirtualClock::new());
    let (a, b) = (Node::on_clock(&fabric, 1, &clock), Node::on_clock(&fabric, 2, &clock));
    let pairs: Vec<_> = (0..16).map(|_| rc_pair_with(&a, &b, mtu)).collect();
    let (qa, qb) = pairs[15];
    let (here, there) = (a.buffer(LENGTH), b.buffer(LENGTH));
    b.recv(qb, 1, &[there.sge(0, 64)]);
    let read = SendOp::Read { va: there.addr(), rkey: there.mr.rkey };
    for &(reader, _) in &pairs[..15] {
        a.send(reader, 0, read, &[here.sge(0, LENGTH as u32)]);
    }
    a.send(qa, 1, SendOp::Send, &[here.sge(0, 64)]);
    a.device.drive();
    b.device.drive();
    let delivered = b.poll();
    assert!(delivered.len() == 1 && delivered[0].is_ok(), "{delivered:?}");
    (a, b, qb)
}

/// Its queue pair ends in this way as soon as it is delivered. The sender must be told that it was.
fn ends_behind_reads(end: fn(&Node, Qpn)) {
    let (a, b, qb) = delivered_behind_reads(Mtu::M256);
    end(&b, qb);
    settle(&[&a, &b]);
    has_heard_of_the_delivery(&a);
}

fn has_heard_of_the_delivery(sender: &Node) {
    let done = sender.poll();
    let sent = done.iter().find(|wc| wc.wr_id == 1);
    assert!(sent.is_some_and(|wc| wc.is_ok()), "{done:?}");
}

/// A peer that goes back to a packet has sent that, which ends a SEND that was kept behind it; the queue pair ends in this way before
/// the rest of the SEND has come again. The peer must be told that it was delivered.
fn ends_before_the_rest_comes_again(end: fn(&Node, Qpn)) {
    const PEER: u8 = 9;
    const EPSN: u32 = 0x1000;
    let (first, middle, last) = (0, 1, 2);
    let fabric = LoopbackFabric::new();
    let node = Node::inline(&fabric, 2);
    let qpn = node.qp(QpType::Rc);
    node.connect_with(qpn, ip(PEER), Qpn::new(0x77), Mtu::M256, 14);
    let there = node.buffer(1024);
    node.recv(qpn, 1, &[there.sge(0, 1024)]);
    let mut peer = Attacker::new(&fabric, PEER);
    let mut answers_to = |opcode: u8, ack_req: bool| {
        let mut bytes = Forged::new(opcode, qpn.get(), EPSN + u32::from(opcode)).bytes(12);
        bytes.resize(12 + 256 + 4, 7);
        bytes[8] = u8::from(ack_req) << 7;
        peer.inject(ip(PEER), ip(2), bytes);
        peer.deliver(&node);
        peer.received()
    };
    let answers = [(first, false), (last, true), (middle, false)]
        .map(|(opcode, ack_req)| answers_to(opcode, ack_req).len());
    assert_eq!(answers, [0, 1, 0], "a NAK for the middle");
    assert!(matches!(node.poll()[..], [wc] if wc.is_ok()), "delivered");
    end(&node, qpn);
    while node.device.drive() {}
    let [ack] = &peer.received()[..] else { panic!("one answer") };
    let ([psn @ .., syndrome], acked) = (&ack[9..13], EPSN + u32::from(last)) else {
        panic!("an ACK")
    };
    assert_eq!((psn, *syndrome), (&acked.to_be_bytes()[1..], 0x1f));
}

/// A queue pair ends in this way, at both of these moments.
fn is_acknowledged_although(end: fn(&Node, Qpn)) {
    ends_behind_reads(end);
    ends_before_the_rest_comes_again(end);
}

#[test]
fn a_delivered_message_is_acknowledged_although_its_queue_pair_is_destroyed() {
    is_acknowledged_although(|node, qpn| node.device.destroy_qp(qpn).expect("it exists"));
}

#[test]
fn a_delivered_message_is_acknowledged_although_its_queue_pair_is_reset() {
    is_acknowledged_although(|node, qpn| {
        node.step(qpn, &QpAttr::default(), QpState::Reset, Default::default())
    });
}

#[test]
fn a_delivered_message_is_acknowledged_although_its_queue_pair_goes_to_error() {
    is_acknowledged_although(|node, qpn| {
        node.step(qpn, &QpAttr::default(), QpState::Err, Default::default())
    });
}

#[test]
fn a_delivered_message_is_acknowledged_although_its_process_ends() {
    is_acknowledged_although(|node, _| node.device.drive_at_exit());
    for mtu in [Mtu::M256, Mtu::M1024] {
        let (a, b, _) = delivered_behind_reads(mtu);
        b.device.drive_at_exit();
        drop(b);
        settle(&[&a]);
        has_heard_of_the_delivery(&a);
    }
}
