//! Connections by address and port.

use std::net::SocketAddr;

use uroce_verbs::*;

use crate::common::{COMPLETION_TIMEOUT, MOMENT, Net, Side, on_both, pattern};

on_both!(
    a_connection_carries_data_and_ends_at_both_ends,
    nobody_listens,
    a_request_is_refused_or_forgotten,
    private_data_and_depths_reach_the_other_side,
    a_service_of_datagrams_is_found_and_used,
    a_dropped_id_ends_its_connection,
    many_calls_to_one_listener,
    a_request_that_was_fetched_leaves_the_backlog,
    a_dropped_listener_refuses_the_requests_that_nobody_has_fetched,
    x6_an_initiator_calls_a_target,
);

fn event(channel: &EventChannel) -> CmEvent {
    channel.next_event(Some(COMPLETION_TIMEOUT)).expect("poll").expect("an event in time")
}

/// A device with everything, and a channel.
struct End {
    side: Side,
    channel: EventChannel,
}

impl End {
    fn new(net: &Net) -> End {
        End::of(net, QpType::Rc)
    }

    fn of(net: &Net, qp_type: QpType) -> End {
        let side = Side::new(net, qp_type);
        let channel = side.context.create_event_channel().expect("a channel");
        End { side, channel }
    }

    fn listen(&self) -> (CmId, SocketAddr) {
        let id = self.channel.create_id(PortSpace::Tcp);
        let address = id.listen(0, 64).expect("a port");
        (id, address)
    }

    /// Address and route resolved.
    fn ready(&self, space: PortSpace, to: SocketAddr) -> CmId {
        let id = self.channel.create_id(space);
        id.resolve_addr(to).expect("our IP version");
        let resolved = event(&self.channel);
        assert!(resolved.id.is(&id) && resolved.kind == CmEventKind::AddrResolved);
        id.resolve_route().expect("an address");
        assert_eq!(event(&self.channel).kind, CmEventKind::RouteResolved);
        id
    }

    fn call(&self, to: SocketAddr, param: &ConnParam) -> CmId {
        let id = self.ready(PortSpace::Tcp, to);
        id.connect(&self.side.qp, param).expect("a call");
        id
    }

    fn established(&self) -> Box<[u8]> {
        match event(&self.channel).kind {
            CmEventKind::Established { private_data, .. } => private_data,
            other => panic!("established expected, not {other:?}"),
        }
    }

    fn ended(&self) {
        let kind = event(&self.channel).kind;
        assert!(matches!(kind, CmEventKind::Disconnected { .. }), "{kind:?}");
        assert_eq!(self.side.qp.state(), QpState::Err);
    }
}

/// Two connected ends: the ids, the listener last.
fn connected(a: &End, b: &End) -> (CmId, CmId, CmId) {
    let (listener, address) = b.listen();
    let caller = a.call(address, &ConnParam::default());
    let request = event(&b.channel);
    assert!(request.listener.as_ref().is_some_and(|found| found.is(&listener)));
    request.id.accept(&b.side.qp, &ConnParam::default()).expect("accepted");
    a.established();
    b.established();
    (caller, request.id, listener)
}

fn a_connection_carries_data_and_ends_at_both_ends(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let (caller, called, _listener) = connected(&a, &b);
    a.side.mr.write(0, &pattern(5_000, 3)).expect("inside");
    b.side.recv(1, 0..5_000);
    a.side.send(SendWr::send(2, &[a.side.mr.sge(..5_000)]).signaled());
    a.side.done();
    assert_eq!(b.side.done().byte_len, 5_000);
    assert_eq!(b.side.bytes(0, 5_000), pattern(5_000, 3));
    b.side.send(SendWr::read(3, &[b.side.mr.sge(..100)], a.side.mr.remote()).signaled());
    b.side.done();
    called.disconnect().expect("it stands");
    a.ended();
    b.ended();
    assert_eq!(event(&a.channel).kind, CmEventKind::TimewaitExit);
    let last = event(&b.channel);
    assert!(last.kind == CmEventKind::TimewaitExit && last.id.is(&called));
    assert!(matches!(caller.disconnect(), Err(CmIdError::Cm(CmError::NoSuchConnection(_)))));
}

fn nobody_listens(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let _id = a.call(SocketAddr::new(b.side.context.address(), 1), &ConnParam::default());
    let CmEventKind::Rejected { reason, .. } = event(&a.channel).kind else { panic!("refused") };
    assert_eq!(reason, RejReason::INVALID_SERVICE_ID);
    assert!(reason.to_string().contains("nobody listens"));
    assert_eq!(a.side.qp.state(), QpState::Init);
}

