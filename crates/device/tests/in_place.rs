//! What leaves a device out of the buffer of its datapath (docs/adr/037-send-in-place.md).

mod common;

use std::net::IpAddr;
use std::time::Duration;

use common::{Buffer, Node, QKEY, assert_ok, collect, pattern, rc_pair};
use uroce_device::transport::{QpType, SendOp};
use uroce_device::wire::Qpn;
use uroce_device::{DeviceConfig, VirtualClock};

const PORT: u16 = 24_991;
/// Bytes of a message.
const LEN: usize = 1 << 20;
/// That of queue pairs of these tests.
const ACK_TIMEOUT: Duration = Duration::from_nanos(4096 << 14);
/// Messages, in which there are more batches than a route needs to leave in place.
const MESSAGES: u64 = 8;

fn on(address: IpAddr) -> Node {
    on_clock(address, None)
}

fn on_clock(address: IpAddr, clock: Option<VirtualClock>) -> Node {
    let config = DeviceConfig { port: PORT, progress_thread: false, ..DeviceConfig::new(address) };
    Node::open(DeviceConfig { clock, ..config })
}

fn two(last: u8) -> [Node; 2] {
    [last, last + 1].map(|last| on([127, 0, 0, last].into()))
}

/// Sends with `op` from the first of `nodes` until `MESSAGES` are there; returns the packets that `of` has sent in place meanwhile.
fn in_place_of(of: &Node, nodes: &[&Node], qpn: Qpn, op: SendOp, from: &Buffer) -> u64 {
    let before = of.counter("datapath_tx_in_place");
    let due: Vec<_> = nodes.iter().copied().zip([1, 0]).collect();
    for n in 0..MESSAGES {
        nodes[0].send(qpn, n, op, &[from.sge(0, LEN as u32)]);
        assert_ok(&collect(&due).concat());
    }
    of.counter("datapath_tx_in_place") - before
}

/// Time stands still for `a`: on a busy machine a path may look so long that what is on it is copied.
#[test]
fn requests_leave_in_place_and_what_nobody_acknowledges_does_not() {
    let a = on_clock([127, 0, 0, 61].into(), Some(VirtualClock::new()));
    let b = on([127, 0, 0, 62].into());
    let (qa, _) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(LEN), b.buffer(LEN));
    let (va, rkey) = (to.addr(), to.mr.rkey);
    for seed in 1..4 {
        let data = pattern(LEN, seed);
        from.write(0, &data);
        let packets = in_place_of(&a, &[&a, &b], qa, SendOp::Write { va, rkey }, &from);
        assert!(packets > MESSAGES * 512, "{packets} of {}", MESSAGES * 1024);
        assert!(to.bytes(0, LEN) == data, "WRITE");
        from.write(0, &vec![0; LEN]);
        let packets = in_place_of(&b, &[&a, &b], qa, SendOp::Read { va, rkey }, &from);
        assert_eq!(packets, 0, "nobody acknowledges a READ response");
        assert!(from.bytes(0, LEN) == data, "READ");
    }
    // The kernel numbers the packets of a connected socket, and the ICRC covers the number.
    for node in [&a, &b] {
        assert_eq!(node.counter("drop_bad_icrc"), 0);
        let (valid, solved) = (node.counter("icrc_valid"), node.counter("icrc_solved"));
        assert!(solved < 16, "{solved} of {valid}: each change of socket costs a guess");
    }
}

#[test]
fn one_destination_at_a_time_is_served_in_place() {
    let ([a, b], c) = (two(63), on([127, 0, 0, 65].into()));
    let (to_b, _) = rc_pair(&a, &b);
    let (to_c, _) = rc_pair(&a, &c);
    let from = a.buffer(LEN);
    from.write(0, &pattern(LEN, 9));
    let (at_b, at_c) = (b.buffer(LEN), c.buffer(LEN));
    let write = |to: &Buffer| SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    assert!(in_place_of(&a, &[&a, &b], to_b, write(&at_b), &from) > 0);
    assert_eq!(in_place_of(&a, &[&a, &c], to_c, write(&at_c), &from), 0, "right after the other");
    assert!(at_c.bytes(0, LEN) == pattern(LEN, 9));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(in_place_of(&a, &[&a, &c], to_c, write(&at_c), &from) > 0);
    assert!(at_c.bytes(0, LEN) == pattern(LEN, 9));
}

