//! Calls that nobody has confirmed, and what strangers can do with them.

use std::time::Duration;

use uroce_cm::*;
use uroce_wire::Psn;

use crate::world::flood::{self, req_of};
use crate::world::*;

/// One REJ is lost: the caller took its call back. It calls again with the same queue pair.
#[test]
fn a_queue_pair_whose_call_was_taken_back_can_call_again_when_the_rej_was_lost() {
    let mut world = World::new();
    let (a, b) = world.ring();
    world.b.cm.accept(world.now, b, &acceptance()).expect("accepted");
    assert_eq!(names(&world.sent_by_b()), ["REP"]); // lost, or slow
    world.a.cm.release(world.now, a);
    assert_eq!(names(&world.sent_by_a()), ["REJ"]); // lost
    let again = world.a.cm.connect(world.now, &call()).expect("a call");
    world.exchange();
    world.a.collect();
    assert_ne!(world.a.cm.state(again), None, "the second call goes on");
}

/// A stranger who can forge the address of A names the queue pairs that A will use next.
#[test]
fn a21_a_forged_req_does_not_keep_a_queue_pair_of_somebody_else_from_calling() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 64).expect("free");
    let forged = req(|req| {
        req.local_comm_id = CommId(0xbad);
        req.local_ca_guid = 0xbad;
        req.starting_psn = Psn::new(1);
    });
    world.b.receive(world.now, A, &forged);
    let (id, _) = world.request();
    world.b.cm.accept(world.now, id, &acceptance()).expect("accepted");
    let to_a = world.sent_by_b();
    world.arrive_at_a(&to_a);
    world.pass(Duration::from_secs(1));
    let a = world.a.cm.connect(world.now, &call()).expect("a call");
    world.exchange();
    world.a.collect();
    assert_ne!(world.a.cm.state(a), None, "the call of A goes on");
}

/// Five minutes pass. What goes to others than A and B is not looked at.
fn pass_five_minutes(world: &mut World) {
    for _ in 0..300 {
        world.exchange();
        let (from_a, mut from_b) = world.pass(Duration::from_secs(1));
        from_b.retain(|mad| mad.peer == A);
        world.arrive_at_b(&from_a);
        world.arrive_at_a(&from_b);
    }
}

/// The caller has set its queue pair up and sent a packet, and then refuses the REP (or goes).
#[test]
fn r113_a_refusal_of_the_rep_ends_a_connection_that_a_packet_has_established() {
    for goes in [false, true] {
        let mut world = World::new();
        let (a, b, _) = world.reply();
        world.b.cm.handle_comm_est(b);
        assert!(matches!(world.b.event(), Event::Established { .. }));
        match goes {
            true => world.a.cm.release(world.now, a),
            false => world.a.cm.reject(world.now, a, RejReason::CONSUMER, &[]).expect("a reply"),
        }
        pass_five_minutes(&mut world);
        assert_eq!(world.a.cm.state(a), world.b.cm.state(b), "A and B agree 300 s later");
    }
}

/// A flood drives out a call that was accepted, while the RTU of its caller is on the way.
#[test]
fn a21_a_caller_whose_call_made_room_hears_of_it() {
    let limits = CmLimits { max_half_open: 8, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    world.b.cm.listen(world.now, SERVICE, 64).expect("free");
    let a = world.a.cm.connect(world.now, &call()).expect("a call");
    world.exchange();
    let (id, _) = world.request();
    world.b.cm.accept(world.now, id, &acceptance()).expect("accepted");
    let rep = world.sent_by_b();
    world.arrive_at_a(&rep);
    world.a.cm.establish(a, &[]).expect("a reply");
    let rtu = world.sent_by_a();
    for n in 0..8 {
        world.now += Duration::from_millis(1);
        world.b.receive(world.now, flood::source(n), &req_of(flood::source(n), 0x1000 + n));
    }
    world.sent_by_b();
    world.arrive_at_b(&rtu);
    pass_five_minutes(&mut world);
    assert_eq!(world.a.cm.state(a), world.b.cm.state(id), "A and B agree 300 s later");
}

/// A REQ with the address of somebody else asks for as many repetitions, as often, as there can be. The application accepts, and
/// loses its patience.
#[test]
fn a26_the_end_of_a_call_that_nobody_has_confirmed_is_not_told_again_and_again() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 64).expect("free");
    let mut sent = 0;
    for n in 0..4 {
        let forged = req(|req| {
            req.local_comm_id = CommId(0xbad + n);
            req.local_qpn = uroce_wire::Qpn::new(0x300 + n);
            req.max_cm_retries = 15;
            req.local_response_timeout = 0;
        });
        world.b.receive(world.now, A, &forged);
        let (id, _) = world.request();
        world.b.cm.accept(world.now, id, &acceptance()).expect("accepted");
        world.b.cm.release(world.now, id);
        sent += world.sent_by_b().len();
    }
    assert_eq!(sent, 8, "a REP and a DREQ for each");
    let (_, again) = world.pass(Duration::from_secs(1));
    assert!(again.len() <= 4, "{} MADs for four that were forged", again.len());
    world.pass(Duration::from_secs(60));
    world.nothing_is_left();
}

/// The same with the longest time code.
#[test]
fn a39_a_call_that_nobody_has_confirmed_and_that_was_released_goes_soon() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 64).expect("free");
    world.b.receive(world.now, A, &req(|req| req.local_response_timeout = 31));
    let (id, _) = world.request();
    world.b.cm.accept(world.now, id, &acceptance()).expect("accepted");
    world.b.cm.release(world.now, id);
    world.pass(Duration::from_secs(6));
    assert!(world.b.cm.is_empty(), "it takes up a place for a minute");
}

/// The REP was lost as often as it was sent, and the application of the caller is slow: its RTU comes when the call was given up
/// here, and the REJ that said so was lost.
#[test]
fn a21_a_caller_whose_rtu_comes_in_timewait_hears_of_it() {
    let mut world = World::new();
    let (a, b, _) = world.reply();
    while world.b.cm.state(b) != Some(State::Timewait) {
        world.pass(Duration::from_millis(100));
    }
    assert!(matches!(world.b.event(), Event::TimedOut { id } if id == b));
    world.a.cm.establish(a, &[]).expect("a reply");
    world.exchange();
    assert!(matches!(world.a.event(), Event::Disconnected { id, .. } if id == a));
}
