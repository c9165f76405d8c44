//! Contexts with several engines.

use std::num::NonZeroU8;

use uroce_verbs::*;

use crate::common::{COMPLETION_TIMEOUT, MR_LEN, Net, Side, all, connect, pattern};

/// A device of two engines with one of everything in the second; the protection domain and the memory belong
/// to both.
fn in_second_engine(net: &Net) -> Side {
    let engines = NonZeroU8::new(2).expect("not 0");
    let context = net.builder().engines(engines).open().expect("the device opens");
    let pd = context.alloc_pd().expect("a PD");
    let cq = context.create_cq_on(1, 256).expect("a CQ");
    let mr = pd.alloc_mr(MR_LEN, all()).expect("an MR");
    let qp = pd.qp_builder(QpType::Rc, &cq, &cq).build().expect("a QP");
    qp.init().expect("INIT");
    Side { qp, mr, cq, pd, context }
}

#[test]
fn queue_pairs_of_two_engines_share_memory() {
    let net = Net::udp();
    let (a, b) = (in_second_engine(&net), in_second_engine(&net));
    let first_cq = b.context.create_cq(16).expect("a CQ");
    let first = b.pd.qp_builder(QpType::Rc, &first_cq, &first_cq).build().expect("a QP");
    first.init().expect("INIT");
    connect(&a.qp, &b.qp, &ConnectOptions::default());
    let other = a.pd.qp_builder(QpType::Rc, &a.cq, &a.cq).build().expect("a QP");
    connect(&other, &first, &ConnectOptions::default());
    a.mr.write(0, &pattern(8192, 3)).expect("inside");
    // Into the second engine, and out of the first.
    a.send(SendWr::write(1, &[a.mr.sge(..8192)], b.mr.remote().part(0..8192)).signaled());
    a.done();
    let back = [a.mr.sge(8192..16384)];
    let read = SendWr::read(2, &back, b.mr.remote().part(0..8192)).signaled();
    other.post_send(&[read]).expect("posted");
    a.done();
    assert_eq!(a.bytes(8192, 8192), pattern(8192, 3));
}

#[test]
fn a_shared_receive_queue_and_a_sleeper_have_a_vector() {
    let net = Net::udp();
    let (a, b) = (in_second_engine(&net), in_second_engine(&net));
    let channel = b.context.create_comp_channel().expect("a channel");
    let cq = channel.create_cq_on(1, 16, 7).expect("a CQ");
    let srq = b.pd.create_srq_on(1, 8, 1).expect("an SRQ");
    let qp = b.pd.qp_builder(QpType::Rc, &cq, &cq).srq(&srq).build().expect("a QP");
    connect(&a.qp, &qp, &ConnectOptions::default());
    srq.post_recv(&[RecvWr::new(3, &[b.mr.sge(..64)])]).expect("room");
    cq.req_notify(Notify::Next);
    a.send(SendWr::send(1, &[]).inline(b"wake up").signaled());
    let event = channel.next_event(Some(COMPLETION_TIMEOUT)).expect("poll").expect("an event");
    assert_eq!((event.cq, event.cookie), (cq.id(), 7));
    assert_eq!(cq.wait_one(COMPLETION_TIMEOUT).expect("a completion").wr_id, 3);

    let elsewhere = b.pd.create_srq(8, 1).expect("an SRQ");
    let refused = b.pd.qp_builder(QpType::Rc, &cq, &cq).srq(&elsewhere).build();
    let error = refused.expect_err("two engines").to_string();
    assert!(error.contains("the SRQ is in engine 0"), "{error}");
    assert!(b.context.create_cq_on(2, 16).is_err());
}
