//! From REQ to RTU, with everything that can be lost, doubled or late on the way.

use std::time::Duration;

use uroce_cm::message::*;
use uroce_cm::*;
use uroce_wire::{DropReason, Psn, Qpn};

use crate::world::*;

#[test]
fn a_call_is_accepted() {
    let mut world = World::new();
    let (a, b) = world.connected();
    assert_eq!(world.a.cm.state(a), Some(State::Established));
    assert_eq!(world.b.cm.state(b), Some(State::Established));
    assert_eq!((world.a.cm.half_open(), world.b.cm.half_open()), (0, 0));
    assert_eq!(world.next_deadline(), None, "no timer runs while a connection stands");
}

#[test]
fn the_request_tells_the_called_side_what_the_caller_wants() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    let call = Call {
        responder_resources: 3,
        initiator_depth: 5,
        retry_count: 6,
        rnr_retry_count: 2,
        srq: true,
        private_data: b"hello".to_vec(),
        ..call()
    };
    world.a.cm.connect(world.now, &call).expect("a call");
    world.exchange();
    let (_, request) = world.request();
    assert_eq!((request.service_id, request.remote, request.remote_qpn), (SERVICE, A, CALLER_QPN));
    assert_eq!((request.responder_resources, request.initiator_depth), (5, 3));
    assert_eq!((request.retry_count, request.rnr_retry_count, request.srq), (6, 2, true));
    let ip = request.ip.expect("rdma_cm's header");
    assert_eq!((ip.source_port, ip.source, ip.destination), (45_717, A, B));
    assert_eq!((request.private_data.len(), &request.private_data[..5]), (56, &b"hello"[..]));
}

#[test]
fn a_service_that_is_not_rdma_cms_has_all_private_data_for_itself() {
    let mut world = World::new();
    let service_id = ServiceId(0x1234_5678_9abc_def0);
    world.b.cm.listen(world.now, service_id, 1).expect("free");
    let call = Call { service_id, private_data: vec![7; 92], ..call() };
    world.a.cm.connect(world.now, &call).expect("a call");
    world.exchange();
    let (_, request) = world.request();
    assert_eq!((request.ip, &request.private_data[..]), (None, &[7; 92][..]));
    let call = Call { private_data: vec![7; 93], ..call };
    let error = world.a.cm.connect(world.now, &call).expect_err("too long");
    assert_eq!(error, CmError::TooLong(TooLong { got: 93, room: 92 }));
}

#[test]
fn private_data_of_rdma_cm_ends_at_56_bytes() {
    let mut world = World::new();
    let fits = Call { private_data: vec![1; 56], ..call() };
    assert!(world.a.cm.connect(world.now, &fits).is_ok());
    let call = Call { private_data: vec![1; 57], ..call() };
    let error = world.a.cm.connect(world.now, &call).expect_err("too long");
    assert_eq!(error, CmError::TooLong(TooLong { got: 57, room: 56 }));
    assert_eq!(world.a.cm.len(), 1, "a refused command leaves nothing");
}

