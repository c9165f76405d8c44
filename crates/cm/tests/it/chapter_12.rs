//! Connection management by the book: which message does what in which state, and what the fields of
//! refusals and requests for patience mean.

use std::net::IpAddr;
use std::time::Duration;

use uroce_cm::message::*;
use uroce_cm::*;
use uroce_wire::{DropReason, Qpn};

use crate::world::*;

/// One end of a connection that stands in some state, and what its peer knows.
struct Case {
    world: World,
    /// The receiver is B.
    called: bool,
    own: CommId,
    theirs: CommId,
    qpn: Qpn,
}

impl Case {
    fn new(called: bool, state: State) -> Case {
        let mut world = World::new();
        let (a, b) = match state {
            State::ReqSent => (world.call(), CommId(0x1234)),
            State::ReqReceived => world.ring(),
            State::RepSent | State::RepReceived => {
                let (a, b, _) = world.reply();
                (a, b)
            }
            _ => world.connected(),
        };
        let (own, theirs) = if called { (b, a) } else { (a, b) };
        let now = world.now;
        let end = if called { &mut world.b } else { &mut world.a };
        if matches!(state, State::DreqSent | State::Timewait) {
            end.cm.disconnect(now, own, &[]).expect("it stands");
        }
        if state == State::Timewait {
            let drep = Drep {
                local_comm_id: theirs,
                remote_comm_id: own,
                private_data: PrivateData::default(),
            };
            let from = if called { A } else { B };
            end.receive(now, from, &Mad { tid: 1, message: drep.into() }.emit());
        }
        assert_eq!(end.cm.state(own), Some(state));
        end.collect();
        end.events.clear();
        while end.cm.poll_transmit().is_some() {}
        let qpn = match (called, state) {
            (true, State::ReqReceived) => Qpn::new(0),
            (true, _) => CALLED_QPN,
            (false, _) => CALLER_QPN,
        };
        Case { world, called, own, theirs, qpn }
    }

    /// The message `name` of the peer, under these ids.
    fn message(&self, name: &str, [local, remote]: [CommId; 2]) -> [u8; MAD_LEN] {
        let of_req =
            matches!(self.end().cm.state(self.own), Some(State::ReqSent | State::ReqReceived));
        let what = if of_req { RejectedMessage::REQ } else { RejectedMessage::OTHER };
        let (local_comm_id, remote_comm_id) = (local, remote);
        let message: Message = match name {
            "REQ" => return req(|req| req.local_comm_id = local),
            "MRA" => {
                let of_req = of_req && !self.called;
                Mra {
                    local_comm_id,
                    remote_comm_id,
                    message: if of_req { RejectedMessage::REQ } else { RejectedMessage::REP },
                    service_timeout: 10,
                    private_data: PrivateData::default(),
                }
                .into()
            }
            "REJ" => Rej {
                local_comm_id,
                remote_comm_id,
                message: what,
                info_len: 0,
                reason: RejReason::CONSUMER,
                info: [0; 72],
                private_data: PrivateData::default(),
            }
            .into(),
            "REP" => {
                let mut world = World::new();
                let (_, b) = world.ring();
                world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
                let Message::Rep(rep) = message(&world.sent_by_b()[0]) else { panic!("a REP") };
                Rep { local_comm_id, remote_comm_id, ..rep }.into()
            }
            "RTU" => {
                Rtu { local_comm_id, remote_comm_id, private_data: PrivateData::default() }.into()
            }
            "DREQ" => Dreq {
                local_comm_id,
                remote_comm_id,
                remote_qpn: self.qpn,
                private_data: PrivateData::default(),
            }
            .into(),
            _ => {
                Drep { local_comm_id, remote_comm_id, private_data: PrivateData::default() }.into()
            }
        };
        Mad { tid: 9, message }.emit()
    }

    fn end(&self) -> &End {
        if self.called { &self.world.b } else { &self.world.a }
    }

    fn receive(&mut self, from: IpAddr, bytes: &[u8]) {
        let now = self.world.now;
        let end = if self.called { &mut self.world.b } else { &mut self.world.a };
        end.receive(now, from, bytes);
    }

