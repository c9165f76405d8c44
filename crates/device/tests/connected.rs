//! Two devices on an in-process switch, driven inline: everything RC can do.

mod common;

use common::{Node, assert_ok, collect, ip, pattern, rc_pair, settle};
use uroce_device::DestroyError;
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{
    AddressVector, AsyncEvent, Notify, PostError, QpAttr, QpAttrMask as M, QpState, QpType, RecvWr,
    SendOp, SrqAttr, WcOpcode, WcStatus,
};
use uroce_device::wire::{Mtu, Qpn};

fn two() -> (Node, Node) {
    let fabric = LoopbackFabric::new();
    (Node::inline(&fabric, 1), Node::inline(&fabric, 2))
}

#[test]
fn send_and_receive() {
    let (a, b) = two();
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(10_000), b.buffer(10_000));
    let text = pattern(10_000, 1);
    from.write(0, &text);
    b.recv(qb, 7, &[to.sge(0, 10_000)]);
    a.send(qa, 3, SendOp::SendWithImm(0xabcd), &[from.sge(0, 10_000)]);
    let done = collect(&[(&a, 1), (&b, 1)]);
    assert_ok(&done.concat());
    assert_eq!((done[0][0].wr_id, done[0][0].opcode), (3, WcOpcode::Send));
    let recv = done[1][0];
    assert_eq!((recv.wr_id, recv.byte_len, recv.imm), (7, 10_000, Some(0xabcd)));
    assert_eq!(to.bytes(0, 10_000), text);
}

#[test]
fn completions_tell_when_they_came() {
    let monotonic = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
    };
    let (a, b) = two();
    let (qa, _) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(8), b.buffer(8));
    let mut last = monotonic();
    for wr_id in 0..3 {
        a.send(qa, wr_id, SendOp::Write { va: to.addr(), rkey: to.mr.rkey }, &[from.sge(0, 8)]);
        let completed = collect(&[(&a, 1), (&b, 0)])[0][0].timestamp;
        let at = a.device.monotonic_ns(completed);
        // The two readings at the opening are not quite the same moment.
        assert!(at + 1_000_000 >= last && at <= monotonic() + 1_000_000, "{at} after {last}");
        last = at;
    }
}

#[test]
fn without_an_icrc_everything_still_arrives() {
    let fabric = LoopbackFabric::without_icrc();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let (qa, _) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(300_000), b.buffer(300_000));
    let data = pattern(300_000, 3);
    from.write(0, &data);
    let op = SendOp::Write { va: to.addr(), rkey: to.mr.rkey };
    a.send(qa, 1, op, &[from.sge(0, 300_000)]);
    assert_ok(&collect(&[(&a, 1), (&b, 0)])[0]);
    assert_eq!(to.bytes(0, 300_000), data);
    assert_eq!(b.counter("icrc_valid"), 0, "nobody looked");
}

#[test]
fn the_last_message_is_acknowledged_before_its_queue_pair_goes() {
    let (a, b) = two();
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(8), b.buffer(8));
    b.recv(qb, 7, &[to.sge(0, 8)]);
    a.send(qa, 3, SendOp::Send, &[from.sge(0, 8)]);
    assert_ok(&b.poll());
    b.device.destroy_qp(qb).expect("it exists");
    assert_ok(&collect(&[(&a, 1)]).concat());
    assert_eq!(a.counter("completer_retry_err"), 0);
}

#[test]
fn write_then_read_back() {
    let (a, b) = two();
    let (qa, _) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(300_000), b.buffer(100_000));
    let data = pattern(100_000, 2);
    from.write(0, &data);
    let remote = to.addr();
    a.send(qa, 1, SendOp::Write { va: remote, rkey: to.mr.rkey }, &[from.sge(0, 100_000)]);
    a.send(qa, 2, SendOp::Read { va: remote, rkey: to.mr.rkey }, &[from.sge(150_000, 100_000)]);
    let done = collect(&[(&a, 2), (&b, 0)]);
    assert_ok(&done[0]);
    assert_eq!(to.bytes(0, 100_000), data);
    assert_eq!(from.bytes(150_000, 100_000), data);
}

#[test]
fn atomics_return_the_old_value() {
    let (a, b) = two();
    let (qa, _) = rc_pair(&a, &b);
    let (old, word) = (a.buffer(64), b.buffer(64));
    word.region.store_u64(8, 40).expect("aligned");
    let (va, rkey) = (word.addr() + 8, word.mr.rkey);
    a.send(qa, 1, SendOp::FetchAdd { va, rkey, add: 2 }, &[old.sge(0, 8)]);
    a.send(qa, 2, SendOp::CompareSwap { va, rkey, compare: 42, swap: 7 }, &[old.sge(8, 8)]);
    a.send(qa, 3, SendOp::CompareSwap { va, rkey, compare: 42, swap: 9 }, &[old.sge(16, 8)]);
    assert_ok(&collect(&[(&a, 3), (&b, 0)])[0]);
    assert_eq!(word.region.load_u64(8).ok(), Some(7));
    assert_eq!([0, 8, 16].map(|at| old.region.load_u64(at).ok()), [Some(40), Some(42), Some(7)]);
}

