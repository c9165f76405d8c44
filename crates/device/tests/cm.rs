//! Connections by address and port, between devices and against a peer that the test plays.

mod common;
#[path = "common/forge.rs"]
mod forge;
#[path = "cm/past_connections.rs"]
mod past_connections;

use std::time::Duration;

use common::{Node, assert_ok, collect, ip, pattern, settle};
use forge::{Attacker, GOOD, Headers, mad_packet};
use uroce_device::cm::{
    Acceptance, Answer, Call, Cm, CmError, CmLimits, CommId, Identity, MAD_LEN, Outgoing,
    PortSpace, Question, RejReason, ServiceId, SidrStatus,
};
use uroce_device::datapath::LoopbackFabric;
use uroce_device::transport::{QpState, QpType, SendOp};
use uroce_device::wire::{DropReason, Psn, Qpn};
use uroce_device::{CmChannel, CmEvent, CmEventKind, ConnectionError, VirtualClock};

const SERVICE: ServiceId = ServiceId::new(PortSpace::Tcp, 7174);
const LISTENER: u64 = 7;
const CALLER: u64 = 8;

/// A node with a channel.
struct Side {
    node: Node,
    channel: CmChannel,
}

impl Side {
    fn new(fabric: &LoopbackFabric, last: u8) -> Side {
        Side::of(Node::inline(fabric, last))
    }

    fn of(node: Node) -> Side {
        Side { node, channel: CmChannel::new().expect("eventfd") }
    }

    fn listen(&self) {
        self.node.device.cm().listen(SERVICE, 4, &self.channel, LISTENER).expect("free");
    }

    fn event(&self) -> CmEvent {
        self.channel.try_event().expect("an event")
    }

    fn call(&self, to: &Side, qpn: Qpn) -> Result<CommId, ConnectionError> {
        let call = Call::new(to.node.device.address(), SERVICE, qpn, Psn::new(0x77));
        self.node.device.cm().connect(&call, &self.channel, CALLER)
    }

    fn state(&self, qpn: Qpn) -> QpState {
        self.node.state(qpn)
    }
}

/// Two sides on one clock.
fn on_one_clock(fabric: &LoopbackFabric) -> (VirtualClock, Side, Side) {
    let clock = VirtualClock::new();
    let side = |last| Side::of(Node::on_clock(fabric, last, &clock));
    let (a, b) = (side(1), side(2));
    (clock, a, b)
}

fn request(event: CmEvent) -> CommId {
    match event {
        CmEvent { cookie: LISTENER, id, kind: CmEventKind::ConnectRequest(_) } => id,
        other => panic!("a request expected, not {other:?}"),
    }
}

fn is_established(event: &CmEvent) -> bool {
    matches!(event.kind, CmEventKind::Established { .. })
}

/// Two connected sides: ids and queue pairs of both.
fn connected(a: &Side, b: &Side) -> ((CommId, Qpn), (CommId, Qpn)) {
    b.listen();
    let qa = a.node.qp(QpType::Rc);
    let (id_a, id_b, qb) = connect(a, b, qa);
    ((id_a, qa), (id_b, qb))
}

/// Connects a queue pair to a new one of a side that listens: both ids, and that queue pair.
fn connect(a: &Side, b: &Side, qa: Qpn) -> (CommId, CommId, Qpn) {
    let qb = b.node.qp(QpType::Rc);
    let id_a = a.call(b, qa).expect("a call");
    settle(&[&a.node, &b.node]);
    let id_b = request(b.event());
    b.node.device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(0x99))).expect("accepted");
    settle(&[&a.node, &b.node]);
    let (event_a, event_b) = (a.event(), b.event());
    assert!(is_established(&event_a) && event_a.cookie == CALLER, "{event_a:?}");
    assert!(is_established(&event_b) && event_b.cookie == LISTENER, "{event_b:?}");
    assert_eq!((a.state(qa), b.state(qb)), (QpState::Rts, QpState::Rts));
    (id_a, id_b, qb)
}

