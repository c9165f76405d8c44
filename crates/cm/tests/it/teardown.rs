//! DREQ, DREP, TIMEWAIT, and what an application leaves behind.

use std::time::Duration;

use uroce_cm::message::*;
use uroce_cm::*;
use uroce_wire::DropReason;

use crate::world::*;

/// Both have ended it, and TIMEWAIT (512 ms for ACK timeout 17) passes.
fn ends(world: &mut World, a: CommId, b: CommId) {
    assert!(matches!(world.a.event(), Event::Disconnected { id, .. } if id == a));
    assert!(matches!(world.b.event(), Event::Disconnected { id, .. } if id == b));
    assert_eq!(world.a.cm.state(a), Some(State::Timewait));
    assert_eq!(world.b.cm.state(b), Some(State::Timewait));
    world.pass(Duration::from_millis(511));
    world.a.quiet();
    world.b.quiet();
    world.pass(Duration::from_millis(1));
    assert_eq!(world.a.event(), Event::TimewaitExit { id: a });
    assert_eq!(world.b.event(), Event::TimewaitExit { id: b });
    world.nothing_is_left();
}

#[test]
fn r111_the_caller_ends_a_connection_with_the_tid_of_its_req() {
    let mut world = World::new();
    let a = world.call();
    let req = world.sent_by_a();
    world.arrive_at_b(&req);
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    world.a.event();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.exchange();
    world.b.event();
    world.a.cm.disconnect(world.now, a, b"bye").expect("it stands");
    let dreq = world.sent_by_a();
    assert_eq!(tid(&dreq[0]), tid(&req[0]));
    let Message::Dreq(text) = message(&dreq[0]) else { panic!("a DREQ") };
    assert_eq!((text.remote_qpn, &text.private_data.bytes()[..4]), (CALLED_QPN, &b"bye\0"[..]));
    world.arrive_at_b(&dreq);
    let drep = world.sent_by_b();
    assert_eq!((names(&drep), tid(&drep[0])), (vec!["DREP"], tid(&req[0])));
    world.arrive_at_a(&drep);
    ends(&mut world, a, b);
}

#[test]
fn the_called_side_ends_a_connection_with_a_tid_of_its_own() {
    let mut world = World::new();
    let (a, b) = world.connected();
    world.b.cm.disconnect(world.now, b, &[]).expect("it stands");
    let dreq = world.sent_by_b();
    assert_eq!(tid(&dreq[0]) as u32, b.0);
    world.arrive_at_a(&dreq);
    world.exchange();
    ends(&mut world, a, b);
}

#[test]
fn r110_dreqs_that_cross_are_both_answered() {
    let mut world = World::new();
    let (a, b) = world.connected();
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    world.b.cm.disconnect(world.now, b, &[]).expect("it stands");
    let (from_a, from_b) = (world.sent_by_a(), world.sent_by_b());
    world.arrive_at_b(&from_a);
    world.arrive_at_a(&from_b);
    let (from_a, from_b) = (world.sent_by_a(), world.sent_by_b());
    assert_eq!((names(&from_a), names(&from_b)), (vec!["DREP"], vec!["DREP"]));
    world.arrive_at_b(&from_a);
    world.arrive_at_a(&from_b);
    assert_eq!(world.a.drop_reason(), DropReason::CmDuplicate);
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    ends(&mut world, a, b);
}

#[test]
fn r114_a_dreq_is_repeated_and_the_end_comes_without_an_answer_too() {
    let mut world = World::new();
    let (a, _) = world.connected();
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    let dreq = world.sent_by_a();
    let (again, _) = world.pass(Duration::from_millis(15 * 1_024));
    assert_eq!(again, vec![dreq[0]; 15]);
    world.a.quiet();
    world.pass(Duration::from_millis(1_024));
    assert!(
        matches!(world.a.event(), Event::Disconnected { private_data, .. } if private_data.is_empty())
    );
    world.pass(Duration::from_millis(512));
    assert_eq!(world.a.event(), Event::TimewaitExit { id: a });
    assert!(world.a.cm.is_empty());
}

#[test]
fn an_end_that_the_peer_has_not_answered_is_told_apart() {
    let unanswered = |end: fn(&mut World, CommId, CommId)| {
        let mut world = World::new();
        let (a, b) = world.connected();
        world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
        end(&mut world, a, b);
        let Event::Disconnected { unanswered, .. } = world.a.event() else { panic!("the end") };
        unanswered
    };
    assert!(unanswered(|world, _, _| drop(world.pass(Duration::from_secs(60)))));
    assert!(!unanswered(|world, _, _| world.exchange()));
    assert!(!unanswered(|world, a, b| {
        let rej = Rej {
            local_comm_id: b,
            remote_comm_id: a,
            message: RejectedMessage::OTHER,
            info_len: 0,
            reason: RejReason::TIMEOUT,
            info: [0; 72],
            private_data: PrivateData::default(),
        };
        world.a.receive(world.now, B, &Mad { tid: 1, message: rej.into() }.emit());
    }));
}