#[test]
fn a_bad_rkey_is_refused_and_explained_on_both_sides() {
    let (a, b) = two();
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(64), b.buffer(64));
    let wrong = uroce_device::memory::Rkey(to.mr.rkey.0 ^ 1);
    a.send(qa, 1, SendOp::Write { va: to.addr(), rkey: wrong }, &[from.sge(0, 64)]);
    let done = collect(&[(&a, 1), (&b, 0)]);
    assert_eq!(done[0][0].status, WcStatus::RemAccessErr);
    assert_eq!(a.state(qa), QpState::Err);
    let events: Vec<_> = std::iter::from_fn(|| b.device.async_events().try_event()).collect();
    assert!(events.contains(&AsyncEvent::QpAccessErr(qb)), "{events:?}");
    assert_eq!(to.bytes(0, 64), vec![0; 64]);
}

#[test]
fn two_queue_pairs_of_one_device_talk_to_each_other() {
    let fabric = LoopbackFabric::new();
    let a = Node::inline(&fabric, 1);
    let (q1, q2) = (a.qp(QpType::Rc), a.qp(QpType::Rc));
    a.connect(q1, ip(1), q2);
    a.connect(q2, ip(1), q1);
    let buffer = a.buffer(8192);
    buffer.write(0, &pattern(4096, 3));
    a.recv(q2, 2, &[buffer.sge(4096, 4096)]);
    a.send(q1, 1, SendOp::Send, &[buffer.sge(0, 4096)]);
    assert_ok(&collect(&[(&a, 2)])[0]);
    assert_eq!(buffer.bytes(4096, 4096), pattern(4096, 3));
}

#[test]
fn a_hundred_queue_pairs_each_way() {
    let (a, b) = two();
    let pairs: Vec<(Qpn, Qpn)> = (0..100).map(|_| rc_pair(&a, &b)).collect();
    let (from, to) = (a.buffer(100 * 4096), b.buffer(100 * 4096));
    for (i, (qa, qb)) in pairs.iter().enumerate() {
        let at = i as u64 * 4096;
        from.write(at as usize, &pattern(4096, i as u8));
        b.recv(*qb, at, &[to.sge(at, 4096)]);
        a.send(*qa, at, SendOp::Send, &[from.sge(at, 4096)]);
    }
    let done = collect(&[(&a, 100), (&b, 100)]);
    assert_ok(&done.concat());
    for i in 0..100 {
        assert_eq!(to.bytes(i * 4096, 4096), pattern(4096, i as u8), "QP {i}");
    }
    for (qa, qb) in pairs {
        a.device.destroy_qp(qa).expect("destroyed");
        b.device.destroy_qp(qb).expect("destroyed");
    }
    a.device.destroy_cq(a.cq).expect("no users left");
}

#[test]
fn r93_users_keep_objects_alive() {
    let (a, _) = two();
    let srq =
        a.device.create_srq(a.pd, &SrqAttr { max_wr: 8, max_sge: 1, limit: 0 }).expect("an SRQ");
    let request = uroce_device::QpRequest { srq: Some(srq), ..a.request(QpType::Rc) };
    let qp = a.device.create_qp(&request).expect("a QP");
    assert!(matches!(a.device.destroy_cq(a.cq), Err(DestroyError::Busy { .. })));
    assert!(matches!(a.device.destroy_srq(srq), Err(DestroyError::Busy { .. })));
    assert_eq!(a.device.destroy_srq(srq).map_err(|e| e.errno()), Err(16));
    assert!(a.device.memory().dealloc_pd(a.pd).is_err());
    a.device.destroy_qp(qp).expect("destroyed");
    a.device.destroy_srq(srq).expect("no users left");
    a.device.destroy_cq(a.cq).expect("no users left");
    a.device.memory().dealloc_pd(a.pd).expect("no users left");
    assert!(a.device.destroy_qp(qp).is_err());
    let posted = a.device.post_recv(qp, &[RecvWr { wr_id: 0, sges: &[] }]);
    assert_eq!(posted, Err((0, PostError::NoSuchQueue)));
}