    fn peer(&self) -> IpAddr {
        if self.called { A } else { B }
    }
}

const MESSAGES: [&str; 7] = ["REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP"];

/// The state after each of the messages; `None` stands for the same one.
type Row = (bool, State, [Option<State>; 7]);

const TW: Option<State> = Some(State::Timewait);
const OVER: Option<State> = Some(State::Closed);
const UP: Option<State> = Some(State::Established);

/// 12.9.7: both sides, with the ids that fit.
const TABLE: [Row; 10] = [
    (false, State::ReqSent, [None, None, OVER, Some(State::RepReceived), None, None, None]),
    (false, State::RepReceived, [None, None, TW, None, None, TW, None]),
    (false, State::Established, [None, None, TW, None, None, TW, None]),
    (false, State::DreqSent, [None, None, TW, None, None, TW, TW]),
    (false, State::Timewait, [None; 7]),
    (true, State::ReqReceived, [None, None, OVER, None, None, None, None]),
    (true, State::RepSent, [None, None, TW, None, UP, TW, None]),
    (true, State::Established, [None, None, TW, None, None, TW, None]),
    (true, State::DreqSent, [None, None, TW, None, None, TW, TW]),
    (true, State::Timewait, [None; 7]),
];

#[test]
fn c1_what_each_message_does_in_each_state() {
    for (called, state, row) in TABLE {
        for (name, wanted) in MESSAGES.iter().zip(row) {
            // A REQ comes to the called side only.
            if *name == "REQ" && !called {
                continue;
            }
            let mut case = Case::new(called, state);
            let bytes = case.message(name, [case.theirs, case.own]);
            case.receive(case.peer(), &bytes);
            let found = case.end().cm.state(case.own).unwrap_or(State::Closed);
            assert_eq!(
                found,
                wanted.unwrap_or(state),
                "{name} in {}, called: {called}",
                state.name()
            );
        }
    }
}

/// The same messages from the peer's own address, but with an id that is wrong, or from somebody else.
#[test]
fn c2_a23_no_message_with_a_wrong_id_or_source_does_anything_in_any_state() {
    for (called, state, _) in TABLE {
        for name in &MESSAGES[1..] {
            let ids = |case: &Case| {
                let wrong = |id: CommId| CommId(id.0 ^ 0x40);
                [
                    ([case.theirs, wrong(case.own)], case.peer()),
                    ([wrong(case.theirs), case.own], case.peer()),
                    ([case.theirs, case.own], C),
                ]
            };
            for n in 0..3 {
                let mut case = Case::new(called, state);
                let (ids, from) = ids(&case)[n];
                // A caller does not know the id of the called side before the REP: REJ and MRA are answers to
                // its REQ by its own id.
                if state == State::ReqSent && n == 1 {
                    continue;
                }
                let bytes = case.message(name, ids);
                case.receive(from, &bytes);
                let place = format!("{name} in {}, called: {called}, {n}", state.name());
                assert_eq!(case.end().cm.state(case.own), Some(state), "{place}");
                assert!(case.end().events.is_empty(), "{place}");
                assert!(!case.end().drops.is_empty(), "{place}");
            }
        }
    }
}

#[test]
fn c3_a_refused_path_mtu_comes_with_the_largest_and_the_caller_calls_again_with_it() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    // B's link carries 1024 bytes, code 3.
    let a = world.a.cm.connect(world.now, &Call { path_mtu: 5, ..call() }).expect("a call");
    let req = world.sent_by_a();
    world.arrive_at_b(&req);
    assert_eq!(world.b.drop_reason(), DropReason::CmBadRequest);
    let refusal = world.sent_by_b();
    let Message::Rej(rej) = message(&refusal[0]) else { panic!("a REJ") };
    assert_eq!((rej.reason, rej.info_len, rej.largest_mtu()), (RejReason::INVALID_MTU, 1, Some(3)));
    world.arrive_at_a(&refusal);
    world.a.quiet();
    let again = world.sent_by_a();
    let Message::Req(smaller) = message(&again[0]) else { panic!("a REQ") };
    assert_eq!((smaller.path_mtu, smaller.local_comm_id), (3, a));
    world.arrive_at_b(&again);
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    let Event::Reply { link, .. } = world.a.event() else { panic!("a reply") };
    assert_eq!(link.path_mtu, 3);
}