#[test]
fn a_connection_carries_data_both_ways_and_ends() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let ((id_a, qa), (_, qb)) = connected(&a, &b);
    let (from, to) = (a.node.buffer(4096), b.node.buffer(4096));
    for (sender, receiver, q_s, q_r) in [(&a, &b, qa, qb), (&b, &a, qb, qa)] {
        let (from, to) = if q_s == qa { (&from, &to) } else { (&to, &from) };
        from.write(0, &pattern(4096, q_s.get() as u8));
        receiver.node.recv(q_r, 1, &[to.sge(0, 4096)]);
        sender.node.send(q_s, 2, SendOp::Send, &[from.sge(0, 4096)]);
        for done in collect(&[(&sender.node, 1), (&receiver.node, 1)]) {
            assert_ok(&done);
        }
        assert_eq!(to.bytes(0, 4096), pattern(4096, q_s.get() as u8));
    }
    // READs of a connection are allowed as deep as both sides said.
    let (attr, _) = a.node.device.query_qp(qa).expect("it exists");
    assert_eq!((attr.max_rd_atomic, attr.max_dest_rd_atomic, attr.timeout), (16, 16, 17));

    a.node.device.cm().disconnect(id_a, b"bye").expect("it stands");
    assert_eq!(a.state(qa), QpState::Err);
    settle(&[&a.node, &b.node]);
    assert!(matches!(a.event().kind, CmEventKind::Disconnected { .. }));
    let CmEventKind::Disconnected { private_data, .. } = b.event().kind else { panic!("the end") };
    assert_eq!((&private_data[..3], b.state(qb)), (&b"bye"[..], QpState::Err));
}

/// An application that has seen the last message may hang up at once.
#[test]
fn the_last_message_is_acknowledged_before_its_connection_ends() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let ((_, qa), (id_b, qb)) = connected(&a, &b);
    let (from, to) = (a.node.buffer(8), b.node.buffer(8));
    b.node.recv(qb, 1, &[to.sge(0, 8)]);
    a.node.send(qa, 2, SendOp::Send, &[from.sge(0, 8)]);
    assert_ok(&b.node.poll());
    b.node.device.cm().disconnect(id_b, &[]).expect("it stands");
    assert_ok(&collect(&[(&a.node, 1)]).concat());
}

#[test]
fn timewait_ends_by_the_clock() {
    let fabric = LoopbackFabric::new();
    let (clock, a, b) = on_one_clock(&fabric);
    let ((id_a, _), _) = connected(&a, &b);
    a.node.device.cm().disconnect(id_a, &[]).expect("it stands");
    settle(&[&a.node, &b.node]);
    a.event();
    // 512 ms for an ACK timeout of 17, and what the round trip takes.
    clock.advance(Duration::from_millis(400));
    settle(&[&a.node, &b.node]);
    assert_eq!(a.channel.try_event(), None);
    clock.advance(Duration::from_millis(400));
    settle(&[&a.node, &b.node]);
    assert_eq!(a.event().kind, CmEventKind::TimewaitExit);
    assert_eq!(a.node.device.cm().state(id_a), None);
}

#[test]
fn a_refused_caller_can_call_again_with_the_same_queue_pair() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let qa = a.node.qp(QpType::Rc);
    a.call(&b, qa).expect("a call");
    settle(&[&a.node, &b.node]);
    let CmEventKind::Rejected { reason, .. } = a.event().kind else { panic!("refused") };
    assert_eq!((reason, a.state(qa)), (RejReason::INVALID_SERVICE_ID, QpState::Init));
    assert_eq!(b.node.counter("drop_cm_no_listener"), 1);
    b.listen();
    a.call(&b, qa).expect("another call");
    settle(&[&a.node, &b.node]);
    let id = request(b.event());
    b.node.device.cm().reject(id, RejReason::CONSUMER, b"later").expect("it waits");
    settle(&[&a.node, &b.node]);
    let CmEventKind::Rejected { reason, private_data, .. } = a.event().kind else {
        panic!("refused")
    };
    assert_eq!((reason, &private_data[..5]), (RejReason::CONSUMER, &b"later"[..]));
}