/// As with a queue pair, no event of a destroyed CQ is left, nor taken for one of the next CQ with its number.
#[test]
fn r93_a_destroyed_cq_leaves_no_event() {
    let (a, _) = two();
    let tiny = a.device.create_cq(1, None, 0).expect("a CQ");
    let small = Node { device: a.device.clone(), pd: a.pd, cq: tiny };
    let qpn = small.qp(QpType::Rc);
    small.step(qpn, &QpAttr::default(), QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS);
    (0..3).for_each(|id| {
        a.device.post_recv(qpn, &[RecvWr { wr_id: id, sges: &[] }]).expect("posted")
    });
    small.step(qpn, &QpAttr::default(), QpState::Err, M::empty());
    a.device.destroy_qp(qpn).expect("it exists");
    a.device.destroy_cq(tiny).expect("nobody uses it");
    let next = a.device.create_cq(1, None, 0).expect("another CQ");
    let event = a.device.async_events().try_event();
    assert_eq!(
        event, None,
        "of the CQ that is gone, whose number is now that of another: {next:?}"
    );
}

#[test]
fn r93_a_destroyed_srq_leaves_no_event() {
    let (a, b) = two();
    let attr = SrqAttr { max_wr: 8, max_sge: 1, limit: 4 };
    let srq = b.device.create_srq(b.pd, &attr).expect("an SRQ");
    b.device.modify_srq(srq, None, Some(4)).expect("armed");
    let request = uroce_device::QpRequest { srq: Some(srq), ..b.request(QpType::Rc) };
    let qb = b.device.create_qp(&request).expect("a QP");
    let qa = a.qp(QpType::Rc);
    a.connect(qa, ip(2), qb);
    b.connect(qb, ip(1), qa);
    b.device.post_srq_recv(srq, &[RecvWr { wr_id: 1, sges: &[] }]).expect("posted");
    a.send(qa, 1, SendOp::Send, &[]);
    settle(&[&a, &b]);
    b.device.destroy_qp(qb).expect("it exists");
    b.device.destroy_srq(srq).expect("nobody uses it");
    assert_eq!(b.device.async_events().try_event(), None, "of the SRQ that is gone");
}

#[test]
fn r93_b43_b44_no_completion_after_destroy() {
    let (a, b) = two();
    let (qa, qb) = rc_pair(&a, &b);
    let from = a.buffer(4096);
    b.recv(qb, 9, &[]);
    a.send(qa, 1, SendOp::Send, &[from.sge(0, 0)]);
    b.device.destroy_qp(qb).expect("destroyed");
    settle(&[&a, &b]);
    assert!(b.poll().is_empty());
    assert!(b.counter("drop_unknown_qpn") > 0);
}

#[test]
fn r90_srq_feeds_several_queue_pairs_and_raises_its_limit_once() {
    let (a, b) = two();
    let srq =
        b.device.create_srq(b.pd, &SrqAttr { max_wr: 8, max_sge: 1, limit: 2 }).expect("an SRQ");
    let to = b.buffer(4096);
    for id in 0..3 {
        let sges = [to.sge(id * 64, 64)];
        b.device.post_srq_recv(srq, &[RecvWr { wr_id: id, sges: &sges }]).expect("posted");
    }
    let from = a.buffer(64);
    let request = uroce_device::QpRequest { srq: Some(srq), ..b.request(QpType::Rc) };
    for _ in 0..2 {
        let (qa, qb) = (a.qp(QpType::Rc), b.device.create_qp(&request).expect("a QP"));
        a.connect(qa, ip(2), qb);
        b.connect(qb, ip(1), qa);
        a.send(qa, 1, SendOp::Send, &[from.sge(0, 64)]);
    }
    assert_ok(&collect(&[(&a, 2), (&b, 2)]).concat());
    let events: Vec<_> = std::iter::from_fn(|| b.device.async_events().try_event()).collect();
    let reached = events.iter().filter(|e| **e == AsyncEvent::SrqLimitReached(srq)).count();
    assert_eq!(reached, 1, "{events:?}");
    assert_eq!(b.device.query_srq(srq).map(|attr| attr.limit), Ok(0));
}

