//! Devices of one process that work for each other (docs/adr/019-visits.md).

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{
    Buffer, Node, QKEY, assert_ok, collect, fall_asleep, ip, keep_busy, pattern, rc_pair,
};
use uroce_device::CompChannel;
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{Notify, QpType, SendData, SendFlags, SendOp, SendWr, Wc};
use uroce_device::wire::Qpn;
use uroce_testkit::wait_until;

fn write_to(target: &Buffer) -> SendOp {
    SendOp::Write { va: target.addr(), rkey: target.mr.rkey }
}

/// Two devices whose progress threads sleep, connected.
fn asleep(fabric: &LoopbackFabric) -> ((Node, Qpn), (Node, Qpn)) {
    let (a, b) = (Node::threaded(fabric, 1), Node::threaded(fabric, 2));
    let (qa, qb) = rc_pair(&a, &b);
    fall_asleep(&[&a, &b]);
    ((a, qa), (b, qb))
}

#[test]
fn a_message_has_arrived_when_the_post_returns() {
    let fabric = LoopbackFabric::new();
    let ((a, qa), (b, _)) = asleep(&fabric);
    let (from, to) = (a.buffer(8192), b.buffer(8192));
    from.write(0, &pattern(8192, 3));
    let arrives = |id| {
        fall_asleep(&[&a, &b]);
        to.write(0, &[0; 8192]);
        a.send(qa, id, write_to(&to), &[from.sge(0, 8192)]);
        to.bytes(0, 8192) == pattern(8192, 3)
    };
    // A progress thread that wakes up for a timer may hold the engine at times.
    let count = (0..200).filter(|&id| arrives(id)).count();
    assert!(count > 150, "{count} of 200 were there");
}

#[test]
fn a_device_without_a_thread_works_only_when_it_is_called() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 1), Node::inline(&fabric, 2));
    let (qa, _) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(64), b.buffer(64));
    from.write(0, &[7; 64]);
    a.send(qa, 1, write_to(&to), &[from.sge(0, 64)]);
    fall_asleep(&[&a]);
    assert_eq!(to.bytes(0, 64), [0; 64]);
    b.device.drive();
    assert_eq!(to.bytes(0, 64), [7; 64]);
    assert_ok(&collect(&[(&a, 1), (&b, 0)])[0]);
}

#[test]
fn whoever_polls_is_not_visited_and_is_again_when_he_stops() {
    let fabric = LoopbackFabric::new();
    let ((a, qa), (b, _)) = asleep(&fabric);
    let (from, to) = (a.buffer(64), b.buffer(64));
    from.write(0, &[7; 64]);
    assert!(b.poll().is_empty());
    a.send(qa, 1, write_to(&to), &[from.sge(0, 64)]);
    // B's thread waits for a millisecond after the last poll, and then takes over.
    wait_until("the thread of B takes over", || to.bytes(0, 64) == [7; 64]);
    let visited = |id: u8| {
        fall_asleep(&[&a, &b]);
        from.write(0, &[id; 64]);
        a.send(qa, id.into(), write_to(&to), &[from.sge(0, 64)]);
        to.bytes(0, 64) == [id; 64]
    };
    assert!((8..28).any(visited), "B was never visited again");
}

#[test]
fn what_a_poller_has_posted_arrives_although_he_polls_no_more() {
    let fabric = LoopbackFabric::new();
    let ((a, _), (b, _)) = asleep(&fabric);
    let (ua, ub) = (a.qp(QpType::Ud), b.qp(QpType::Ud));
    a.activate_ud(ua);
    b.activate_ud(ub);
    let (from, to) = (a.buffer(64), b.buffer(104));
    fall_asleep(&[&a, &b]);
    for id in 1..20 {
        b.recv(ub, id, &[to.sge(0, 104)]);
        from.write(0, &[id as u8; 64]);
        // A's engine is its application's now, and a datagram has no timer that would bring A's thread back.
        assert!(a.poll().len() <= 1);
        a.send_ud(ua, id, (ip(2), ub, QKEY), &[from.sge(0, 64)]);
        wait_until("B gets it", || to.bytes(40, 64) == [id as u8; 64]);
    }
}

/// A CQ with a channel, armed.
fn with_channel(mut node: Node) -> (Node, CompChannel) {
    let channel = node.device.create_channel().expect("a channel");
    node.cq = node.device.create_cq(64, Some(&channel), 0).expect("a CQ");
    node.device.req_notify(node.cq, Notify::Next).expect("armed");
    (node, channel)
}

#[test]
fn the_event_is_there_when_the_post_returns() {
    let fabric = LoopbackFabric::new();
    let a = Node::threaded(&fabric, 1);
    let (b, channel) = with_channel(Node::threaded(&fabric, 2));
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(64), b.buffer(64));
    let mut at_once = 0;
    for id in 0..20 {
        b.recv(qb, id, &[to.sge(0, 64)]);
        b.device.req_notify(b.cq, Notify::Next).expect("armed");
        fall_asleep(&[&a, &b]);
        a.send(qa, id, SendOp::Send, &[from.sge(0, 64)]);
        at_once += usize::from(channel.try_event().is_some_and(|event| event.cq == b.cq));
        assert_ok(&[sleep_for_one(&b, &channel)]);
    }
    assert!(at_once > 10, "{at_once} of 20 events were there");
}