#[test]
fn b54_a_released_id_is_silent_and_the_peer_hears_of_it() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let ((id_a, qa), (_, qb)) = connected(&a, &b);
    a.node.device.cm().release(id_a);
    assert_eq!(a.state(qa), QpState::Err);
    settle(&[&a.node, &b.node]);
    assert!(matches!(b.event().kind, CmEventKind::Disconnected { .. }));
    assert_eq!((b.state(qb), a.channel.try_event()), (QpState::Err, None));
}

/// The second side has a call of the first one, which it has not fetched, and a queue pair for each.
fn called() -> (Side, Side, Qpn, Qpn) {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    b.listen();
    let (qa, qb) = (a.node.qp(QpType::Rc), b.node.qp(QpType::Rc));
    a.call(&b, qa).expect("a call");
    settle(&[&a.node, &b.node]);
    (a, b, qa, qb)
}

#[test]
fn a_reply_for_a_destroyed_queue_pair_fails_at_both_ends() {
    let (a, b, qa, qb) = called();
    let id_b = request(b.event());
    a.node.device.destroy_qp(qa).expect("it exists");
    b.node.device.cm().accept(id_b, &Acceptance::new(qb, Psn::new(1))).expect("accepted");
    settle(&[&a.node, &b.node]);
    assert!(matches!(a.event().kind, CmEventKind::ConnectError(_)));
    assert!(matches!(b.event().kind, CmEventKind::Rejected { .. }));
    assert_eq!(b.state(qb), QpState::Err);
}

/// Neither end would understand the other. The call still waits, and can be accepted with a queue pair that fits.
#[test]
fn a_call_is_accepted_only_with_a_queue_pair_of_its_transport() {
    for (call, other) in [(QpType::Uc, QpType::Rc), (QpType::Rc, QpType::Uc)] {
        let fabric = LoopbackFabric::new();
        let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
        b.listen();
        a.call(&b, a.node.qp(call)).expect("a call");
        settle(&[&a.node, &b.node]);
        let id = request(b.event());
        let wrong = b.node.qp(other);
        let refused = b.node.device.cm().accept(id, &Acceptance::new(wrong, Psn::new(1)));
        let Err(error @ ConnectionError::OtherTransport { .. }) = refused else {
            panic!("refused, not {refused:?}")
        };
        assert_eq!((error.errno(), b.state(wrong)), (22, QpState::Reset), "{error}");
        let right = b.node.qp(call);
        b.node.device.cm().accept(id, &Acceptance::new(right, Psn::new(1))).expect("it fits");
        settle(&[&a.node, &b.node]);
        assert!(is_established(&a.event()));
    }
}

#[test]
fn datagram_queue_pairs_and_taken_ports_are_refused_at_once() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let ud = a.node.qp(QpType::Ud);
    assert_eq!(a.call(&b, ud), Err(ConnectionError::Datagram));
    b.listen();
    let twice = b.node.device.cm().listen(SERVICE, 4, &b.channel, 9);
    assert_eq!(twice, Err(CmError::PortTaken(SERVICE)));
    b.node.device.cm().unlisten(SERVICE).expect("it listens");
    b.listen();
}

#[test]
fn a_service_of_datagrams_is_found() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let service = ServiceId::new(PortSpace::Udp, 9);
    b.node.device.cm().listen(service, 4, &b.channel, LISTENER).expect("free");
    let question = Question::new(ip(2), service);
    a.node.device.cm().resolve(&question, &a.channel, CALLER).expect("a question");
    settle(&[&a.node, &b.node]);
    let asked = b.event();
    assert!(matches!(asked.kind, CmEventKind::ResolveRequest { remote, .. } if remote == ip(1)));
    let answer = Answer {
        status: SidrStatus::VALID,
        qpn: Qpn::new(0x42),
        qkey: 0x0123_4567,
        private_data: vec![],
    };
    b.node.device.cm().answer(asked.id, &answer).expect("it waits");
    settle(&[&a.node, &b.node]);
    let CmEventKind::Resolved { status, qpn, qkey, .. } = a.event().kind else { panic!("found") };
    assert_eq!((status, qpn, qkey), (SidrStatus::VALID, Qpn::new(0x42), 0x0123_4567));
    a.node.device.cm().resolve(&question, &a.channel, CALLER).expect("another question");
    settle(&[&a.node, &b.node]);
    b.node.device.cm().reject(b.event().id, RejReason::CONSUMER, b"no").expect("it waits");
    settle(&[&a.node, &b.node]);
    let refused = a.event().kind;
    assert!(
        matches!(refused, CmEventKind::Resolved { status: SidrStatus::REJECTED, .. }),
        "{refused:?}"
    );
}