#[test]
fn r115_both_links_follow_from_req_and_rep() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    let call = Call {
        path_mtu: 2,
        responder_resources: 4,
        initiator_depth: 9,
        retry_count: 3,
        rnr_retry_count: 5,
        traffic_class: 0x68,
        hop_limit: 9,
        ..call()
    };
    let a = world.a.cm.connect(world.now, &call).expect("a call");
    world.exchange();
    let (b, _) = world.request();
    let acceptance = Acceptance {
        responder_resources: 7,
        initiator_depth: 20,
        rnr_retry_count: 1,
        ..acceptance()
    };
    let called = world.b.cm.link_with(b, &acceptance).expect("it waits");
    world.b.cm.accept(world.now, b, &acceptance).expect("it waits");
    world.exchange();
    let Event::Reply { id, link: caller, .. } = world.a.event() else { panic!("a reply") };
    assert_eq!(id, a);
    // Depths cross over, and the smaller one holds.
    assert_eq!((caller.max_rd_atomic, caller.max_dest_rd_atomic), (7, 4));
    assert_eq!((called.max_rd_atomic, called.max_dest_rd_atomic), (4, 7));
    assert_eq!((caller.rnr_retry_count, called.rnr_retry_count), (1, 5));
    assert_eq!(
        (caller.remote, caller.remote_qpn, called.remote, called.remote_qpn),
        (B, CALLED_QPN, A, CALLER_QPN)
    );
    // Who names a PSN expects it: the peer sends from there. (A kernel's rxe insists.)
    assert_eq!((caller.rq_psn, caller.sq_psn), (Psn::new(0xaaa), Psn::new(0xbbb)));
    assert_eq!((called.rq_psn, called.sq_psn), (Psn::new(0xbbb), Psn::new(0xaaa)));
    // Linux 6.12 with rxe puts 17 into the REQ too.
    for link in [caller, called] {
        assert_eq!((link.path_mtu, link.retry_count, link.ack_timeout), (2, 3, 17));
        assert_eq!((link.flow_label, link.traffic_class, link.hop_limit), (0x5bc11, 0x68, 9));
    }
}

#[test]
fn r111_nobody_listens() {
    let mut world = World::new();
    let a = world.a.cm.connect(world.now, &call()).expect("a call");
    let sent = world.sent_by_a();
    world.arrive_at_b(&sent);
    let answer = world.sent_by_b();
    let Message::Rej(rej) = message(&answer[0]) else { panic!("a REJ") };
    assert_eq!((rej.local_comm_id, rej.remote_comm_id), (CommId::NONE, a));
    assert_eq!((tid(&answer[0]), answer.len()), (tid(&sent[0]), 1));
    world.arrive_at_a(&answer);
    let wanted = RejReason::INVALID_SERVICE_ID;
    assert!(
        matches!(world.a.event(), Event::Rejected { id, reason, .. } if id == a && reason == wanted)
    );
    assert_eq!(world.b.drop_reason(), DropReason::CmNoListener);
    world.nothing_is_left();
}

#[test]
fn r111_the_application_refuses_and_says_why() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.b.cm.reject(world.now, b, RejReason::CONSUMER, b"busy").expect("it waits");
    world.exchange();
    let Event::Rejected { id, reason, private_data, .. } = world.a.event() else {
        panic!("refused")
    };
    assert_eq!((id, reason, &private_data[..5]), (a, RejReason::CONSUMER, &b"busy\0"[..]));
    world.nothing_is_left();
    let gone = world.b.cm.reject(world.now, b, RejReason::CONSUMER, &[]);
    assert_eq!(gone, Err(CmError::NoSuchConnection(b)));
}

#[test]
fn r114_a_lost_req_is_repeated_as_often_as_it_says() {
    let mut world = World::new();
    let call = Call { max_retries: 4, ..call() };
    let a = world.a.cm.connect(world.now, &call).expect("a call");
    let first = world.sent_by_a();
    // Two lifetimes (code 16) and a response time (code 18).
    let interval = Duration::from_millis(2 * 256 + 1_024);
    for _ in 0..4 {
        assert_eq!(world.pass(interval - Duration::from_millis(1)).0, []);
        assert_eq!(world.pass(Duration::from_millis(1)).0, first);
    }
    world.a.quiet();
    let (last_words, _) = world.pass(interval);
    assert_eq!(world.a.event(), Event::TimedOut { id: a });
    let Message::Rej(rej) = message(&last_words[0]) else { panic!("a REJ") };
    assert_eq!((rej.reason, rej.local_comm_id), (RejReason::TIMEOUT, a));
    assert_eq!(rej.guid(), Some(world.a.cm.identity().guid));
    world.nothing_is_left();
}