#[test]
fn c3_a_second_copy_of_the_refusal_of_a_path_mtu_does_not_end_the_call() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    let a = world.a.cm.connect(world.now, &Call { path_mtu: 5, ..call() }).expect("a call");
    let req = world.sent_by_a();
    // The network has doubled the REQ.
    world.arrive_at_b(&req);
    world.arrive_at_b(&req);
    let refusals = world.sent_by_b();
    assert_eq!(refusals.len(), 2);
    world.arrive_at_a(&refusals);
    assert_eq!(world.a.drop_reason(), DropReason::CmDuplicate);
    world.exchange();
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    assert!(matches!(world.a.event(), Event::Reply { id, .. } if id == a));
}

#[test]
fn c3_a_refused_path_mtu_without_a_smaller_one_ends_the_call() {
    for (info_len, byte) in [(0, 0x30), (1, 0x00), (1, 0x30), (1, 0x40), (1, 0x0f), (1, 0xf0)] {
        let mut world = World::new();
        let a = world.call();
        world.sent_by_a();
        let mut info = [0; 72];
        info[0] = byte;
        let rej = Rej {
            local_comm_id: CommId::NONE,
            remote_comm_id: a,
            message: RejectedMessage::REQ,
            info_len,
            reason: RejReason::INVALID_MTU,
            info,
            private_data: PrivateData::default(),
        };
        world.a.receive(world.now, B, &Mad { tid: 1, message: rej.into() }.emit());
        let Event::Rejected { reason, ari, .. } = world.a.event() else { panic!("refused") };
        assert_eq!(
            (reason, ari.bytes()),
            (RejReason::INVALID_MTU, &[byte][..usize::from(info_len)])
        );
        assert_eq!((world.a.cm.state(a), world.sent_by_a()), (None, vec![]));
    }
}

/// Half a byte lower: the specification leaves room for both readings.
#[test]
fn c3_the_largest_path_mtu_is_read_in_either_half_of_its_byte() {
    let mut info = [0; 72];
    for (byte, code) in [(0x30, Some(3)), (0x03, Some(3)), (0x50, Some(5)), (0x06, None)] {
        info[0] = byte;
        let rej = Rej {
            local_comm_id: CommId::NONE,
            remote_comm_id: CommId(1),
            message: RejectedMessage::REQ,
            info_len: 1,
            reason: RejReason::INVALID_MTU,
            info,
            private_data: PrivateData::default(),
        };
        assert_eq!(rej.largest_mtu(), code);
    }
}

#[test]
fn c4_mras_together_get_a_message_two_minutes() {
    let mut world = World::new();
    let a = world.call();
    world.sent_by_a();
    let mra = Mra {
        local_comm_id: CommId(5),
        remote_comm_id: a,
        message: RejectedMessage::REQ,
        service_timeout: 31,
        private_data: PrivateData::default(),
    };
    let mra = Mad { tid: 1, message: mra.into() }.emit();
    let begun = world.now;
    world.a.receive(world.now, B, &mra);
    assert_eq!(world.a.cm.poll_timeout(), Some(begun + Duration::from_secs(120)));
    // The peer asks for more every ten seconds, and gets no more.
    while world.a.cm.state(a).is_some() {
        world.pass(Duration::from_secs(10));
        world.a.receive(world.now, B, &mra);
        assert!(world.now < begun + Duration::from_secs(200), "it never ends");
    }
    assert_eq!(world.a.event(), Event::TimedOut { id: a });
}