const PEER: u8 = 9;

/// A peer that the test plays: its MADs pass through the test's hands.
struct Peer {
    cm: Cm,
    wire: Attacker,
}

impl Peer {
    fn new(fabric: &LoopbackFabric) -> Peer {
        let us = Identity { address: ip(PEER), guid: 9, ack_delay: 15, active_mtu: 5, slot: None };
        let cm = Cm::new(us, CmLimits::default(), [9; 32]);
        Peer { cm, wire: Attacker::new(fabric, PEER) }
    }

    fn send(&mut self, to: &Node, mads: &[Outgoing]) {
        for mad in mads {
            self.wire.inject(ip(PEER), mad.peer, mad_packet(&mad.bytes, GOOD));
        }
        self.wire.deliver(to);
    }

    fn call(&mut self, to: &Node) -> (CommId, Vec<Outgoing>) {
        let call = Call::new(to.device.address(), SERVICE, Qpn::new(0x55), Psn::new(0x1000));
        let id = self.cm.connect(Duration::ZERO, &call).expect("a call");
        (id, std::iter::from_fn(|| self.cm.poll_transmit()).collect())
    }
}

/// A listener that has accepted the call of a peer whose RTU does not come, with the queue pair of the connection.
fn accepted(fabric: &LoopbackFabric) -> (Side, Peer, Qpn) {
    let b = Side::new(fabric, 2);
    b.listen();
    let mut peer = Peer::new(fabric);
    let (_, req) = peer.call(&b.node);
    peer.send(&b.node, &req);
    let id = request(b.event());
    let qb = b.node.qp(QpType::Rc);
    b.node.device.cm().accept(id, &Acceptance::new(qb, Psn::new(1))).expect("accepted");
    (b, peer, qb)
}

#[test]
fn r113_the_first_packet_of_a_connection_stands_for_a_lost_rtu() {
    let fabric = LoopbackFabric::new();
    let (b, mut peer, qb) = accepted(&fabric);
    assert_eq!((b.channel.try_event(), b.state(qb)), (None, QpState::Rts));
    // From somebody else, or damaged, it means nothing.
    let [_, q1, q2, q3] = qb.get().to_be_bytes();
    let mut send_only = vec![0x04, 0x40, 0xff, 0xff, 0, q1, q2, q3, 0x80, 0, 0x10, 0];
    send_only.extend([0; 8]);
    peer.wire.inject(ip(77), ip(2), send_only.clone());
    peer.wire.inject_raw(ip(PEER), ip(2), &send_only);
    peer.wire.deliver(&b.node);
    assert_eq!(b.channel.try_event(), None);
    peer.wire.inject(ip(PEER), ip(2), send_only.clone());
    peer.wire.inject(ip(PEER), ip(2), send_only);
    peer.wire.deliver(&b.node);
    b.node.device.drive();
    assert!(is_established(&b.event()));
    assert_eq!(b.channel.try_event(), None);
}

#[test]
fn r113_an_answer_to_nothing_does_not_stand_for_a_lost_rtu() {
    let fabric = LoopbackFabric::new();
    let (b, mut peer, qb) = accepted(&fabric);
    // An ACK, although nothing was sent.
    let [_, q1, q2, q3] = qb.get().to_be_bytes();
    let mut ack = vec![0x11, 0x40, 0xff, 0xff, 0, q1, q2, q3, 0, 0, 0x10, 0, 0x1f, 0, 0, 1];
    ack.extend([0; 4]);
    peer.wire.inject(ip(PEER), ip(2), ack);
    peer.wire.deliver(&b.node);
    b.node.device.drive();
    assert_eq!(b.node.counter("rcvd_pkts"), 1, "it came to the queue pair");
    assert_eq!(b.channel.try_event(), None);
}