#[test]
fn r108_a_repeated_req_makes_one_connection_and_the_same_rep() {
    let mut world = World::new();
    world.call();
    let req = world.sent_by_a();
    world.arrive_at_b(&[req[0], req[0]]);
    let (b, _) = world.request();
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    world.sent_by_b();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    let rep = world.sent_by_b();
    world.arrive_at_b(&req);
    assert_eq!(world.sent_by_b(), rep, "the very same REP");
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    assert_eq!(world.b.cm.len(), 1);
    world.b.quiet();
}

#[test]
fn a_slow_application_asks_the_caller_for_patience() {
    let mut world = World::new();
    let a = world.call();
    let req = world.sent_by_a();
    world.arrive_at_b(&req);
    let (b, _) = world.request();
    assert_eq!(world.sent_by_b(), [], "no MRA before the caller wonders");
    world.pass(Duration::from_millis(1));
    world.arrive_at_b(&req);
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    let mra = world.sent_by_b();
    let Message::Mra(text) = message(&mra[0]) else { panic!("an MRA") };
    assert_eq!((text.message, text.service_timeout), (RejectedMessage::REQ, 24));
    assert_eq!((text.local_comm_id, text.remote_comm_id), (b, a));
    world.arrive_at_a(&mra);
    let patience = Duration::from_millis(65_536 + 512);
    assert_eq!(world.a.cm.poll_timeout(), Some(world.now + patience));
    // Refused after all: now the REJ carries our id.
    world.b.cm.reject(world.now, b, RejReason::CONSUMER, &[]).expect("it waits");
    let rej = world.sent_by_b();
    let Message::Rej(text) = message(&rej[0]) else { panic!("a REJ") };
    assert_eq!((text.local_comm_id, text.remote_comm_id), (b, a));
    world.arrive_at_a(&rej);
    assert!(matches!(world.a.event(), Event::Rejected { .. }));
    world.nothing_is_left();
}

#[test]
fn an_application_that_never_decides_loses_the_caller() {
    let mut world = World::new();
    let (a, b) = world.ring();
    let (_, sent) = world.pass(CmLimits::default().decision_time);
    assert_eq!(world.b.event(), Event::TimedOut { id: b });
    assert_eq!(names(&sent), ["REJ"]);
    world.arrive_at_a(&sent);
    assert!(world.a.events.iter().any(|event| event.id() == a));
    world.nothing_is_left();
}

#[test]
fn r114_the_rep_is_repeated_at_the_callers_pace() {
    let mut world = World::new();
    let (_, b) = world.ring();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    let rep = world.sent_by_b();
    let (_, again) = world.pass(Duration::from_millis(1_023));
    assert_eq!(again, []);
    let (_, again) = world.pass(Duration::from_millis(1));
    assert_eq!(again, rep);
    let (_, rest) = world.pass(Duration::from_millis(15 * 1_024));
    assert_eq!(names(&rest)[..14], ["REP"; 14]);
    assert_eq!((names(&rest)[14], rest.len()), ("REJ", 15));
    assert_eq!(world.b.event(), Event::TimedOut { id: b });
    assert_eq!(world.b.cm.state(b), Some(State::Timewait), "the caller may have the REP");
}

#[test]
fn a_callers_time_codes_make_us_neither_an_amplifier_nor_wait_for_ever() {
    // Between two copies, and how often the REP may be sent.
    let ms = Duration::from_millis;
    for (code, interval, times) in [(0, ms(100), 16), (31, ms(15_000), 4)] {
        let mut world = World::new();
        world.b.cm.listen(world.now, SERVICE, 8).expect("free");
        world.b.receive(world.now, A, &req(|req| req.local_response_timeout = code));
        let (b, _) = world.request();
        world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
        assert_eq!(world.b.cm.poll_timeout(), Some(world.now + interval), "code {code}");
        assert_eq!(names(&world.sent_by_b()), ["REP"]);
        let (_, again) = world.pass(interval * times - ms(1));
        // The budget for copies to strangers may hold some back (A39).
        assert!(again.len() < times as usize && again.len() >= 3, "code {code}: {}", again.len());
        assert!(names(&again).iter().all(|name| *name == "REP"));
        let (_, last) = world.pass(ms(1));
        assert_eq!(names(&last), ["REJ"], "code {code}: 60 s at most");
    }
}

