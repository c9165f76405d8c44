//! A connection that is over ends no later one of its queue pair.

use std::time::Duration;

use uroce_device::cm::{Call, PortSpace, RejReason, ServiceId};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpAttr, QpAttrMask, QpState, QpType, SendOp};
use uroce_device::wire::{Psn, Qpn};
use uroce_device::{CmEventKind, ConnectionError, VirtualClock};

use crate::common::{assert_ok, collect, settle};
use crate::{Side, connect, on_one_clock, request};

/// Two sides on one clock, of which the second one listens.
fn sides() -> (VirtualClock, Side, Side) {
    let (clock, a, b) = on_one_clock(&LoopbackFabric::new());
    b.listen();
    (clock, a, b)
}

fn still_works(a: &Side, b: &Side, qa: Qpn, qb: Qpn) {
    assert_eq!((a.state(qa), b.state(qb)), (QpState::Rts, QpState::Rts));
    let (from, to) = (a.node.buffer(64), b.node.buffer(64));
    b.node.recv(qb, 1, &[to.sge(0, 64)]);
    a.node.send(qa, 2, SendOp::Send, &[from.sge(0, 64)]);
    assert_ok(&collect(&[(&a.node, 1), (&b.node, 1)]).concat());
}

/// The id of a call that was refused never stood: releasing it is no end of the connection that its queue pair has since.
#[test]
fn the_id_of_a_refused_call_ends_no_later_connection_of_its_queue_pair() {
    let (_, a, b) = sides();
    let qa = a.node.qp(QpType::Rc);
    let refused = a.call(&b, qa).expect("a call");
    settle(&[&a.node, &b.node]);
    b.node.device.cm().reject(request(b.event()), RejReason::CONSUMER, &[]).expect("it waits");
    settle(&[&a.node, &b.node]);
    assert!(matches!(a.event().kind, CmEventKind::Rejected { .. }));
    let (_, _, qb) = connect(&a, &b, qa);
    a.node.device.cm().release(refused);
    settle(&[&a.node, &b.node]);
    still_works(&a, &b, qa, qb);
}

/// A queue pair that went through RESET after its connection has a new one. The old id is released when its timewait is over.
#[test]
fn the_id_of_a_past_connection_ends_no_later_one_of_its_queue_pair() {
    let (clock, a, b) = sides();
    let qa = a.node.qp(QpType::Rc);
    let (past, _, _) = connect(&a, &b, qa);
    a.node.device.cm().disconnect(past, &[]).expect("it stands");
    settle(&[&a.node, &b.node]);
    assert!(matches!(a.event().kind, CmEventKind::Disconnected { .. }));
    assert!(matches!(b.event().kind, CmEventKind::Disconnected { .. }));
    clock.advance(Duration::from_secs(2));
    settle(&[&a.node, &b.node]);
    assert_eq!(a.event().kind, CmEventKind::TimewaitExit);
    b.event();
    a.node.step(qa, &QpAttr::default(), QpState::Reset, QpAttrMask::empty());
    let (_, _, qb) = connect(&a, &b, qa);
    a.node.device.cm().release(past);
    settle(&[&a.node, &b.node]);
    still_works(&a, &b, qa, qb);
}

/// The answer of the peer to a disconnect comes when the queue pair has its next connection already, to another peer.
#[test]
fn the_late_end_of_a_past_connection_ends_no_later_one_of_its_queue_pair() {
    let fabric = LoopbackFabric::new();
    let [a, b, c] = [1, 2, 3].map(|last| Side::new(&fabric, last));
    for side in [&b, &c] {
        side.listen();
    }
    let qa = a.node.qp(QpType::Rc);
    let (past, _, _) = connect(&a, &b, qa);
    // B stands still: the DREQ is answered later.
    a.node.device.cm().disconnect(past, &[]).expect("it stands");
    assert_eq!(a.state(qa), QpState::Err);
    a.node.step(qa, &QpAttr::default(), QpState::Reset, QpAttrMask::empty());
    let (_, _, qc) = connect(&a, &c, qa);
    settle(&[&a.node, &b.node, &c.node]);
    assert!(matches!(a.event().kind, CmEventKind::Disconnected { .. }));
    still_works(&a, &c, qa, qc);
}

/// "Calls a peer for the queue pair, in RESET or INIT", and of errors: "nothing was sent". One that has a connection is not
/// for another call, whose end would be its end.
#[test]
fn a_queue_pair_with_a_connection_makes_no_other_call() {
    let (_, a, b) = sides();
    let qa = a.node.qp(QpType::Rc);
    let (_, _, qb) = connect(&a, &b, qa);
    let nobody = ServiceId::new(PortSpace::Tcp, 7199);
    let call = Call::new(b.node.device.address(), nobody, qa, Psn::new(0x77));
    let called = a.node.device.cm().connect(&call, &a.channel, 9);
    settle(&[&a.node, &b.node]);
    still_works(&a, &b, qa, qb);
    assert!(called.is_err());
}

/// A second call of a queue pair whose first one is not answered: the end of either would be that of its queue pair.
#[test]
fn a_queue_pair_that_calls_makes_no_other_call() {
    let (_, a, b) = sides();
    let qa = a.node.qp(QpType::Rc);
    let first = a.call(&b, qa).expect("a call");
    let error = a.call(&b, qa).expect_err("it calls");
    assert!(matches!(error, ConnectionError::Calling), "{error}");
    a.node.device.cm().release(first);
    settle(&[&a.node, &b.node]);
    while b.channel.try_event().is_some() {}
    let (_, _, qb) = connect(&a, &b, qa);
    still_works(&a, &b, qa, qb);
}
