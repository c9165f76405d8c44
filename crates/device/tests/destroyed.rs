//! What is destroyed leaves no event behind (R93).

mod common;

use common::{Node, ip, settle};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpAttr, QpAttrMask as M, QpState, QpType, RecvWr, SendOp, SrqAttr};

/// As with a queue pair, no event of a destroyed CQ is left, nor taken for one of the next CQ with its number.
#[test]
fn r93_a_destroyed_cq_leaves_no_event() {
    let fabric = LoopbackFabric::new();
    let a = Node::inline(&fabric, 1);
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
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::inline(&fabric, 1), Node::inline(&fabric, 2));
    let attr = SrqAttr { max_wr: 8, max_sge: 1, limit: 4 };
    let srq = b.device.create_srq(b.pd, &attr).expect("an SRQ");
    b.device.modify_srq(srq, None, Some(4)).expect("armed");
    let qb = b
        .device
        .create_qp(&uroce_device::QpRequest { srq: Some(srq), ..b.request(QpType::Rc) })
        .expect("a QP");
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