#[test]
fn r109_a_repeated_rep_draws_the_same_rtu() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    let rep = world.sent_by_b();
    world.arrive_at_a(&rep);
    assert!(matches!(world.a.event(), Event::Reply { .. }));
    // Before the application has confirmed it: patience.
    world.pass(Duration::from_millis(1));
    world.arrive_at_a(&rep);
    assert_eq!(names(&world.sent_by_a()), ["MRA"]);
    assert_eq!(world.a.drop_reason(), DropReason::CmDuplicate);
    world.a.cm.establish(a, b"go").expect("a reply waits");
    let lost = world.sent_by_a();
    assert_eq!(names(&lost), ["RTU"]);
    let (_, again) = world.pass(Duration::from_millis(1_023));
    assert_eq!(again, rep);
    world.arrive_at_a(&again);
    assert_eq!(world.a.drop_reason(), DropReason::CmDuplicate);
    let rtu = world.sent_by_a();
    assert_eq!(rtu, lost);
    world.arrive_at_b(&rtu);
    let Event::Established { id, private_data } = world.b.event() else { panic!("it stands") };
    assert_eq!((id, &private_data[..3]), (b, &b"go\0"[..]));
    world.arrive_at_b(&rtu);
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    world.b.quiet();
}

#[test]
fn what_the_network_has_doubled_asks_no_application_for_patience() {
    let mut world = World::new();
    let a = world.call();
    let req = world.sent_by_a();
    world.arrive_at_b(&req);
    world.arrive_at_b(&req);
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    assert_eq!(world.sent_by_b(), [], "an MRA for a REQ that has just come");
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    let rep = world.sent_by_b();
    world.arrive_at_a(&rep);
    world.arrive_at_a(&rep);
    assert_eq!(world.a.drop_reason(), DropReason::CmDuplicate);
    assert_eq!(world.sent_by_a(), [], "an MRA for a REP that has just come");
    assert!(matches!(world.a.event(), Event::Reply { id, .. } if id == a));
}

#[test]
fn r113_the_first_packet_stands_for_a_lost_rtu() {
    let mut world = World::new();
    let (a, b, _) = world.reply();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    let late = world.sent_by_a();
    world.b.cm.handle_comm_est(b);
    assert!(
        matches!(world.b.event(), Event::Established { id, private_data } if id == b && private_data.is_empty())
    );
    assert_eq!(world.next_deadline(), None, "the REP is not repeated");
    world.b.cm.handle_comm_est(b);
    world.b.quiet();
    world.arrive_at_b(&late);
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
}

#[test]
fn r113_a_packet_before_the_rep_or_of_nobody_establishes_nothing() {
    let mut world = World::new();
    let (_, b) = world.ring();
    world.b.cm.handle_comm_est(b);
    world.b.cm.handle_comm_est(CommId(4711));
    world.b.quiet();
    assert_eq!(world.b.cm.state(b), Some(State::ReqReceived));
}

#[test]
fn the_caller_refuses_a_reply() {
    let mut world = World::new();
    let (a, b, _) = world.reply();
    world.a.cm.reject(world.now, a, RejReason::CONSUMER, b"no").expect("a reply waits");
    world.exchange();
    let Event::Rejected { id, reason, .. } = world.b.event() else { panic!("refused") };
    assert_eq!((id, reason), (b, RejReason::CONSUMER));
    world.pass(Duration::from_secs(5));
    assert_eq!(world.a.event(), Event::TimewaitExit { id: a });
    assert_eq!(world.b.event(), Event::TimewaitExit { id: b });
    world.nothing_is_left();
}