#[test]
fn a_sleeper_wakes_up_whoever_worked_for_it() {
    let fabric = LoopbackFabric::new();
    let a = Node::threaded(&fabric, 1);
    let (b, channel) = with_channel(Node::threaded(&fabric, 2));
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(64), b.buffer(64));
    let count = 3000;
    let (ready, go) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        for id in 0..count {
            b.recv(qb, id, &[to.sge(0, 64)]);
            ready.send(()).expect("the sender waits");
            assert_ok(&[sleep_for_one(&b, &channel)]);
        }
    });
    for id in 0..count {
        go.recv_timeout(Duration::from_secs(20)).expect("the sleeper missed a message");
        a.send(qa, id, SendOp::Send, &[from.sge(0, 64)]);
        if id % 3 == 0 {
            assert_ok(&a.poll());
        }
    }
    sleeper.join().expect("every message woke it");
}

fn sleep_for_one(node: &Node, channel: &CompChannel) -> Wc {
    loop {
        for _ in 0..2 {
            if let [one] = node.poll()[..] {
                return one;
            }
            node.device.req_notify(node.cq, Notify::Next).expect("armed");
        }
        let event = channel.next_event(Some(Duration::from_secs(20))).expect("poll(2)");
        assert!(event.is_some(), "an event was lost");
    }
}

#[test]
fn two_that_visit_each_other_crosswise_never_wait_for_each_other() {
    let fabric = LoopbackFabric::new();
    let ((a, qa), (b, qb)) = asleep(&fabric);
    let (at_a, at_b) = (a.buffer(20_000), b.buffer(20_000));
    let (to_a, to_b) = (write_to(&at_a), write_to(&at_b));
    let much = (128 * 40, 16);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_busy(&a, qa, much, |_| (to_b, at_a.sge(0, 20_000))));
        scope.spawn(|| keep_busy(&b, qb, much, |_| (to_a, at_b.sge(0, 20_000))));
    });
}

#[test]
fn three_in_a_ring_read_from_each_other() {
    let fabric = LoopbackFabric::new();
    let nodes: Vec<_> = (1..4).map(|last| Node::threaded(&fabric, last)).collect();
    let buffers: Vec<_> = nodes.iter().map(|node| node.buffer(1 << 20)).collect();
    let sources: Vec<_> = nodes.iter().map(|node| node.buffer(1 << 20)).collect();
    let pairs: Vec<_> = (0..3).map(|i| rc_pair(&nodes[i], &nodes[(i + 1) % 3])).collect();
    for (source, seed) in sources.iter().zip(1..) {
        source.write(0, &pattern(1 << 20, seed));
    }
    std::thread::scope(|scope| {
        for i in 0..3 {
            let (nodes, buffers, sources, pairs) = (&nodes, &buffers, &sources, &pairs);
            scope.spawn(move || {
                let next = &sources[(i + 1) % 3];
                for id in 0..10 {
                    let read = SendOp::Read { va: next.addr(), rkey: next.mr.rkey };
                    nodes[i].send(pairs[i].0, id, read, &[buffers[i].sge(0, 1 << 20)]);
                    assert_ok(&collect(&[(&nodes[i], 1)])[0]);
                }
            });
        }
    });
    for (i, buffer) in buffers.iter().enumerate() {
        let seed = 1 + (i + 1) % 3;
        assert_eq!(buffer.bytes(0, 1 << 20), pattern(1 << 20, seed as _), "reader {i}");
    }
}

#[test]
fn an_address_is_free_when_its_device_is_gone_even_under_visits() {
    let fabric = LoopbackFabric::new();
    let a = Node::threaded(&fabric, 1);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let from = a.buffer(64);
    from.write(0, &[7; 64]);
    std::thread::scope(|scope| {
        let (ready, next) = mpsc::channel::<(Qpn, SendOp)>();
        let (a, from, stop) = (&a, &from, &stop);
        scope.spawn(move || {
            // Always the latest of them; the ones before are gone, and time out.
            let mut target = next.recv().expect("a first device");
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                target = next.try_iter().last().unwrap_or(target);
                let (sges, flags) = ([from.sge(0, 64)], SendFlags::SIGNALED);
                let data = SendData::Sges(&sges);
                let wr = SendWr { wr_id: 0, op: target.1, flags, data, ud: None, srqn: None };
                // A full queue has enough to do.
                let _full = a.device.post_send(target.0, &[wr]);
                std::thread::yield_now();
                a.poll();
            }
        });
        for _ in 0..50 {
            let b = Node::threaded(&fabric, 2); // panics while the address is taken
            let (qa, _) = rc_pair(a, &b);
            let to = b.buffer(64);
            ready.send((qa, write_to(&to))).expect("the sender lives");
            wait_until("a WRITE arrives", || to.bytes(0, 64) == [7; 64]);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