fn a_request_is_refused_or_forgotten(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let (_listener, address) = b.listen();
    let _first = a.call(address, &ConnParam::default());
    event(&b.channel).id.reject(b"go away").expect("it waits");
    let CmEventKind::Rejected { reason, private_data, .. } = event(&a.channel).kind else {
        panic!("refused");
    };
    assert_eq!((reason, &private_data[..7]), (RejReason::CONSUMER, &b"go away"[..]));
    let _second = a.call(address, &ConnParam::default());
    drop(event(&b.channel));
    assert!(matches!(event(&a.channel).kind, CmEventKind::Rejected { .. }));
}

fn private_data_and_depths_reach_the_other_side(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let (_listener, address) = b.listen();
    let param = ConnParam {
        private_data: b"from a".to_vec(),
        initiator_depth: 3,
        responder_resources: 5,
        ..ConnParam::default()
    };
    let _caller = a.call(address, &param);
    let request = event(&b.channel);
    let CmEventKind::ConnectRequest(asked) = &request.kind else { panic!("a request") };
    assert_eq!((&asked.private_data[..6], asked.private_data.len()), (&b"from a"[..], 56));
    assert_eq!((asked.responder_resources, asked.initiator_depth), (3, 5));
    assert_eq!(asked.remote, a.side.context.address());
    let param = ConnParam { private_data: b"from b".to_vec(), ..ConnParam::default() };
    request.id.accept(&b.side.qp, &param).expect("accepted");
    assert_eq!(&a.established()[..6], b"from b");
    b.established();
    let depths = |side: &Side| {
        let attr = side.qp.query().expect("it exists");
        (attr.max_rd_atomic, attr.max_dest_rd_atomic)
    };
    assert_eq!((depths(&a.side), depths(&b.side)), ((3, 5), (5, 3)));
}

fn a_service_of_datagrams_is_found_and_used(net: &Net) {
    let (a, b) = (Side::new(net, QpType::Ud), Side::new(net, QpType::Ud));
    let (ends_a, ends_b) =
        [&a, &b].map(|side| side.context.create_event_channel().expect("one")).into();
    let listener = ends_b.create_id(PortSpace::Udp);
    let address = listener.listen(0, 4).expect("a port");
    for side in [&a, &b] {
        side.qp.activate(RDMA_UDP_QKEY).expect("RTS");
    }
    let id = ends_a.create_id(PortSpace::Udp);
    id.resolve_addr(address).expect("our IP version");
    id.resolve_service(b"name?").expect("a question");
    let request = event(&ends_b);
    assert!(matches!(&request.kind, CmEventKind::ResolveRequest { private_data, .. }
        if private_data.starts_with(b"name?")));
    request.id.answer(&b.qp, RDMA_UDP_QKEY, b"b").expect("it waits");
    assert_eq!(event(&ends_a).kind, CmEventKind::AddrResolved);
    let CmEventKind::Resolved { status, qpn, qkey, private_data } = event(&ends_a).kind else {
        panic!("an answer");
    };
    assert_eq!((status, &private_data[..2]), (SidrStatus::VALID, &b"b\0"[..]));
    b.recv(1, 0..140);
    let ah = a.pd.create_ah(address.ip()).expect("a way");
    a.mr.write(0, b"datagram").expect("inside");
    a.send(SendWr::send(2, &[a.mr.sge(..8)]).to(&ah, qpn, qkey).signaled());
    assert_eq!(b.done().byte_len, 40 + 8);
}

fn a_dropped_id_ends_its_connection(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let (caller, _called, _listener) = connected(&a, &b);
    drop(caller);
    b.ended();
    assert_eq!(a.side.qp.state(), QpState::Err);
    assert!(a.channel.next_event(Some(MOMENT)).expect("poll").is_none());
}

fn many_calls_to_one_listener(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let (_listener, address) = b.listen();
    let qp = |end: &End| {
        let side = &end.side;
        side.pd.qp_builder(QpType::Rc, &side.cq, &side.cq).build().expect("a QP")
    };
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let (id, qp) = (a.ready(PortSpace::Tcp, address), qp(&a));
            id.connect(&qp, &ConnParam::default()).expect("a call");
            (id, qp)
        })
        .collect();
    let called: Vec<_> = (0..32)
        .map(|_| {
            let (request, qp) = (event(&b.channel), qp(&b));
            request.id.accept(&qp, &ConnParam::default()).expect("accepted");
            (request.id, qp)
        })
        .collect();
    for _ in 0..32 {
        a.established();
    }
    let stands = |(_, qp): &(CmId, QueuePair)| qp.state() == QpState::Rts;
    assert!(callers.iter().all(stands) && called.iter().all(stands));
}

/// Some calls of `a`, each with a queue pair of its own.
fn calls<const N: usize>(a: &End, to: SocketAddr) -> [(CmId, QueuePair); N] {
    [(); N].map(|()| {
        let (id, side) = (a.ready(PortSpace::Tcp, to), &a.side);
        let qp = side.pd.qp_builder(QpType::Rc, &side.cq, &side.cq).build().expect("a QP");
        id.connect(&qp, &ConnParam::default()).expect("a call");
        (id, qp)
    })
}