#[test]
fn commands_out_of_turn_name_the_state() {
    let mut world = World::new();
    let a = world.call();
    let text = world.a.cm.establish(a, &[]).expect_err("no reply yet").to_string();
    assert!(text.contains("REQ_SENT"), "{text}");
    let wrong = |result: Result<(), CmError>| matches!(result, Err(CmError::WrongState { .. }));
    assert!(wrong(world.a.cm.accept(world.now, a, &acceptance())));
    assert!(wrong(world.a.cm.disconnect(world.now, a, &[])));
    assert!(wrong(world.a.cm.reject(world.now, a, RejReason::CONSUMER, &[])));
    let gone = world.a.cm.answer(world.now, a, &Answer::refusal(SidrStatus::NO_QP));
    assert_eq!(gone, Err(CmError::NoSuchConnection(a)));
}

#[test]
fn r111_a_queue_pair_in_timewait_is_taken_and_free_afterwards() {
    let mut world = World::new();
    let (a, _) = world.connected();
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    world.exchange();
    world.b.events.clear();
    world.b.receive(world.now, A, &req(|req| req.local_comm_id = CommId(0x5556)));
    assert_eq!(world.b.drop_reason(), DropReason::CmStale);
    let Message::Rej(rej) = message(&world.sent_by_b()[0]) else { panic!("a REJ") };
    assert_eq!(rej.reason, RejReason::STALE_CONNECTION);
    world.pass(Duration::from_secs(1));
    assert!(matches!(world.b.event(), Event::TimewaitExit { .. }));
    world.b.receive(world.now, A, &req(|req| req.local_comm_id = CommId(0x5557)));
    assert!(matches!(world.b.event(), Event::Request { .. }));
}

#[test]
fn a_device_can_call_itself() {
    let mut world = World::new();
    world.a.cm.listen(world.now, SERVICE, 1).expect("free");
    let call = Call { remote: A, ..call() };
    let caller = world.a.cm.connect(world.now, &call).expect("a call");
    let pump = |world: &mut World| {
        for mad in world.sent_by_a() {
            world.a.receive(world.now, A, &mad.bytes);
        }
    };
    pump(&mut world);
    let Event::Request { id: called, .. } = world.a.event() else { panic!("a request") };
    world.a.cm.accept(world.now, called, &acceptance()).expect("it waits");
    pump(&mut world);
    assert!(matches!(world.a.event(), Event::Reply { .. }));
    world.a.cm.establish(caller, &[]).expect("a reply waits");
    pump(&mut world);
    assert!(matches!(world.a.event(), Event::Established { id, .. } if id == called));
    world.a.cm.disconnect(world.now, caller, &[]).expect("it stands");
    pump(&mut world);
    pump(&mut world);
    let ended: Vec<_> = world.a.events.iter().map(Event::id).collect();
    assert_eq!((ended.len(), world.a.drops.len()), (2, 0));
    world.pass(Duration::from_secs(1));
    assert!(world.a.cm.is_empty());
}

#[test]
fn a_port_has_one_listener_and_can_be_listened_on_again() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    assert_eq!(world.b.cm.listen(world.now, SERVICE, 1), Err(CmError::PortTaken(SERVICE)));
    world.b.cm.unlisten(world.now, SERVICE).expect("it listens");
    assert_eq!(world.b.cm.unlisten(world.now, SERVICE), Err(CmError::NotListening(SERVICE)));
    world.b.cm.listen(world.now, SERVICE, 1).expect("free again");
    let port = world.b.cm.free_port(PortSpace::Tcp).expect("one of 28 232");
    assert!(port >= 32_768);
}

#[test]
fn a_call_between_two_listeners_is_not_lost() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    world.b.cm.unlisten(world.now, SERVICE).expect("it listens");
    let a = world.a.cm.connect(world.now, &call()).expect("a call");
    world.exchange();
    world.a.quiet();
    assert_eq!(world.b.drop_reason(), DropReason::CmNoListener);
    world.pass(Duration::from_millis(1_100));
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    let (b, request) = world.request();
    assert_eq!(request.remote_qpn, CALLER_QPN);
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    assert!(matches!(world.a.event(), Event::Reply { id, .. } if id == a));
}