#[test]
fn v112_cq_events_come_once_per_arming() {
    let fabric = LoopbackFabric::new();
    let (a, mut b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let channel = b.device.create_channel().expect("a channel");
    b.cq = b.device.create_cq(64, Some(&channel), 77).expect("a CQ");
    let (qa, qb) = rc_pair(&a, &b);
    let from = a.buffer(64);
    b.device.req_notify(b.cq, Notify::Next).expect("armed");
    for id in 0..3 {
        b.recv(qb, id, &[]);
        a.send(qa, id, SendOp::Send, &[from.sge(0, 0)]);
    }
    settle(&[&a, &b]);
    let event = channel.try_event().expect("one event");
    assert_eq!((event.cq, event.cookie), (b.cq, 77));
    assert_eq!(channel.try_event(), None);
    assert_eq!(collect(&[(&b, 3)])[0].len(), 3);
    b.device.req_notify(b.cq, Notify::Solicited).expect("armed");
    b.recv(qb, 4, &[]);
    a.send(qa, 4, SendOp::Send, &[from.sge(0, 0)]);
    settle(&[&a, &b]);
    assert_eq!(channel.try_event(), None, "not solicited");
}

#[test]
fn r66_cq_overflow_takes_its_queue_pairs_down_and_says_so() {
    let fabric = LoopbackFabric::new();
    let (a, mut b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    b.cq = b.device.create_cq(1, None, 0).expect("a CQ");
    let (qa, qb) = rc_pair(&a, &b);
    let (_, bystander) = rc_pair(&a, &b);
    for id in 0..2 {
        b.recv(qb, id, &[]);
        a.send(qa, id, SendOp::Send, &[]);
    }
    for _ in 0..20 {
        a.device.drive();
        b.device.drive();
    }
    let events: Vec<_> = std::iter::from_fn(|| b.device.async_events().try_event()).collect();
    assert!(events.contains(&AsyncEvent::CqErr(b.cq)), "{events:?}");
    assert_eq!((b.state(qb), b.state(bystander)), (QpState::Err, QpState::Err));
}

#[test]
fn e13_modify_refuses_what_the_link_cannot_carry() {
    let fabric = LoopbackFabric::with_mtu(1500);
    let a = Node::inline(&fabric, 1);
    assert_eq!(a.device.port_attr().active_mtu, Mtu::M1024);
    assert_eq!(a.device.active_mtu(), Mtu::M1024);
    let qp = a.qp(QpType::Rc);
    let init = QpAttr { state: QpState::Init, ..QpAttr::default() };
    let mask = M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
    a.device.modify_qp(qp, &init, mask).expect("INIT");
    let rtr = M::STATE
        | M::AV
        | M::PATH_MTU
        | M::DEST_QPN
        | M::RQ_PSN
        | M::MAX_DEST_RD_ATOMIC
        | M::MIN_RNR_TIMER;
    let attr = |local, remote, path_mtu| QpAttr {
        state: QpState::Rtr,
        av: Some(AddressVector::new(local, remote)),
        path_mtu,
        dest_qpn: 5,
        max_dest_rd_atomic: 1,
        ..QpAttr::default()
    };
    let v6 = "fd00::9".parse().expect("an address");
    for bad in [
        attr(ip(1), ip(2), Mtu::M2048),
        attr(ip(3), ip(2), Mtu::M1024),
        attr(ip(1), v6, Mtu::M1024),
    ] {
        let error = a.device.modify_qp(qp, &bad, rtr).expect_err("refused");
        assert_eq!(error.errno(), 22, "{error}");
        assert_eq!(a.state(qp), QpState::Init);
    }
    let unspecified = "0.0.0.0".parse().expect("an address");
    a.device.modify_qp(qp, &attr(unspecified, ip(2), Mtu::M1024), rtr).expect("RTR");
}

#[test]
fn a29_b45_limits_are_exact_and_harm_nobody_else() {
    let fabric = LoopbackFabric::new();
    let mut config = uroce_device::DeviceConfig::loopback(ip(1), &fabric);
    config.progress_thread = false;
    config.limits.max_qp = 2;
    config.limits.max_cq = 2;
    let a = Node::open(config);
    let (q1, _) = (a.qp(QpType::Rc), a.qp(QpType::Rc));
    let refused = a.device.create_qp(&a.request(QpType::Rc)).expect_err("the third");
    assert_eq!(refused.errno(), 12, "{refused}");
    a.device.destroy_qp(q1).expect("destroyed");
    a.qp(QpType::Rc);
    a.device.create_cq(1, None, 0).expect("the second CQ");
    assert!(a.device.create_cq(1, None, 0).is_err());
    assert!(a.device.create_cq(0, None, 0).is_err());
    assert!(a.device.create_cq(32_768, None, 0).is_err());
    assert_eq!(a.device.poll_cq(a.cq, &mut []), Ok(0));
}

#[test]
fn a8_qpns_of_a_device_do_not_follow_each_other() {
    let (a, _) = two();
    let qpns: Vec<u32> = (0..200).map(|_| a.qp(QpType::Ud).get()).collect();
    assert!(qpns.iter().all(|q| ![0, 1, 0xff_ffff].contains(q)));
    let steps: std::collections::HashSet<i64> =
        qpns.windows(2).map(|w| i64::from(w[1]) - i64::from(w[0])).collect();
    assert!(steps.len() > 190, "steps repeat: {}", steps.len());
}