/// A REQ that seems to come from the other end of a connection, for its queue pair `qpn`.
fn forged_call(peer: &mut Peer, from: &Node, to: &Node, qpn: Qpn) {
    let address = from.device.address();
    let us = Identity { address, guid: 9, ack_delay: 15, active_mtu: 1, slot: None };
    let mut forger = Cm::new(us, CmLimits::default(), [11; 32]);
    let call = Call { path_mtu: 1, ..Call::new(to.device.address(), SERVICE, qpn, Psn::new(1)) };
    forger.connect(Duration::ZERO, &call).expect("a call");
    let req = forger.poll_transmit().expect("a REQ");
    peer.wire.inject(address, to.device.address(), mad_packet(&req.bytes, GOOD));
    peer.wire.deliver(to);
}

#[test]
fn a38_the_queue_pair_of_an_idle_peer_answers_for_itself() {
    idle_peer_answers(false);
}

/// Duplicates of what is before a READ draw no ACK (R57); the probe of who has its answer does.
#[test]
fn a38_r57_the_queue_pair_of_an_idle_peer_whose_memory_was_read_last_does() {
    idle_peer_answers(true);
}

/// Its application destroyed the queue pair and keeps the id: there is nothing left that a caller with the same queue pair
/// number, who restarted, could harm.
#[test]
fn r112_a_destroyed_queue_pair_keeps_no_restarted_peer_out() {
    let fabric = LoopbackFabric::new();
    let (clock, a, b) = on_one_clock(&fabric);
    let ((_, qa), (_, qb)) = connected(&a, &b);
    b.node.device.destroy_qp(qb).expect("it exists");
    let mut peer = Peer::new(&fabric);
    let mut until_end = 0;
    while b.channel.try_event().is_none() {
        forged_call(&mut peer, &a.node, &b.node, qa);
        settle(&[&b.node]);
        clock.advance(Duration::from_secs(1));
        until_end += 1;
        assert!(until_end < 60, "the caller hears that its queue pair is in use for ever");
    }
    assert!(until_end >= 10, "{until_end} s: it was in doubt for as long as any other");
}

fn idle_peer_answers(reads: bool) {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let ((_, qa), (_, qb)) = connected(&a, &b);
    if reads {
        let (to, from) = (b.node.buffer(64), a.node.buffer(64));
        let (va, rkey) = (from.addr(), from.mr.rkey);
        b.node.send(qb, 1, SendOp::Read { va, rkey }, &[to.sge(0, 64)]);
        assert_ok(&collect(&[(&b.node, 1), (&a.node, 0)]).concat());
    }
    let mut peer = Peer::new(&fabric);
    forged_call(&mut peer, &a.node, &b.node, qa);
    settle(&[&a.node, &b.node]);
    assert_eq!(
        (dropped(&b.node, DropReason::CmStale), dropped(&b.node, DropReason::GhostAck)),
        (1, 1)
    );
    assert_eq!(dropped(&a.node, DropReason::CmUnknownId), 0, "no answer to the first");
    // Now the peer is known to be alive, and the caller is told that its queue pair is in use.
    forged_call(&mut peer, &a.node, &b.node, qa);
    settle(&[&a.node, &b.node]);
    assert_eq!(
        (dropped(&b.node, DropReason::CmStale), dropped(&b.node, DropReason::GhostAck)),
        (2, 1)
    );
    assert_eq!(dropped(&a.node, DropReason::CmUnknownId), 1);
    assert_eq!((a.channel.try_event(), b.channel.try_event()), (None, None));
    assert_eq!((a.state(qa), b.state(qb)), (QpState::Rts, QpState::Rts));
    // The PSNs of both are where they were.
    let (from, to) = (a.node.buffer(64), b.node.buffer(64));
    b.node.recv(qb, 1, &[to.sge(0, 64)]);
    a.node.send(qa, 2, SendOp::Send, &[from.sge(0, 64)]);
    for done in collect(&[(&a.node, 1), (&b.node, 1)]) {
        assert_ok(&done);
    }
}