/// A listener of one kind is asked for the other, which its application could not answer.
#[test]
fn requests_of_the_other_kind_are_refused_before_the_application_sees_them() {
    let at = |space| ServiceId::new(space, 7174);
    for (service, connects, resolves) in [
        (at(PortSpace::Tcp), true, false),
        (at(PortSpace::Udp), false, true),
        (at(PortSpace::Ipoib), false, true),
        (at(PortSpace::Ib), true, true),
        (ServiceId(0x1234_5678_9abc_def0), true, true),
    ] {
        let mut world = World::new();
        world.b.cm.listen(world.now, service, 8).expect("free");
        let a =
            world.a.cm.connect(world.now, &Call { service_id: service, ..call() }).expect("room");
        world.exchange();
        assert_eq!(world.b.cm.len(), usize::from(connects), "{service}");
        if !connects {
            let Event::Rejected { id, reason, .. } = world.a.event() else { panic!("refused") };
            assert_eq!((id, reason), (a, RejReason::INVALID_SERVICE_ID));
            assert_eq!(world.b.drop_reason(), DropReason::CmBadRequest);
            world.b.quiet();
        }
        let mut world = World::new();
        world.b.cm.listen(world.now, service, 8).expect("free");
        world.a.cm.resolve(world.now, &Question::new(B, service)).expect("room");
        world.exchange();
        assert_eq!(world.b.cm.len(), usize::from(resolves), "{service}");
        if !resolves {
            let Event::Resolved { status, .. } = world.a.event() else { panic!("refused") };
            assert_eq!(status, SidrStatus::INVALID_SERVICE_ID);
            assert_eq!(world.b.drop_reason(), DropReason::CmBadRequest);
            world.b.quiet();
        }
    }
}

#[test]
fn c8_a_redirected_question_is_told_as_such() {
    let mut world = World::new();
    let question = Question::new(B, UDP_SERVICE);
    let id = world.a.cm.resolve(world.now, &question).expect("room");
    world.sent_by_a();
    let rep = SidrRep {
        request_id: id.0,
        status: SidrStatus::REDIRECT,
        info_len: 8,
        vendor_id: 0,
        qpn: Qpn::new(0),
        service_id: UDP_SERVICE,
        qkey: 0,
        info: [7; 72],
        private_data: PrivateData::default(),
    };
    world.a.receive(world.now, B, &Mad { tid: 1, message: rep.into() }.emit());
    let Event::Resolved { status, .. } = world.a.event() else { panic!("resolved") };
    assert_eq!(status, SidrStatus::REDIRECT);
}

#[test]
fn c10_the_messages_of_a_connection_have_its_traffic_class() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    // The last two bits are the network's.
    let a = world.a.cm.connect(world.now, &Call { traffic_class: 0x6a, ..call() }).expect("a call");
    let mut seen = vec![];
    for _ in 0..3 {
        let (from_a, from_b) = (world.sent_by_a(), world.sent_by_b());
        seen.extend(from_a.iter().chain(&from_b).map(|mad| mad.traffic_class));
        world.arrive_at_b(&from_a);
        world.arrive_at_a(&from_b);
        while let Some(event) = world.b.events.pop_front() {
            if let Event::Request { id, .. } = event {
                world.b.cm.accept(world.now, id, &acceptance()).expect("it waits");
            }
        }
        if let Some(Event::Reply { .. }) = world.a.events.pop_front() {
            world.a.cm.establish(a, &[]).expect("a reply waits");
        }
    }
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    seen.extend(world.sent_by_a().iter().map(|mad| mad.traffic_class));
    assert!(seen.len() >= 4 && seen.iter().all(|class| *class == 0x68), "{seen:?}");
}

/// What was begun and is never answered leaves nothing, on either side.
#[test]
fn b52_exchanges_whose_answers_are_all_lost_leave_nothing() {
    let mut world = World::new();
    world.ring();
    world.pass(Duration::from_secs(200));
    world.nothing_is_left();
    let mut world = World::new();
    let (a, _, _) = world.reply();
    world.pass(Duration::from_secs(10));
    world.a.cm.release(world.now, a);
    world.pass(Duration::from_secs(300));
    world.nothing_is_left();
    let mut world = World::new();
    let (a, b) = world.connected();
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    world.b.cm.disconnect(world.now, b, &[]).expect("it stands");
    world.pass(Duration::from_secs(300));
    world.nothing_is_left();
}
