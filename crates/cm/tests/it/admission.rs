//! Who is let in, who is not, and what a flood costs.

use std::net::IpAddr;
use std::time::Duration;

use uroce_cm::message::*;
use uroce_cm::*;
use uroce_wire::{DropReason, Gid, Qpn};

use crate::world::flood::{Flood, req_of, source};
use crate::world::*;

/// B refuses this REQ of A with `reason`, and nothing stays.
fn refused(change: impl FnOnce(&mut Req), reason: RejReason) {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    world.b.receive(world.now, A, &req(change));
    assert_eq!(world.b.drop_reason(), DropReason::CmBadRequest);
    let sent = world.sent_by_b();
    let Message::Rej(rej) = message(&sent[0]) else { panic!("a REJ") };
    assert_eq!((rej.reason, sent.len(), tid(&sent[0])), (reason, 1, 77));
    world.b.quiet();
    world.nothing_is_left();
}

#[test]
fn c6_a22_requests_that_make_no_sense() {
    let foreign = Gid::from_ip(C);
    refused(|req| req.primary.local_gid = foreign, RejReason::INVALID_GID);
    refused(|req| req.primary.remote_gid = foreign, RejReason::INVALID_GID);
    refused(|req| req.transport = TransportService::RD, RejReason::INVALID_TRANSPORT_TYPE);
    for unknown in [0, 2, 7] {
        let extended = |req: &mut Req| {
            (req.transport, req.extended_transport) = (TransportService::EXTENDED, unknown);
        };
        refused(extended, RejReason::INVALID_TRANSPORT_TYPE);
    }
    // The link carries 1024, code 3.
    for mtu in [0, 4, 15] {
        refused(|req| req.path_mtu = mtu, RejReason::INVALID_MTU);
    }
    for qpn in [Qpn::SMI, Qpn::GSI, Qpn::MULTICAST] {
        refused(|req| req.local_qpn = qpn, RejReason::NO_QP);
    }
    refused(|req| req.local_comm_id = CommId::NONE, RejReason::INVALID_COMM_ID);
    refused(|req| req.pkey = 0x2a00, RejReason::UNSUPPORTED);
    let headers = [[1; 92], [0; 92]];
    for header in headers {
        refused(|req| req.private_data = header.into(), RejReason::UNSUPPORTED);
    }
    let ip = IpCm { source_port: 1, source: C, destination: B };
    let forged = PrivateData::new(&ip.write()).expect("it fits");
    refused(|req| req.private_data = forged, RejReason::UNSUPPORTED);
}

#[test]
fn b53_limited_membership_matches_full() {
    for pkey in [0xffff, 0x7fff] {
        let mut world = World::new();
        world.b.cm.listen(world.now, SERVICE, 8).expect("free");
        world.b.receive(world.now, A, &req(|req| req.pkey = pkey));
        assert!(matches!(world.b.event(), Event::Request { .. }));
    }
}

#[test]
fn x6_a_call_for_xrc_is_let_in_and_its_target_is_named_where_the_caller_looks() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    let call = Call { transport: TransportService::EXTENDED, ..call() };
    let caller = world.a.cm.connect(world.now, &call).expect("room");
    let mads = world.sent_by_a();
    let Message::Req(req) = message(&mads[0]) else { panic!("a REQ") };
    assert_eq!((req.transport, req.extended_transport), (TransportService::EXTENDED, 1));
    world.arrive_at_b(&mads);
    let (called, request) = world.request();
    assert_eq!(request.transport, TransportService::EXTENDED);
    let acceptance = acceptance();
    world.b.cm.accept(world.now, called, &acceptance).expect("it waits");
    let mads = world.sent_by_b();
    let Message::Rep(rep) = message(&mads[0]) else { panic!("a REP") };
    assert_eq!((rep.local_qpn, rep.local_eecn), (acceptance.qpn, acceptance.qpn.get()));
    // Others name the target as a context only.
    assert_eq!(Rep { local_qpn: Qpn::SMI, ..rep }.qpn(), acceptance.qpn);
    world.arrive_at_a(&mads);
    let Event::Reply { id, link, .. } = world.a.event() else { panic!("a reply") };
    assert_eq!((id, link.remote_qpn), (caller, acceptance.qpn));
}

#[test]
fn the_backlog_is_exact() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 3).expect("free");
    let ring = |world: &mut World, n: u32| {
        let bytes = req(|req| (req.local_comm_id, req.local_qpn) = (CommId(n), Qpn::new(n)));
        world.b.receive(world.now, A, &bytes);
    };
    (10..13).for_each(|n| ring(&mut world, n));
    assert!(world.b.drops.is_empty());
    ring(&mut world, 13);
    assert_eq!(world.b.drop_reason(), DropReason::CmBacklog);
    let Message::Rej(rej) = message(&world.sent_by_b()[0]) else { panic!("a REJ") };
    assert_eq!(rej.reason, RejReason::NO_RESOURCES);
    // One that is decided makes room.
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    ring(&mut world, 14);
    assert!(world.b.drops.is_empty());
    assert_eq!(world.b.events.len(), 3);
}