/// Two calls for one queue pair, the first of which is over, come before the listener. `tells`: the caller takes the
/// first back, and the callee hears of it.
fn second_call_before_the_listener(tells: bool) -> (World, CommId) {
    let mut world = World::new();
    world.b.cm.expect_listener(world.now, SERVICE);
    let old = world.a.cm.connect(world.now, &call()).expect("a call");
    world.exchange();
    assert_eq!(world.b.drop_reason(), DropReason::CmNoListener);
    world.a.cm.release(world.now, old);
    match world.sent_by_a() {
        rej if tells => world.arrive_at_b(&rej),
        _lost => {}
    }
    let new = world.a.cm.connect(world.now, &call()).expect("another call");
    (world, new)
}

#[test]
fn a_call_before_the_listener_takes_the_place_of_an_older_one_of_its_queue_pair() {
    let (mut world, new) = second_call_before_the_listener(false);
    world.exchange();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    assert!(matches!(world.a.event(), Event::Reply { id, .. } if id == new));
}

#[test]
fn a_call_that_was_taken_back_does_not_come_to_a_later_listener() {
    let (mut world, _) = second_call_before_the_listener(true);
    // The second REQ is lost so far.
    world.sent_by_a();
    world.b.drops.clear();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    world.b.quiet();
}

#[test]
fn a_call_after_a_listener_is_refused_when_none_comes() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    world.b.cm.unlisten(world.now, SERVICE).expect("it listens");
    world.pass(Duration::from_millis(1_300));
    let a = world.a.cm.connect(world.now, &call()).expect("a call");
    let sent = world.sent_by_a();
    world.arrive_at_b(&sent);
    // Sent twice, kept once, refused once.
    world.arrive_at_b(&sent);
    assert_eq!(world.b.drops, [DropReason::CmNoListener; 2]);
    assert_eq!(world.pass(Duration::from_millis(699)).1, []);
    let (_, refusals) = world.pass(Duration::from_millis(1));
    world.arrive_at_a(&refusals);
    assert!(matches!(world.a.event(), Event::Rejected { id, .. } if id == a));
    assert_eq!(refusals.len(), 1);
    // From now on calls are refused at once.
    world.a.cm.connect(world.now, &call()).expect("a call");
    world.exchange();
    assert!(matches!(world.a.event(), Event::Rejected { .. }));
}

#[test]
fn a21_few_calls_wait_for_a_listener() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 1).expect("free");
    world.b.cm.unlisten(world.now, SERVICE).expect("it listens");
    for n in 0..100 {
        let call = Call { qpn: Qpn::new(0x1000 + n), ..call() };
        world.a.cm.connect(world.now, &call).expect("a call");
    }
    world.exchange();
    let refused = world.a.events.len();
    assert_eq!(refused, 100 - 64);
}

#[test]
fn the_other_ip_version_is_refused_at_once() {
    let mut world = World::new();
    let call = Call { remote: "::1".parse().expect("an address"), ..call() };
    let error = world.a.cm.connect(world.now, &call).expect_err("not our version");
    assert!(matches!(error, CmError::OtherFamily { .. }));
}

/// Two ends that call each other are no two active ends of one connection: each call looks for a listener, and
/// finds none or makes a connection of its own.
#[test]
fn c9_two_calls_that_cross_are_two_calls() {
    let mut world = World::new();
    let to_a = Call { remote: A, ..call() };
    let a = world.a.cm.connect(world.now, &call()).expect("a call");
    let b = world.b.cm.connect(world.now, &to_a).expect("a call");
    world.exchange();
    assert!(matches!(world.a.event(), Event::Rejected { id, .. } if id == a));
    assert!(matches!(world.b.event(), Event::Rejected { id, .. } if id == b));
    world.pass(Duration::from_secs(100));
    world.nothing_is_left();
}