fn a_request_that_was_fetched_leaves_the_backlog(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let listener = b.channel.create_id(PortSpace::Tcp);
    let address = listener.listen(0, 1).expect("a port");
    let _requests = [(); 3].map(|()| {
        let call = calls::<1>(&a, address);
        let request = event(&b.channel);
        assert!(request.kind.is_request(), "{:?}", request.kind);
        (call, request)
    });
}

fn a_dropped_listener_refuses_the_requests_that_nobody_has_fetched(net: &Net) {
    let (a, b) = (End::new(net), End::new(net));
    let listener = b.channel.create_id(PortSpace::Tcp);
    let address = listener.listen(0, 1).expect("a port");
    let [(first, _), (second, _)] = &calls(&a, address);
    let refused = || {
        let CmEvent { id, kind, .. } = event(&a.channel);
        let CmEventKind::Rejected { reason, .. } = kind else { panic!("refused, not {kind:?}") };
        (id, reason)
    };
    let (id, reason) = refused();
    assert!(id.is(second) && reason == RejReason::NO_RESOURCES, "the first one waits: {reason}");
    drop(listener);
    let (id, reason) = refused();
    assert!(id.is(first) && reason == RejReason::CONSUMER, "{reason}");
}

#[test]
fn events_are_taken_once() {
    let net = Net::fabric();
    let end = End::new(&net);
    assert!(end.channel.try_event().is_none());
    let id = end.channel.create_id(PortSpace::Tcp);
    id.resolve_addr("10.0.0.77:5".parse().expect("an address")).expect("our IP version");
    assert!(end.channel.try_event().is_some());
    assert!(end.channel.next_event(Some(MOMENT)).expect("poll").is_none());
}

#[test]
fn misuse_is_explained() {
    let net = Net::fabric();
    let (a, b) = (End::new(&net), End::new(&net));
    let id = a.channel.create_id(PortSpace::Tcp);
    let param = ConnParam::default();
    assert_eq!(id.connect(&a.side.qp, &param), Err(CmIdError::NotResolved));
    assert_eq!(id.accept(&a.side.qp, &param), Err(CmIdError::NotConnected));
    assert!(matches!(id.connect(&b.side.qp, &param), Err(CmIdError::Foreign(_))));
    assert!(matches!(id.resolve_service(&[]), Err(CmIdError::WrongSpace { .. })));
    let v6 = id.resolve_addr("[::1]:5".parse().expect("an address"));
    assert!(v6.expect_err("not our version").to_string().contains("IP version"));
    let (listener, address) = b.listen();
    assert_eq!(listener.listen(0, 1), Err(CmIdError::InUse));
    let second = b.channel.create_id(PortSpace::Tcp).listen(address.port(), 1);
    assert!(second.expect_err("taken").to_string().contains("is taken"));
    drop(listener);
    assert!(b.channel.create_id(PortSpace::Tcp).listen(address.port(), 1).is_ok());
    id.resolve_addr(address).expect("our IP version");
    let long = ConnParam { private_data: vec![0; 57], ..param };
    let text = id.connect(&a.side.qp, &long).expect_err("too long").to_string();
    assert!(text.contains("57") && text.contains("56"), "{text}");
}

fn x6_an_initiator_calls_a_target(net: &Net) {
    let (a, b) = (End::of(net, QpType::XrcIni), End::new(net));
    let (_listener, address) = b.listen();
    let call = a.call(address, &ConnParam::default());
    let request = event(&b.channel);
    let CmEventKind::ConnectRequest(asked) = &request.kind else { panic!("a request") };
    assert_eq!(asked.remote_qpn, a.side.qp.qpn());
    let domain = b.side.context.open_xrcd().unwrap();
    let srq = b.side.pd.create_xrc_srq(&domain, &b.side.cq, 4, 1).unwrap();
    srq.post_recv(&[RecvWr::new(7, &[b.side.mr.sge(..64)])]).unwrap();
    let target = domain.create_target().unwrap();
    let wrong = request.id.accept(&a.side.qp, &ConnParam::default());
    assert!(wrong.is_err(), "a queue pair of another device");
    request.id.accept(&target, &ConnParam::default()).expect("it waits");
    a.established();
    b.established();
    a.side.send(SendWr::send(1, &[]).inline(b"called").to_srq(srq.number()).signaled());
    a.side.done();
    let wc = b.side.done();
    assert_eq!((wc.wr_id, wc.byte_len, wc.qpn), (7, 6, target.qpn().get()));
    let again = b.ready(PortSpace::Tcp, address);
    let error = again.connect(&domain.create_target().unwrap(), &ConnParam::default()).unwrap_err();
    assert!(error.to_string().contains("XRC_INI"), "{error}");
    call.disconnect().expect("it stands");
}