#[test]
fn a_dreq_in_timewait_and_after_it_is_answered() {
    let mut world = World::new();
    let (a, b) = world.connected();
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    let dreq = world.sent_by_a();
    world.arrive_at_b(&dreq);
    let drep = world.sent_by_b();
    world.arrive_at_b(&dreq);
    assert_eq!(world.sent_by_b(), drep);
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    world.b.events.clear();
    world.pass(Duration::from_secs(1));
    assert_eq!(world.b.event(), Event::TimewaitExit { id: b });
    world.arrive_at_b(&dreq);
    assert_eq!(world.sent_by_b(), drep, "the ids swapped, as before");
    assert_eq!(world.b.drop_reason(), DropReason::CmUnknownId);
    world.b.quiet();
}

#[test]
fn a_dreq_overtakes_the_rtu() {
    let mut world = World::new();
    let (a, b, _) = world.reply();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    let rtu = world.sent_by_a();
    world.a.cm.disconnect(world.now, a, &[]).expect("it stands");
    world.exchange();
    world.arrive_at_b(&rtu);
    assert_eq!(world.b.drop_reason(), DropReason::CmWrongState);
    ends(&mut world, a, b);
}

/// The called side accepts and ends the connection at once, and the network turns REP and DREQ round.
#[test]
fn r110_a_dreq_overtakes_its_rep() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    let rep = world.sent_by_b();
    world.b.cm.disconnect(world.now, b, &[]).expect("it was accepted");
    let dreq = world.sent_by_b();
    world.arrive_at_a(&dreq);
    assert_eq!(world.a.drop_reason(), DropReason::CmWrongState);
    assert_eq!(world.sent_by_a(), [], "a DREP would be for a connection that still comes");
    world.arrive_at_a(&rep);
    assert!(matches!(world.a.event(), Event::Reply { id, .. } if id == a));
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.exchange();
    assert_eq!(world.b.drop_reason(), DropReason::CmWrongState);
    let (_, again) = world.pass(Duration::from_millis(1_024));
    assert_eq!(names(&again), ["DREQ"]);
    world.arrive_at_a(&again);
    world.exchange();
    ends(&mut world, a, b);
}

/// As before, and the REP is lost: the REQ that comes again draws the refusal that the caller waits for.
#[test]
fn r110_a_dreq_comes_and_its_rep_never_does() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.sent_by_b();
    world.b.cm.disconnect(world.now, b, &[]).expect("it was accepted");
    world.exchange();
    for _ in 0..8 {
        let (from_a, from_b) = world.pass(Duration::from_millis(512));
        world.arrive_at_b(&from_a);
        world.arrive_at_a(&from_b);
        world.exchange();
    }
    assert!(matches!(world.a.event(), Event::Rejected { id, .. } if id == a));
    world.pass(Duration::from_secs(30));
    world.nothing_is_left();
}

/// The application of the caller takes longer to decide about the REP than the called side waits for its DREP.
#[test]
fn r110_a_dreq_ends_what_the_caller_has_not_decided_about() {
    let mut world = World::new();
    let (a, b, _) = world.reply();
    world.b.cm.disconnect(world.now, b, &[]).expect("it was accepted");
    let dreq = world.sent_by_b();
    world.arrive_at_a(&dreq);
    let drep = world.sent_by_a();
    assert_eq!(names(&drep), ["DREP"]);
    world.arrive_at_b(&drep);
    assert!(world.a.cm.establish(a, &[]).is_err(), "it is over");
    ends(&mut world, a, b);
}

#[test]
fn r111_b52_a_req_in_timewait_is_stale() {
    let mut world = World::new();
    let a = world.call();
    let req = world.sent_by_a();
    world.arrive_at_b(&req);
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    world.a.event();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.exchange();
    world.b.event();
    world.b.cm.disconnect(world.now, b, &[]).expect("it stands");
    world.exchange();
    world.arrive_at_b(&req);
    let sent = world.sent_by_b();
    let Message::Rej(rej) = message(&sent[0]) else { panic!("a REJ") };
    assert_eq!(rej.reason, RejReason::STALE_CONNECTION);
    assert_eq!(world.b.drop_reason(), DropReason::CmStale);
    // It is no answer to anything the caller still asks.
    world.arrive_at_a(&sent);
    assert_eq!(world.a.drop_reason(), DropReason::CmUnknownId);
}