#[test]
fn a_request_that_was_fetched_leaves_the_backlog_and_stays_half_open() {
    let limits = CmLimits { max_half_open_per_source: 2, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    let mut ring = |n: u32| {
        world.b.receive(world.now, source(1), &req_of(source(1), n));
        let Some(Event::Request { id, .. }) = world.b.events.pop_front() else { return false };
        world.b.cm.note_fetched(id);
        true
    };
    assert_eq!(
        [100, 101, 102].map(&mut ring),
        [true, true, false],
        "a source has its share and no more"
    );
    assert_eq!((world.b.drop_reason(), world.b.cm.half_open()), (DropReason::CmBacklog, 2));
}

#[test]
fn a21_a_flood_of_forged_requests_stays_within_the_limits() {
    let limits = CmLimits::default();
    let mut world = World::with_limits(limits);
    world.b.cm.listen(world.now, SERVICE, 10_000).expect("free");
    // A has been connected before.
    let a = world.a.cm.connect(world.now, &call()).expect("a call");
    world.exchange();
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    world.a.event();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.exchange();
    world.b.event();

    let mut flood = Flood::new();
    // A fifth of a second at 10^6 requests per second; the application decides nothing.
    let mut admitted = 0;
    for _ in 0..200 {
        for _ in 0..1_000 {
            let (peer, bytes) = flood.next();
            admitted += usize::from(world.b.cm.handle_mad(world.now, peer, &bytes).is_ok());
        }
        world.now += Duration::from_millis(1);
        while world.b.cm.poll_event().is_some() {}
        let answers = std::iter::from_fn(|| world.b.cm.poll_transmit()).count();
        assert_eq!(answers, 0, "strangers get no answer when the device is full");
    }
    let room = limits.max_half_open - limits.max_half_open / 4;
    assert_eq!((admitted, world.b.cm.half_open()), (room, room));
    // Who is known comes through at once.
    let second = Call { qpn: Qpn::new(0x444), ..call() };
    let again = world.a.cm.connect(world.now, &second).expect("a call");
    world.exchange();
    let (b, _) = world.request();
    let acceptance = Acceptance { qpn: Qpn::new(0x555), ..acceptance() };
    world.b.cm.accept(world.now, b, &acceptance).expect("it waits");
    world.exchange();
    assert!(matches!(world.a.event(), Event::Reply { id, .. } if id == again));
    // When the flood is over, so are its traces.
    world.pass(limits.decision_time + Duration::from_secs(60));
    assert_eq!(world.b.cm.half_open(), 0);
}

#[test]
fn a21_one_source_has_its_share_and_no_more() {
    let limits = CmLimits { max_half_open_per_source: 4, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    world.b.cm.listen(world.now, SERVICE, 100).expect("free");
    for n in 100..106 {
        world.b.receive(world.now, source(1), &req_of(source(1), n));
    }
    assert_eq!((world.b.events.len(), &world.b.drops[..]), (4, &[DropReason::CmBacklog; 2][..]));
    world.b.receive(world.now, source(2), &req_of(source(2), 200));
    assert_eq!(world.b.events.len(), 5);
}

#[test]
fn a21_requests_per_second_are_exact() {
    let limits = CmLimits { requests_per_source: 7, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    for n in 1..=9 {
        world.b.receive(world.now, source(1), &req_of(source(1), n));
    }
    let limited = world.b.drops.iter().filter(|why| **why == DropReason::CmRateLimit).count();
    assert_eq!((limited, world.b.drops.len()), (2, 9));
    // B51: what belongs to a connection needs no share.
    world.b.drops.clear();
    assert_eq!(world.sent_by_b().len(), 7, "a REJ each");
}

/// B51: RTU and DREQ are not behind the budget of requests.
#[test]
fn b51_what_belongs_to_a_connection_passes_a_full_budget() {
    let limits = CmLimits { requests_per_source: 1, requests_per_second: 1, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    let (a, b, _) = world.reply();
    world.b.receive(world.now, A, &req_of(A, 7));
    assert_eq!(world.b.drop_reason(), DropReason::CmRateLimit);
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.exchange();
    assert!(matches!(world.b.event(), Event::Established { id, .. } if id == b));
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    world.exchange();
    assert!(matches!(world.b.event(), Event::Disconnected { id, .. } if id == b));
}

#[test]
fn a26_answers_to_strangers_are_no_longer_and_no_more_than_allowed() {
    let limits = CmLimits { strays_per_source: 3, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    let dreq = Dreq {
        local_comm_id: CommId(1),
        remote_comm_id: CommId(2),
        remote_qpn: Qpn::new(3),
        private_data: PrivateData::default(),
    };
    for _ in 0..10 {
        world.b.receive(world.now, C, &Mad { tid: 9, message: dreq.into() }.emit());
    }
    let sent = world.sent_by_b();
    assert_eq!(names(&sent), ["DREP"; 3]);
    assert_eq!(world.b.drops, [DropReason::CmUnknownId; 10]);
}

#[test]
fn a21_the_table_is_bounded() {
    let limits = CmLimits { max_connections: 5, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    for n in 0..5 {
        world.a.cm.connect(world.now, &Call { qpn: Qpn::new(50 + n), ..call() }).expect("room");
    }
    let error = world.a.cm.connect(world.now, &call()).expect_err("full");
    assert_eq!(error, CmError::TooMany { limit: 5 });
    world.a.cm.listen(world.now, SERVICE, 100).expect("free");
    let ip = IpCm { source_port: 1, source: B, destination: A };
    let to_a = req(|req| {
        (req.primary.local_gid, req.primary.remote_gid) = (Gid::from_ip(B), Gid::from_ip(A));
        req.private_data = PrivateData::new(&ip.write()).expect("it fits");
    });
    world.a.receive(world.now, B, &to_a);
    assert_eq!(world.a.drop_reason(), DropReason::CmBacklog);
}

#[test]
fn a23_guessed_ids_change_nothing() {
    let mut world = World::new();
    let (a, b) = world.connected();
    let wrong = CommId(b.0 ^ 1);
    let dreq = |local, remote, qpn| {
        Message::Dreq(Dreq {
            local_comm_id: local,
            remote_comm_id: remote,
            remote_qpn: qpn,
            private_data: PrivateData::default(),
        })
    };
    let drep = |local, remote| {
        Drep { local_comm_id: local, remote_comm_id: remote, private_data: PrivateData::default() }
            .into()
    };
    let rej = |local, remote| {
        Message::Rej(Rej {
            local_comm_id: local,
            remote_comm_id: remote,
            message: RejectedMessage::OTHER,
            info_len: 0,
            reason: RejReason::STALE_CONNECTION,
            info: [0; 72],
            private_data: PrivateData::default(),
        })
    };
    let (unknown, peer) = (DropReason::CmUnknownId, DropReason::CmWrongPeer);
    let forgeries: Vec<(IpAddr, Message, DropReason)> = vec![
        (A, dreq(a, wrong, CALLED_QPN), unknown),
        (A, dreq(wrong, b, CALLED_QPN), unknown),
        (A, dreq(a, b, Qpn::new(0x223)), unknown),
        (C, dreq(a, b, CALLED_QPN), peer),
        (A, drep(a, b), DropReason::CmWrongState),
        (C, drep(a, b), peer),
        (A, rej(wrong, b), unknown),
        (A, rej(a, CommId::NONE), unknown),
        (C, rej(a, b), peer),
        (C, rej(a, CommId::NONE), unknown),
    ];
    for (from, message, why) in forgeries {
        world.b.receive(world.now, from, &Mad { tid: 1, message }.emit());
        assert_eq!(world.b.drop_reason(), why, "{message:?} from {from}");
        world.b.quiet();
        assert_eq!(world.b.cm.state(b), Some(State::Established));
    }
}

/// A23: messages of an older connection, under ids that are out of use.
#[test]
fn a23_a_replay_after_timewait_changes_nothing() {
    let mut world = World::new();
    let a = world.call();
    let mut tape = vec![];
    let record = |world: &mut World, tape: &mut Vec<Outgoing>| {
        for _ in 0..4 {
            let (from_a, from_b) = (world.sent_by_a(), world.sent_by_b());
            tape.extend(&from_a);
            world.arrive_at_b(&from_a);
            world.arrive_at_a(&from_b);
        }
    };
    record(&mut world, &mut tape);
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    record(&mut world, &mut tape);
    world.a.cm.establish(a, &[]).expect("a reply waits");
    record(&mut world, &mut tape);
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    record(&mut world, &mut tape);
    assert_eq!(names(&tape), ["REQ", "RTU", "DREQ"]);
    world.pass(Duration::from_secs(10));
    world.b.events.clear();
    // RTU and DREQ find nobody; a REQ is a new call, which the application may refuse.
    world.arrive_at_b(&tape[1..]);
    assert_eq!(std::mem::take(&mut world.b.drops), [DropReason::CmUnknownId; 2]);
    world.b.quiet();
    world.arrive_at_b(&tape[..1]);
    let (fresh, _) = world.request();
    assert_ne!(fresh, b);
}
