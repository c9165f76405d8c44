//! Floods to an application that answers: forged callers cost neither others their calls nor third
//! parties their bandwidth.

use std::net::IpAddr;
use std::time::Duration;

use uroce_cm::message::*;
use uroce_cm::*;
use uroce_wire::{DropReason, Psn, Qpn};

use crate::world::flood::{Flood, req_of, source};
use crate::world::*;

/// The application at B accepts all calls that have come, and forgets those that ended.
fn accept_all(world: &mut World) -> usize {
    world.b.collect();
    let mut accepted = 0;
    while let Some(event) = world.b.events.pop_front() {
        match event {
            Event::Request { id, .. } => {
                let acceptance = Acceptance::new(Qpn::new(9), Psn::new(7));
                accepted += usize::from(world.b.cm.accept(world.now, id, &acceptance).is_ok());
            }
            other => world.b.cm.release(world.now, other.id()),
        }
    }
    accepted
}

/// The fields of a REQ of `peer`.
fn fields_of(peer: IpAddr, n: u32) -> Req {
    match Mad::parse(&req_of(peer, n)).expect("a MAD").message {
        Message::Req(req) => req,
        other => panic!("a REQ, not {}", other.name()),
    }
}

/// A REQ of `peer` that wants our answer within `code`.
fn slow_req(peer: IpAddr, n: u32, code: u8) -> [u8; MAD_LEN] {
    let mut req = fields_of(peer, n);
    (req.local_response_timeout, req.remote_response_timeout) = (code, code);
    Mad { tid: 77, message: req.into() }.emit()
}

#[test]
fn a39_forged_calls_that_are_accepted_lock_nobody_out() {
    for code in [18, 31] {
        let mut world = World::new();
        world.b.cm.listen(world.now, SERVICE, 1_024).expect("free");
        for n in 0..1_024 {
            let from = source(n / 256);
            world.b.receive(world.now, from, &slow_req(from, 1 + n, code));
            accept_all(&mut world);
            world.sent_by_b();
            world.now += Duration::from_millis(1);
        }
        world.b.drops.clear();
        // One more, of a source that nobody has heard of, and then of one of those that were forged.
        for from in [source(99), source(3)] {
            world.b.receive(world.now, from, &req_of(from, 4_000));
            assert_eq!((accept_all(&mut world), &world.b.drops[..]), (1, &[][..]));
            assert_eq!(names(&world.sent_by_b()), ["REP"]);
        }
        let limits = CmLimits::default();
        assert_eq!(world.b.cm.half_open(), limits.max_half_open - limits.max_half_open / 4);
        world.pass(Duration::from_secs(60));
        assert_eq!(world.b.cm.half_open(), 0);
        accept_all(&mut world);
        world.pass(Duration::from_secs(30));
        assert!(world.b.cm.is_empty());
    }
}