#[test]
fn b54_a_released_call_tells_the_called_side_and_says_no_more() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.a.cm.release(world.now, a);
    let sent = world.sent_by_a();
    let Message::Rej(rej) = message(&sent[0]) else { panic!("a REJ") };
    assert_eq!((rej.reason, rej.remote_comm_id), (RejReason::TIMEOUT, CommId::NONE));
    world.arrive_at_b(&sent);
    assert!(matches!(world.b.event(), Event::Rejected { id, .. } if id == b));
    world.a.quiet();
    world.nothing_is_left();
}

#[test]
fn b54_a_released_request_is_refused() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.b.cm.release(world.now, b);
    world.exchange();
    assert!(matches!(world.a.event(), Event::Rejected { id, .. } if id == a));
    world.b.quiet();
    world.nothing_is_left();
}

#[test]
fn b54_events_that_wait_are_forgotten_with_their_id() {
    let mut world = World::new();
    world.call();
    let req = world.sent_by_a();
    for mad in req {
        world.b.cm.handle_mad(world.now, A, &mad.bytes).expect("a request");
    }
    let Some(Event::Request { id, .. }) = world.b.cm.poll_event() else { panic!("a request") };
    world.b.cm.accept(world.now, id, &acceptance()).expect("it waits");
    world.b.cm.handle_comm_est(id);
    world.b.cm.release(world.now, id);
    assert_eq!(world.b.cm.poll_event(), None);
    assert_eq!(world.b.cm.state(id), None);
    let gone = world.b.cm.disconnect(world.now, id, &[]);
    assert_eq!(gone, Err(CmError::NoSuchConnection(id)));
}

#[test]
fn b54_a_released_connection_is_ended_in_silence() {
    for releases_first in [true, false] {
        let mut world = World::new();
        let (a, b) = world.connected();
        if releases_first {
            world.a.cm.release(world.now, a);
            world.exchange();
            assert!(matches!(world.b.event(), Event::Disconnected { id, .. } if id == b));
        } else {
            world.b.cm.release(world.now, b);
            world.exchange();
            assert!(matches!(world.a.event(), Event::Disconnected { id, .. } if id == a));
        }
        world.pass(Duration::from_secs(1));
        let left: Vec<_> = world.a.events.iter().chain(&world.b.events).collect();
        assert!(matches!(left[..], [Event::TimewaitExit { .. }]), "{left:?}");
        world.nothing_is_left();
    }
}

#[test]
fn a_released_reply_is_refused() {
    let mut world = World::new();
    let (a, b, _) = world.reply();
    world.a.cm.release(world.now, a);
    world.exchange();
    assert!(matches!(world.b.event(), Event::Rejected { id, .. } if id == b));
    world.pass(Duration::from_secs(1));
    world.a.quiet();
    world.nothing_is_left();
}

#[test]
fn a_released_acceptance_is_ended() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    let rep = world.sent_by_b();
    world.arrive_at_a(&rep);
    world.a.event();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.sent_by_a();
    world.b.cm.release(world.now, b);
    world.exchange();
    assert!(matches!(world.a.event(), Event::Disconnected { id, .. } if id == a));
    world.pass(Duration::from_secs(1));
    world.nothing_is_left();
}

#[test]
fn a_peer_that_gives_up_late_ends_the_connection() {
    let mut world = World::new();
    let (a, b, _) = world.reply();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.sent_by_a();
    let (_, sent) = world.pass(Duration::from_secs(20));
    let rej = sent.iter().find(|mad| message(mad).name() == "REJ").expect("B gave up");
    assert_eq!(world.b.event(), Event::TimedOut { id: b });
    world.arrive_at_a(&[*rej]);
    assert!(matches!(world.a.event(), Event::Disconnected { id, .. } if id == a));
}

#[test]
fn c5_alternate_paths_are_refused_in_form() {
    let mut world = World::new();
    let (a, b) = world.connected();
    let lap = Lap {
        local_comm_id: a,
        remote_comm_id: b,
        remote_qpn: CALLED_QPN,
        remote_response_timeout: 20,
        alternate: Path::default(),
        private_data: PrivateData::default(),
    };
    world.b.receive(world.now, A, &Mad { tid: 5, message: lap.into() }.emit());
    assert_eq!(world.b.drop_reason(), DropReason::CmUnsupported);
    let sent = world.sent_by_b();
    let Message::Apr(apr) = message(&sent[0]) else { panic!("an APR") };
    assert_eq!((apr.status, tid(&sent[0])), (Apr::UNSUPPORTED, 5));
    world.arrive_at_a(&sent);
    assert_eq!(world.a.drop_reason(), DropReason::CmUnsupported);
    world.b.receive(world.now, C, &Mad { tid: 5, message: lap.into() }.emit());
    assert_eq!(world.b.drop_reason(), DropReason::CmWrongPeer);
    assert_eq!(world.sent_by_b(), []);
}
