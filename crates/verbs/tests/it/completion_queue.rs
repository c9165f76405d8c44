//! Completion queues: sizes, order, overflow.

use std::time::Duration;

use uroce_verbs::*;

use crate::common;
use crate::common::{COMPLETION_TIMEOUT, MOMENT, Net, pair};

#[test]
fn v100_sizes_are_checked() {
    let context = Net::fabric().open();
    for cqe in [0, (1 << 22) + 1] {
        let error = context.create_cq(cqe).unwrap_err();
        assert!(error.to_string().contains("1 to 4194304"), "{error}");
    }
    assert_eq!(context.create_cq(1 << 22).unwrap().capacity(), 1 << 22);
}

#[test]
fn v103_polling_takes_as_many_as_fit_in_order() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let wrs: Vec<_> =
        (0..10).map(|id| SendWr::write(id, &[], b.mr.remote()).inline(b"x").signaled()).collect();
    a.qp.post_send(&wrs).unwrap();
    let mut seen = Vec::new();
    let mut out = [WorkCompletion::default(); 3];
    while seen.len() < 10 {
        let count = a.cq.wait(&mut out, COMPLETION_TIMEOUT);
        assert!((1..=3).contains(&count));
        seen.extend(out[..count].iter().map(|wc| wc.wr_id));
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    assert_eq!(a.cq.poll(&mut []), 0);
    assert_eq!(a.cq.wait(&mut [], COMPLETION_TIMEOUT), 0, "nothing to wait for");
}

#[test]
fn r88_unsignalled_success_is_silent() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    a.send(SendWr::write(1, &[], b.mr.remote()).inline(b"x"));
    a.send(SendWr::write(2, &[], b.mr.remote()).inline(b"y").signaled());
    assert_eq!(a.done().wr_id, 2);
    assert_eq!(a.cq.poll_one(), None);
}

#[test]
fn signal_all_makes_every_send_complete() {
    let net = Net::fabric();
    let (a, b) = pair(&net, QpType::Rc);
    let qp = a.pd.qp_builder(QpType::Rc, &a.cq, &a.cq).signal_all(true).build().unwrap();
    let peer = b.pd.qp_builder(QpType::Rc, &b.cq, &b.cq).build().unwrap();
    common::connect(&qp, &peer, &ConnectOptions::default());
    qp.post_send(&[SendWr::write(5, &[], b.mr.remote()).inline(b"x")]).unwrap();
    assert_eq!(a.done().wr_id, 5);
}

#[test]
fn v101_resize_keeps_the_completions_that_wait() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    for id in 0..5 {
        a.send(SendWr::write(id, &[], b.mr.remote()).inline(b"x").signaled());
    }
    // Let them all complete without taking one.
    a.cq.wait(&mut [], Duration::ZERO);
    std::thread::sleep(MOMENT);
    let error = a.cq.resize(4).unwrap_err();
    assert!(error.to_string().contains("5 completions wait"), "{error}");
    assert_eq!(a.cq.capacity(), 256);
    a.cq.resize(5).unwrap();
    assert_eq!(a.cq.capacity(), 5);
    assert_eq!([(); 5].map(|()| a.done().wr_id), [0, 1, 2, 3, 4]);
}

#[test]
fn r66_overflow_breaks_the_queue_and_says_so() {
    let (a, b) = pair(&Net::fabric(), QpType::Rc);
    let tiny = a.context.create_cq(1).unwrap();
    let qp = a.pd.qp_builder(QpType::Rc, &tiny, &a.cq).build().unwrap();
    let peer = b.pd.qp_builder(QpType::Rc, &b.cq, &b.cq).build().unwrap();
    common::connect(&qp, &peer, &ConnectOptions::default());
    qp.post_recv(&[RecvWr::new(9, &[])]).unwrap();
    for id in 0..2 {
        qp.post_send(&[SendWr::write(id, &[], b.mr.remote()).inline(b"x").signaled()]).unwrap();
    }
    let event = a.context.next_async_event(Some(COMPLETION_TIMEOUT)).unwrap();
    assert_eq!(event, Some(AsyncEvent::CqErr(tiny.id())));
    let flushed = a.next();
    assert_eq!((flushed.wr_id, flushed.status), (9, WcStatus::WrFlushErr));
    assert!(flushed.to_string().contains("overflowed"), "{flushed}");
    assert_eq!(qp.state(), QpState::Err);
    assert_eq!(tiny.poll_one().map(|wc| wc.wr_id), Some(0), "what fitted is still there");
}

#[test]
fn v102_the_limit_of_queues_is_exact() {
    let limits = DeviceLimits { max_cq: 2, ..DeviceLimits::default() };
    let context = Net::fabric().builder().limits(limits).open().unwrap();
    let (first, _second) = (context.create_cq(1).unwrap(), context.create_cq(1).unwrap());
    let error = context.create_cq(1).unwrap_err();
    assert!(error.to_string().contains("2 completion queues"), "{error}");
    drop(first.clone());
    context.create_cq(1).unwrap_err();
    drop(first);
    context.create_cq(1).unwrap();
}