#[test]
fn a22_only_whole_datagrams_of_a_qp_1_under_the_right_keys_are_mads() {
    let fabric = LoopbackFabric::new();
    let b = Side::new(&fabric, 2);
    b.listen();
    let mut peer = Peer::new(&fabric);
    let (_, req) = peer.call(&b.node);
    let cases = [
        (Headers { opcode: 0x65, ..GOOD }, DropReason::GsiQpn),
        (Headers { opcode: 0x04, ..GOOD }, DropReason::GsiQpn),
        (Headers { src_qpn: 2, ..GOOD }, DropReason::GsiQpn),
        (Headers { pkey: 0x1234, ..GOOD }, DropReason::PkeyMismatch),
        (Headers { qkey: 0x8001_0001, ..GOOD }, DropReason::QkeyMismatch),
        (Headers { qkey: 0x0001_0000, ..GOOD }, DropReason::QkeyMismatch),
        (Headers { len: MAD_LEN - 4, ..GOOD }, DropReason::MadLength),
        (Headers { len: MAD_LEN + 4, ..GOOD }, DropReason::MadLength),
    ];
    for (headers, reason) in cases {
        let before = dropped(&b.node, reason);
        peer.wire.inject(ip(PEER), ip(2), mad_packet(&req[0].bytes, headers));
        peer.wire.deliver(&b.node);
        assert_eq!(dropped(&b.node, reason), before + 1);
    }
    peer.wire.inject_raw(ip(PEER), ip(2), &mad_packet(&req[0].bytes, GOOD));
    peer.wire.deliver(&b.node);
    assert_eq!(dropped(&b.node, DropReason::BadIcrc), 1);
    assert_eq!((b.channel.try_event(), peer.wire.replies().0), (None, 0));
    // B53: limited membership is no mismatch.
    let limited = Headers { pkey: 0x7fff, ..GOOD };
    peer.wire.inject(ip(PEER), ip(2), mad_packet(&req[0].bytes, limited));
    peer.wire.deliver(&b.node);
    request(b.event());
}

fn dropped(node: &Node, reason: DropReason) -> u64 {
    node.device.drops().iter().find(|(r, _)| *r == reason).map_or(0, |(_, count)| *count)
}

#[test]
fn a21_a_flood_leaves_the_data_path_alone() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    let ((_, qa), (_, qb)) = connected(&a, &b);
    let mut peer = Peer::new(&fabric);
    let (_, req) = peer.call(&b.node);
    for n in 0..20_000u32 {
        let mut bytes = req[0].bytes;
        bytes[24..28].copy_from_slice(&n.wrapping_mul(0x9e37_79b9).to_be_bytes());
        peer.wire.inject(ip(PEER), ip(2), mad_packet(&bytes, GOOD));
        if n % 64 == 63 {
            peer.wire.deliver(&b.node);
        }
    }
    let (replies, bytes) = peer.wire.replies();
    assert!(replies < 5_000 && bytes <= peer.wire.sent_bytes, "{replies} answers");
    let (from, to) = (a.node.buffer(64), b.node.buffer(64));
    b.node.recv(qb, 1, &[to.sge(0, 64)]);
    a.node.send(qa, 2, SendOp::Send, &[from.sge(0, 64)]);
    for done in collect(&[(&a.node, 1), (&b.node, 1)]) {
        assert_ok(&done);
    }
}