/// Sends `LATE` bytes in place to a peer that does not read them, does `meanwhile`, and sends to another one on its address, which
/// is fast: what the first one has not read stays as it is. Time stands still for `a`.
fn a_fast_peer_beside_a_late_one(last: u8, meanwhile: impl FnOnce(&Node, &VirtualClock)) {
    const LATE: usize = 200 * 1024;
    let clock = VirtualClock::new();
    let a = on_clock([127, 0, 0, last].into(), Some(clock.clone()));
    // Two devices share the address, as two processes do: each has a socket of its own.
    let [late, fast] = [(); 2].map(|()| on([127, 0, 0, last + 1].into()));
    let [to_late, to_fast] = [&late, &fast].map(|peer| rc_pair(&a, peer).0);
    let from = a.buffer(LEN);
    from.write(0, &pattern(LEN, 4));
    let [at_late, at_fast] = [&late, &fast].map(|peer| peer.buffer(LEN));
    let write = |to: &Buffer| SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    assert!(in_place_of(&a, &[&a, &late], to_late, write(&at_late), &from) > 0);
    assert!(in_place_of(&a, &[&a, &fast], to_fast, write(&at_fast), &from) > 0);
    at_late.write(0, &vec![0; LEN]);
    let before = a.counter("datapath_tx_in_place");
    a.send(to_late, 1, write(&at_late), &[from.sge(0, LATE as u32)]);
    a.poll();
    let sent = a.counter("datapath_tx_in_place") - before;
    assert!(sent > 100, "{sent} of 200");
    meanwhile(&a, &clock);
    let packets = in_place_of(&a, &[&a, &fast], to_fast, write(&at_fast), &from);
    assert!(packets > 0 && packets < 300, "{packets}: 416 KiB from the oldest on");
    assert_ok(&collect(&[(&a, 1), (&late, 0)]).concat());
    assert!(at_late.bytes(0, LATE) == pattern(LEN, 4)[..LATE]);
    assert_eq!(late.counter("drop_bad_icrc"), 0);
}

#[test]
fn a_fast_queue_pair_does_not_overwrite_what_a_late_peer_has_not_read() {
    a_fast_peer_beside_a_late_one(68, |_, _| ());
}

/// Packets that are about to be sent again are not acknowledged: the first copy of each still waits at the peer.
#[test]
fn nor_does_it_behind_a_timeout_of_the_late_peer() {
    a_fast_peer_beside_a_late_one(71, |a, clock| {
        for _ in 0..20 {
            clock.advance(ACK_TIMEOUT / 4);
            a.poll();
        }
        assert!(a.counter("ack_timeout") > 0, "the peer says nothing");
    });
}

/// There is no identification in IPv6, and nothing to be learned.
#[test]
fn ipv6_leaves_in_place_too() {
    let a = on(std::net::Ipv6Addr::LOCALHOST.into());
    let (q1, q2) = (a.qp(QpType::Rc), a.qp(QpType::Rc));
    a.connect(q1, a.device.address(), q2);
    a.connect(q2, a.device.address(), q1);
    let (from, to) = (a.buffer(LEN), a.buffer(LEN));
    from.write(0, &pattern(LEN, 3));
    let write = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    assert!(in_place_of(&a, &[&a], q1, write, &from) > 0);
    assert!(to.bytes(0, LEN) == pattern(LEN, 3));
}

#[test]
fn datagrams_are_copied() {
    let [a, b] = two(66);
    let (qa, qb) = (a.qp(QpType::Ud), b.qp(QpType::Ud));
    a.activate_ud(qa);
    b.activate_ud(qb);
    let (from, to) = (a.buffer(1024), b.buffer(2048));
    for _ in 0..64 {
        for n in 0..64 {
            b.recv(qb, n, &[to.sge(0, 2048)]);
        }
        for n in 0..64 {
            a.send_ud(qa, n, (b.device.address(), qb, QKEY), &[from.sge(0, 1024)]);
        }
        assert_ok(&collect(&[(&a, 64), (&b, 64)]).concat());
    }
    assert_eq!(a.counter("datapath_tx_in_place"), 0);
}
