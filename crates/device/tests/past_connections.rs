//! A connection that is over ends no later one of its queue pair.

mod common;

use std::time::Duration;

use common::{Node, assert_ok, collect, settle};
use uroce_device::cm::{Acceptance, Call, CommId, PortSpace, RejReason, ServiceId};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpAttr, QpAttrMask as M, QpState, QpType, SendOp};
use uroce_device::wire::{Psn, Qpn};
use uroce_device::{CmChannel, CmEvent, CmEventKind, VirtualClock};

const SERVICE: ServiceId = ServiceId::new(PortSpace::Tcp, 7174);

struct Side {
    node: Node,
    channel: CmChannel,
}

impl Side {
    fn of(node: Node) -> Side {
        Side { node, channel: CmChannel::new().expect("eventfd") }
    }

    fn event(&self) -> CmEvent {
        self.channel.try_event().expect("an event")
    }

    fn call(&self, to: &Side, qpn: Qpn) -> CommId {
        let call = Call::new(to.node.device.address(), SERVICE, qpn, Psn::new(0x77));
        self.node.device.cm().connect(&call, &self.channel, 8).expect("a call")
    }
}

fn request(event: CmEvent) -> CommId {
    match event {
        CmEvent { id, kind: CmEventKind::ConnectRequest(_), .. } => id,
        other => panic!("a request expected, not {other:?}"),
    }
}

fn sides() -> (VirtualClock, Side, Side) {
    let fabric = LoopbackFabric::new();
    let clock = VirtualClock::new();
    let side = |last| Side::of(Node::on_clock(&fabric, last, &clock));
    let (a, b) = (side(1), side(2));
    b.node.device.cm().listen(SERVICE, 4, &b.channel, 7).expect("free");
    (clock, a, b)
}

/// A connection of `qa` that stands.
fn connect(a: &Side, b: &Side, qa: Qpn) -> (CommId, CommId, Qpn) {
    let id_a = a.call(b, qa);
    settle(&[&a.node, &b.node]);
    let id_b = request(b.event());
    let qb = b.node.qp(QpType::Rc);
    b.node.device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
    settle(&[&a.node, &b.node]);
    for event in [a.event(), b.event()] {
        assert!(matches!(event.kind, CmEventKind::Established { .. }), "{event:?}");
    }
    assert_eq!((a.node.state(qa), b.node.state(qb)), (QpState::Rts, QpState::Rts));
    (id_a, id_b, qb)
}

fn still_works(a: &Side, b: &Side, qa: Qpn, qb: Qpn) {
    assert_eq!((a.node.state(qa), b.node.state(qb)), (QpState::Rts, QpState::Rts));
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
    let refused = a.call(&b, qa);
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
    a.node.step(qa, &QpAttr::default(), QpState::Reset, M::empty());
    let (_, _, qb) = connect(&a, &b, qa);
    a.node.device.cm().release(past);
    settle(&[&a.node, &b.node]);
    still_works(&a, &b, qa, qb);
}

/// The answer of the peer to a disconnect comes when the queue pair has its next connection already, to another peer.
#[test]
fn the_late_end_of_a_past_connection_ends_no_later_one_of_its_queue_pair() {
    let fabric = LoopbackFabric::new();
    let clock = VirtualClock::new();
    let [a, b, c] = [1, 2, 3].map(|last| Side::of(Node::on_clock(&fabric, last, &clock)));
    for side in [&b, &c] {
        side.node.device.cm().listen(SERVICE, 4, &side.channel, 7).expect("free");
    }
    let qa = a.node.qp(QpType::Rc);
    let (past, _, _) = connect(&a, &b, qa);
    // B stands still: the DREQ is answered later.
    a.node.device.cm().disconnect(past, &[]).expect("it stands");
    assert_eq!(a.node.state(qa), QpState::Err);
    a.node.step(qa, &QpAttr::default(), QpState::Reset, M::empty());
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