#[test]
fn progress_threads_connect_by_themselves() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Node::threaded(&fabric, 1), Node::threaded(&fabric, 2));
    let channel = CmChannel::new().expect("eventfd");
    b.device.cm().listen(SERVICE, 4, &channel, LISTENER).expect("free");
    let (qa, qb) = (a.qp(QpType::Rc), b.qp(QpType::Rc));
    let call = Call::new(ip(2), SERVICE, qa, Psn::new(5));
    a.device.cm().connect(&call, &channel, CALLER).expect("a call");
    let patience = Some(Duration::from_secs(20));
    let next = || channel.next_event(patience).expect("poll").expect("an event");
    let id = request(next());
    b.device.cm().accept(id, &Acceptance::new(qb, Psn::new(6))).expect("accepted");
    let mut cookies = [next(), next()].map(|event| {
        assert!(is_established(&event), "{event:?}");
        event.cookie
    });
    cookies.sort_unstable();
    assert_eq!(cookies, [LISTENER, CALLER]);
}

#[test]
fn applications_ready_their_queue_pairs_themselves() {
    let fabric = LoopbackFabric::new();
    let (a, b) = (Side::new(&fabric, 1), Side::new(&fabric, 2));
    b.listen();
    let call = Call::new(ip(2), SERVICE, Qpn::new(0x42), Psn::new(0x77));
    let id_a = a.node.device.cm().connect_only(&call, &a.channel, CALLER).expect("a call");
    settle(&[&a.node, &b.node]);
    let id_b = request(b.event());
    let acceptance =
        Acceptance { ack_timeout: Some(9), ..Acceptance::new(Qpn::new(0x43), Psn::new(0x99)) };
    let called = b.node.device.cm().link_with(id_b, &acceptance).expect("it waits");
    b.node.device.cm().accept_only(id_b, &acceptance).expect("it waits");
    assert!(a.node.device.cm().establish(id_a).is_err(), "nobody has accepted yet");
    settle(&[&a.node, &b.node]);
    let CmEventKind::Accepted { link: caller, .. } = a.event().kind else { panic!("accepted") };
    assert_eq!((caller.remote_qpn, called.remote_qpn), (Qpn::new(0x43), Qpn::new(0x42)));
    assert_eq!((caller.rq_psn, caller.sq_psn), (called.sq_psn, called.rq_psn));
    assert_eq!((caller.ack_timeout, called.ack_timeout), (17, 9));
    assert!(b.channel.try_event().is_none(), "the caller is not ready");
    a.node.device.cm().establish(id_a).expect("it was accepted");
    settle(&[&a.node, &b.node]);
    assert!(is_established(&b.event()));
    a.node.device.cm().disconnect(id_a, &[]).expect("it stands");
    settle(&[&a.node, &b.node]);
    assert!(matches!(b.event().kind, CmEventKind::Disconnected { .. }));
}

/// The peer accepts, and takes it back at once: both messages are in one batch.
#[test]
fn a_rep_and_a_rej_in_one_batch() {
    let fabric = LoopbackFabric::new();
    let a = Side::new(&fabric, 1);
    let mut peer = Peer::new(&fabric);
    let qa = a.node.qp(QpType::Rc);
    let call = Call::new(ip(PEER), SERVICE, qa, Psn::new(0x77));
    a.node.device.cm().connect(&call, &a.channel, CALLER).expect("a call");
    settle(&[&a.node]);
    peer.cm.listen(Duration::ZERO, SERVICE, 4).expect("free");
    let req = peer.wire.received().pop().expect("a REQ");
    peer.cm.handle_mad(Duration::ZERO, ip(1), &req[20..][..MAD_LEN]).expect("let in");
    let Some(uroce_device::cm::Event::Request { id, .. }) = peer.cm.poll_event() else { panic!() };
    let acceptance = Acceptance::new(Qpn::new(0x55), Psn::new(1));
    peer.cm.accept(Duration::ZERO, id, &acceptance).expect("accepted");
    let rep = peer.cm.poll_transmit().expect("a REP");
    let mut rej = rep.bytes;
    rej[16..18].copy_from_slice(&[0, 0x12]); // REJ
    rej[24 + 8..].fill(0);
    rej[24 + 8] = 2 << 6; // of something else
    rej[24 + 11] = 4; // timeout
    peer.wire.inject(ip(PEER), ip(1), mad_packet(&rep.bytes, GOOD));
    peer.wire.inject(ip(PEER), ip(1), mad_packet(&rej, GOOD));
    peer.wire.deliver(&a.node);
    let mut heard = vec![];
    while let Some(event) = a.channel.try_event() {
        heard.push(format!("{:?}", event.kind).chars().take(12).collect::<String>());
    }
    assert!(!heard.iter().any(|event| event.starts_with("Established")), "{heard:?}");
}

