//! Objects can be dropped in any order, while traffic is on its way, without panic or deadlock; and
//! nothing stays behind.

use std::any::Any;
use std::time::Duration;

use uroce_verbs::*;

use crate::common;
use crate::common::{Net, Side, pair};

/// Limits that a leak of a single object would hit.
fn tight() -> DeviceLimits {
    DeviceLimits {
        max_qp: 1,
        max_cq: 1,
        max_srq: 1,
        max_pd: 1,
        max_mr: 1,
        max_mw: 1,
        ..DeviceLimits::default()
    }
}

/// One of each object, on a device that allows no more.
fn one_of_each(context: &Context) -> Vec<Box<dyn Any>> {
    let pd = context.alloc_pd().expect("the only PD");
    let channel = context.create_comp_channel().expect("a channel");
    let cq = channel.create_cq(8, 0).expect("the only CQ");
    let srq = pd.create_srq(8, 1).expect("the only SRQ");
    let mr = pd.alloc_mr(64, common::all()).expect("the only MR");
    let mw = pd.alloc_mw(MwType::Type2B).expect("the only MW");
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).srq(&srq).build().expect("the only QP");
    qp.connect(&qp.endpoint(), &ConnectOptions::default()).expect("connected to itself");
    srq.post_recv(&[RecvWr::new(1, &[mr.sge(..8)])]).expect("posted");
    qp.post_send(&[SendWr::bind_mw(2, &mw, &mr, .., Access::REMOTE_READ)]).expect("posted");
    qp.post_send(&[SendWr::send(3, &[mr.sge(8..16)])]).expect("posted");
    vec![
        Box::new(pd),
        Box::new(channel),
        Box::new(cq),
        Box::new(srq),
        Box::new(mr),
        Box::new(mw),
        Box::new(qp),
    ]
}

/// Takes the elements out in the `number`th of all orders.
fn permuted<T>(mut items: Vec<T>, mut number: usize) -> Vec<T> {
    let mut out = Vec::new();
    while !items.is_empty() {
        let left = items.len();
        out.push(items.swap_remove(number % left));
        number /= left;
    }
    out
}

#[test]
fn r93_every_order_of_dropping_frees_everything() {
    let context = Net::fabric().builder().limits(tight()).progress_thread(false).open().unwrap();
    for number in 0..5040 {
        let objects = one_of_each(&context);
        permuted(objects, number).into_iter().for_each(drop);
    }
    // All limits of one are free again.
    drop(one_of_each(&context));
}

#[test]
fn every_order_with_the_context_dropped_first() {
    for number in (0..5040).step_by(97) {
        let context = Net::fabric().builder().limits(tight()).open().unwrap();
        let objects = one_of_each(&context);
        drop(context);
        permuted(objects, number).into_iter().for_each(drop);
    }
}

#[test]
fn objects_keep_the_device_alive() {
    let net = Net::fabric();
    let (a, b) = pair(&net, QpType::Rc);
    let Side { qp, mr, cq, pd, context } = a;
    drop((context, pd));
    mr.write(0, b"still here").unwrap();
    qp.post_send(&[SendWr::write(1, &[mr.sge(..10)], b.mr.remote()).signaled()]).unwrap();
    cq.wait_one(common::COMPLETION_TIMEOUT).unwrap().result().unwrap();
    assert_eq!(b.bytes(0, 10), b"still here");
}

#[test]
fn with_the_last_object_the_address_is_free() {
    let fabric = LoopbackFabric::new();
    let open = || Context::builder().address([10, 9, 9, 9]).loopback(&fabric).open();
    let cq = open().unwrap().create_cq(1).unwrap();
    let taken = open().unwrap_err();
    assert!(taken.to_string().contains("10.9.9.9"), "{taken}");
    drop(cq);
    open().unwrap();
}

#[test]
fn r93_b44_a_queue_pair_dropped_under_traffic_is_silent() {
    let net = Net::fabric();
    for round in 0..50 {
        let (a, b) = pair(&net, QpType::Rc);
        for id in 0..20 {
            b.recv(id, 0..100_000);
            a.send(SendWr::send(id, &[a.mr.sge(..100_000)]).signaled());
        }
        let (gone, other) = if round % 2 == 0 { (a, b) } else { (b, a) };
        let cq = gone.cq.clone();
        drop(gone);
        let before = std::iter::from_fn(|| cq.poll_one()).count();
        assert!(before <= 20, "one completion for each work request at most");
        other.cq.wait(&mut [WorkCompletion::default()], Duration::from_millis(1));
        assert_eq!(cq.poll_one(), None, "the queue pair is gone");
    }
}

#[test]
fn b40_a_region_outlives_its_object_while_a_window_is_bound() {
    let net = Net::fabric();
    let (a, b) = pair(&net, QpType::Rc);
    let region = b.pd.alloc_mr(64, common::all()).unwrap();
    let (bytes, addr) = (region.region().clone(), region.addr());
    let window = b.pd.alloc_mw(MwType::Type2B).unwrap();
    b.send(SendWr::bind_mw(1, &window, &region, .., Access::REMOTE_WRITE).signaled());
    b.done();
    let (region, error) = region.deregister().unwrap_err();
    assert_eq!(error, DeregError::Busy { windows: 1 });
    drop(region);
    let remote = window.remote(addr, 64);
    a.send(SendWr::write(2, &[], remote).inline(b"valid").signaled());
    a.done();
    let mut seen = [0; 5];
    bytes.read(0, &mut seen).unwrap();
    assert_eq!(&seen, b"valid");
    drop(window);
    a.send(SendWr::write(3, &[], remote).inline(b"no more"));
    assert_eq!(a.next().status, WcStatus::RemAccessErr);
}