/// A forger calls with the longest ACK timeout, is accepted, and takes the call back.
#[test]
fn a39_forged_calls_that_are_taken_back_do_not_fill_the_table_with_timewait() {
    let limits =
        CmLimits { max_connections: 5_000, requests_per_second: 2_000, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    world.b.cm.listen(world.now, SERVICE, 1_024).expect("free");
    for n in 10..8_000 {
        let from = source(n);
        let mut req = fields_of(from, n);
        req.primary.ack_timeout = 31;
        world.b.receive(world.now, from, &Mad { tid: 77, message: req.into() }.emit());
        assert_eq!(accept_all(&mut world), 1, "{n}: {:?}", world.b.drops);
        let mut info = [0; 72];
        info[..8].copy_from_slice(&req.local_ca_guid.to_be_bytes());
        let rej = Rej {
            local_comm_id: req.local_comm_id,
            remote_comm_id: CommId::NONE,
            message: RejectedMessage::REQ,
            info_len: 8,
            reason: RejReason::TIMEOUT,
            info,
            private_data: PrivateData::default(),
        };
        world.b.receive(world.now, from, &Mad { tid: 77, message: rej.into() }.emit());
        world.sent_by_b();
        world.now += Duration::from_micros(500);
        world.fire();
    }
    assert_eq!((&world.b.drops[..], world.b.cm.half_open()), (&[][..], 0));
    assert!(world.b.cm.len() <= 2_001, "{} are left of a second", world.b.cm.len());
    world.pass(Duration::from_secs(2));
    assert!(world.b.cm.is_empty());
}

#[test]
fn a39_connections_that_are_over_make_room_for_new_ones() {
    let limits = CmLimits { max_connections: 5, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    let mut ended = Vec::new();
    for n in 0..20 {
        let call = Call::new(B, SERVICE, Qpn::new(100 + n), Psn::new(0));
        let a = world.a.cm.connect(world.now, &call).expect("the oldest has made room at A");
        world.exchange();
        if n >= 5 {
            assert_eq!(world.b.event(), Event::TimewaitExit { id: ended[n as usize - 5] });
        }
        let (b, _) = world.request();
        let acceptance = Acceptance::new(Qpn::new(200 + n), Psn::new(7));
        world.b.cm.accept(world.now, b, &acceptance).expect("accepted");
        world.exchange();
        world.a.cm.establish(a, &[]).expect("established");
        world.exchange();
        world.a.cm.disconnect(world.now, a, &[]).expect("established");
        world.exchange();
        assert_eq!(world.b.cm.state(b), Some(State::Timewait));
        assert_eq!(world.b.drops, []);
        world.b.events.clear();
        ended.push(b);
        world.now += Duration::from_micros(1);
    }
    assert_eq!((world.a.cm.len(), world.b.cm.len()), (5, 5));
}

#[test]
fn a39_calls_of_a_proven_source_that_are_a_moment_old_are_safe() {
    let mut world = World::new();
    world.connected();
    world.b.cm.unlisten(world.now, SERVICE).expect("it listens");
    world.b.cm.listen(world.now, SERVICE, 1_024).expect("free");
    let call = |world: &mut World, n: u32| {
        world.b.receive(world.now, A, &req_of(A, n));
        accept_all(world);
    };
    (1_000..1_256).for_each(|n| call(&mut world, n));
    call(&mut world, 2_000);
    assert_eq!(world.b.drop_reason(), DropReason::CmBacklog);
    world.now += Duration::from_secs(1);
    call(&mut world, 2_000);
    assert!(world.b.drops.is_empty(), "the oldest made room");
}

#[test]
fn a39_no_time_code_of_the_peer_keeps_a_connection_that_ends() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    world.b.receive(world.now, A, &slow_req(A, 5, 31));
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.b.cm.handle_comm_est(b);
    world.b.cm.disconnect(world.now, b, &[]).expect("it stands");
    world.pass(Duration::from_secs(60));
    assert_eq!(world.b.cm.state(b), Some(State::Timewait));
    world.pass(Duration::from_secs(30));
    assert!(world.b.cm.is_empty());
}

#[test]
fn a40_answered_questions_leave_room_for_connections() {
    let limits = CmLimits { max_connections: 64, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    world.b.cm.listen(world.now, UDP_SERVICE, 8).expect("free");
    world.a.cm.resolve(world.now, &Question::new(B, UDP_SERVICE)).expect("room");
    let Message::SidrReq(mut ask) = message(&world.sent_by_a()[0]) else { panic!("a SIDR_REQ") };
    let answer =
        Answer { status: SidrStatus::VALID, qpn: Qpn::new(7), qkey: 1, private_data: vec![] };
    let (mut last, mut longest) = ([0; MAD_LEN], 0);
    for n in 0..10_000 {
        let from = source(n % 64);
        ask.request_id = 10 + n;
        let ip = IpCm { source_port: 1, source: from, destination: B };
        ask.private_data = PrivateData::new(&ip.write()).expect("it fits");
        last = Mad { tid: 1, message: ask.into() }.emit();
        world.b.receive(world.now, from, &last);
        let Event::Query { id, .. } = world.b.event() else { panic!("a question") };
        world.b.cm.answer(world.now, id, &answer).expect("it waits");
        world.b.cm.release(world.now, id);
        world.sent_by_b();
        longest = longest.max(world.b.cm.len());
        world.now += Duration::from_micros(50);
    }
    assert!((4_000..5_000).contains(&longest), "{longest} entries");
    // Whoever asks again is answered from memory.
    world.b.receive(world.now, source(9_999 % 64), &last);
    assert_eq!((world.b.drop_reason(), world.sent_by_b().len()), (DropReason::CmDuplicate, 1));
    // And there is room for calls, of ours and of others.
    let call = Call::new(A, SERVICE, Qpn::new(0x900), Psn::new(1));
    world.b.cm.connect(world.now, &call).expect("room");
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    world.b.receive(world.now, source(70), &req_of(source(70), 3));
    assert!(matches!(world.b.event(), Event::Request { .. }));
    world.pass(Duration::from_secs(200));
    assert!(world.b.cm.is_empty());
}

#[test]
fn a26_an_accepted_call_of_a_forged_source_draws_one_answer_and_few_repetitions() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1_024).expect("free");
    let mut flood = Flood::new();
    let (packets, mut answers) = (700, 0);
    for _ in 0..packets {
        let (from, bytes) = flood.next();
        world.b.receive(world.now, from, &bytes);
        accept_all(&mut world);
        answers += world.sent_by_b().len();
        world.now += Duration::from_millis(1);
    }
    assert_eq!(answers, packets);
    let mut later = 0;
    for _ in 0..80 {
        later += world.pass(Duration::from_secs(1)).1.len();
        accept_all(&mut world);
        later += world.sent_by_b().len();
    }
    assert!(later <= 61 * 10, "{later} to those who did not ask");
    // A repetition of the REQ draws one each.
    world.b.receive(world.now, C, &req_of(C, 11));
    accept_all(&mut world);
    world.sent_by_b();
    for _ in 0..5 {
        world.b.receive(world.now, C, &req_of(C, 11));
        assert_eq!(names(&world.sent_by_b()), ["REP"]);
    }
}