/// A stranger calls and takes its call back, while the application is busy.
#[test]
fn calls_that_are_taken_back_do_not_pile_up_in_the_channel() {
    let fabric = LoopbackFabric::new();
    let clock = VirtualClock::new();
    let b = Side::of(Node::on_clock(&fabric, 2, &clock));
    b.listen(); // a backlog of 4
    let mut peer = Peer::new(&fabric);
    let (_, req) = peer.call(&b.node);
    for n in 1..=10_000u32 {
        let mut bytes = req[0].bytes;
        bytes[24..28].copy_from_slice(&n.to_be_bytes());
        peer.wire.inject(ip(PEER), ip(2), mad_packet(&bytes, GOOD));
        let mut rej = bytes;
        rej[16..18].copy_from_slice(&[0, 0x12]); // REJ
        rej[24 + 4..].fill(0);
        rej[24 + 9] = 8 << 1; // length of the GUID
        rej[24 + 11] = 4; // timeout
        rej[24 + 12..][..8].copy_from_slice(&bytes[24 + 16..][..8]);
        peer.wire.inject(ip(PEER), ip(2), mad_packet(&rej, GOOD));
        peer.wire.deliver(&b.node);
        clock.advance(Duration::from_millis(1));
    }
    let (mut requests, mut others) = (0, 0);
    while let Some(event) = b.channel.try_event() {
        match event.kind {
            CmEventKind::ConnectRequest(_) => requests += 1,
            _ => others += 1,
        }
    }
    assert!(requests <= 4 && others <= 4, "{requests} requests and {others} other events wait");
}

/// A stranger asks for a service, again and again, whose application is busy.
#[test]
fn questions_that_nobody_answers_do_not_pile_up_in_the_channel() {
    let fabric = LoopbackFabric::new();
    let clock = VirtualClock::new();
    let b = Side::of(Node::on_clock(&fabric, 2, &clock));
    let service = ServiceId::new(PortSpace::Udp, 9);
    b.node.device.cm().listen(service, 4, &b.channel, LISTENER).expect("free");
    let mut peer = Peer::new(&fabric);
    for _ in 0..5 {
        for _ in 0..4 {
            let question = Question::new(ip(2), service);
            peer.cm.resolve(Duration::ZERO, &question).expect("a question");
        }
        let asked: Vec<_> = std::iter::from_fn(|| peer.cm.poll_transmit()).collect();
        peer.send(&b.node, &asked);
        // The application may think about each for a minute.
        clock.advance(Duration::from_secs(61));
        b.node.poll();
    }
    let waiting: Vec<_> = std::iter::from_fn(|| b.channel.try_event()).collect();
    assert!(waiting.len() <= 4, "{} events wait", waiting.len());
}

/// A listener goes to another channel while a request waits in the old one: what follows of that connection comes to the new one.
#[test]
fn a_request_that_was_not_fetched_moves_with_its_listener() {
    let (a, b, _, qb) = called();
    let channel = CmChannel::new().expect("eventfd");
    b.node.device.cm().move_listener(SERVICE, &channel, 77);
    let request = channel.try_event().expect("the request");
    assert_eq!(request.cookie, 77);
    let acceptance = Acceptance::new(qb, Psn::new(0x99));
    b.node.device.cm().accept(request.id, &acceptance).expect("accepted");
    settle(&[&a.node, &b.node]);
    let established = channel.try_event().expect("an event at the new channel");
    assert!(is_established(&established) && established.cookie == 77, "{established:?}");
    assert!(b.channel.try_event().is_none());
}