/// Callers with a round trip of 2 ms while a flood of random sources comes, `per_ms` REQs every
/// millisecond. Returns how long each waited until its connection stood.
fn callers_in_a_flood(
    world: &mut World,
    per_ms: u32,
    caller: impl Fn(u32) -> IpAddr,
) -> Vec<Duration> {
    let mut flood = Flood::new();
    let mut waits = vec![];
    // Who calls, since when, and with its RTU on the way.
    let mut calling: Vec<(IpAddr, u32, Time, Option<Rtu>)> = vec![];
    for ms in 0..400u32 {
        for _ in 0..per_ms {
            let (from, bytes) = flood.next();
            let _ = world.b.cm.handle_mad(world.now, from, &bytes);
        }
        if ms % 10 == 0 && ms < 300 {
            let from = caller(ms);
            calling.push((from, 0x4000_0100 + ms, world.now, None));
            let _ = world.b.cm.handle_mad(world.now, from, &req_of(from, 0x4000_0100 + ms));
        }
        accept_all(world);
        for mad in world.sent_by_b() {
            let Message::Rep(rep) = message(&mad) else { continue };
            let of = calling.iter_mut().find(|call| call.1 == rep.remote_comm_id.0);
            let private_data = PrivateData::default();
            if let Some(call) = of {
                call.3 = Some(Rtu {
                    local_comm_id: rep.remote_comm_id,
                    remote_comm_id: rep.local_comm_id,
                    private_data,
                });
            }
        }
        world.now += Duration::from_millis(2);
        calling.retain(|(from, _, since, rtu)| {
            let Some(rtu) = rtu else { return true };
            let bytes = Mad { tid: 77, message: (*rtu).into() }.emit();
            let stands = world.b.cm.handle_mad(world.now, *from, &bytes).is_ok();
            if stands {
                waits.push(world.now - *since);
            }
            !stands
        });
        world.b.cm.handle_timeout(world.now);
        while let Some(event) = world.b.cm.poll_event() {
            world.b.events.push_back(event);
        }
        world.b.drops.clear();
    }
    waits
}

#[test]
fn a21_new_callers_get_through_a_flood_below_the_common_rate() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1_024).expect("free");
    // 19 000 REQs per second, each accepted at once.
    let waits = callers_in_a_flood(&mut world, 38, |ms| source(0x10_0000 + ms));
    assert_eq!(waits.len(), 30);
    assert!(waits.iter().all(|wait| *wait < Duration::from_secs(1)), "{waits:?}");
}

#[test]
fn a21_proven_callers_get_through_any_flood() {
    let mut world = World::new();
    world.connected();
    world.b.cm.unlisten(world.now, SERVICE).expect("it listens");
    world.b.cm.listen(world.now, SERVICE, 1_024).expect("free");
    // 10^6 REQs per second.
    let waits = callers_in_a_flood(&mut world, 2_000, |_| A);
    assert_eq!(waits.len(), 30);
    assert!(waits.iter().all(|wait| *wait < Duration::from_secs(1)), "{waits:?}");
}
