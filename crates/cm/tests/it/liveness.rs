//! A message that contradicts a connection: the peer restarted, or somebody forges (R112).

use std::time::Duration;

use uroce_cm::message::Message;
use uroce_cm::*;
use uroce_wire::{DropReason, Qpn};

use crate::world::*;

/// Longer than any check lasts.
const LONG: Duration = Duration::from_secs(11);

/// A REQ with the queue pair that A has connected, under another communication id.
fn contradiction(n: u32) -> [u8; MAD_LEN] {
    req(|req| req.local_comm_id = CommId(0x5555 + n))
}

/// Probes that B asked its device for.
fn probes(world: &mut World, id: CommId) -> usize {
    world.b.collect();
    let asked = |event: &Event| matches!(event, Event::ProbePeer { id: found, qpn } if *found == id && *qpn == CALLED_QPN);
    let count = world.b.events.iter().filter(|event| asked(event)).count();
    world.b.events.retain(|event| !asked(event));
    count
}

#[test]
fn a38_a_forged_req_with_every_queue_pair_number_ends_no_connection_of_a_live_peer() {
    let mut world = World::new();
    world.b.cm.listen(world.now, SERVICE, 8).expect("free");
    let call = Call { qpn: Qpn::new(0x01_c0de), ..call() };
    let a = world.a.cm.connect(world.now, &call).expect("a call");
    world.exchange();
    let (b, _) = world.request();
    world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
    world.exchange();
    world.a.event();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.exchange();
    world.b.event();
    // All numbers of a slot at 2000 per second. What is let in is refused by the application.
    let (mut asked, mut bytes) = (0, contradiction(0));
    for n in 0..0x1_0000u32 {
        bytes[24..28].copy_from_slice(&(0x7000_0000 + n).to_be_bytes());
        bytes[24 + 32..24 + 35].copy_from_slice(&(0x01_0000 | n).to_be_bytes()[1..]);
        world.b.receive(world.now, A, &bytes);
        while let Some(event) = world.b.events.pop_front() {
            match event {
                Event::Request { id, .. } => world.b.cm.release(world.now, id),
                // The peer is alive: it answers in a moment.
                Event::ProbePeer { id, .. } => {
                    asked += 1;
                    world.b.cm.handle_comm_est(id);
                }
                other => panic!("{other:?} for the application"),
            }
        }
        while world.b.cm.poll_transmit().is_some() {}
        world.now += Duration::from_micros(500);
        world.fire();
    }
    assert_eq!((world.b.cm.state(b), asked), (Some(State::Established), 1));
}

#[test]
fn r112_the_queue_pair_of_a_peer_that_seems_to_have_restarted_is_asked_and_its_silence_ends_the_connection()
 {
    let mut world = World::new();
    let (_, old) = world.connected();
    world.b.receive(world.now, A, &contradiction(0));
    assert_eq!(world.b.drop_reason(), DropReason::CmStale);
    assert_eq!(world.sent_by_b(), [], "nothing is known yet: the REQ comes again");
    // More such messages change nothing.
    world.b.receive(world.now, A, &contradiction(1));
    world.b.drops.clear();
    let (_, sent) = world.pass(Duration::from_millis(9_999));
    assert_eq!((sent, probes(&mut world, old)), (vec![], 5));
    world.b.quiet();
    assert_eq!(world.b.cm.state(old), Some(State::Established));
    world.now += Duration::from_millis(1);
    world.fire();
    assert!(matches!(world.b.event(), Event::Disconnected { id, .. } if id == old));
    assert_eq!(names(&world.sent_by_b()), ["DREQ"]);
    // The restarted peer says that it knows nothing of it, and its next REQ is let in.
    world.b.receive(world.now, A, &contradiction(0));
    assert_eq!((world.b.drop_reason(), world.sent_by_b()), (DropReason::CmStale, vec![]));
    world.pass(Duration::from_secs(70));
    world.b.events.clear();
    world.b.receive(world.now, A, &contradiction(0));
    assert!(matches!(world.b.event(), Event::Request { .. }));
}

#[test]
fn r112_a_packet_of_the_peer_saves_the_connection_and_the_caller_is_told() {
    let mut world = World::new();
    let (_, old) = world.connected();
    world.b.receive(world.now, A, &contradiction(0));
    assert_eq!(probes(&mut world, old), 1);
    world.b.cm.handle_comm_est(old);
    world.b.drops.clear();
    world.pass(Duration::from_secs(5));
    world.b.receive(world.now, A, &contradiction(0));
    assert_eq!(world.b.drop_reason(), DropReason::CmStale);
    let sent = world.sent_by_b();
    let Message::Rej(rej) = message(&sent[0]) else { panic!("a REJ") };
    assert_eq!((rej.reason, rej.remote_comm_id), (RejReason::STALE_CONNECTION, CommId(0x5555)));
    // What was known grows old, and the next one is asked about again.
    world.pass(LONG);
    world.b.receive(world.now, A, &contradiction(2));
    assert_eq!(probes(&mut world, old), 1);
    world.b.cm.handle_comm_est(old);
    world.pass(LONG);
    assert_eq!(world.b.cm.state(old), Some(State::Established));
}

#[test]
fn a38_checks_have_a_budget_of_their_own() {
    let limits = CmLimits { checks_per_source: 1, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    let (_, first) = world.connected();
    let call = Call { qpn: Qpn::new(0x444), ..call() };
    let a = world.a.cm.connect(world.now, &call).expect("a call");
    world.exchange();
    let (second, _) = world.request();
    let acceptance = Acceptance { qpn: Qpn::new(0x555), ..acceptance() };
    world.b.cm.accept(world.now, second, &acceptance).expect("it waits");
    world.exchange();
    world.a.event();
    world.a.cm.establish(a, &[]).expect("a reply waits");
    world.exchange();
    world.b.event();
    world.b.receive(world.now, A, &contradiction(0));
    assert_eq!(probes(&mut world, first), 1);
    let bytes = req(|req| (req.local_comm_id, req.local_qpn) = (CommId(9), Qpn::new(0x444)));
    world.b.receive(world.now, A, &bytes);
    assert_eq!(world.b.drops, [DropReason::CmStale; 2]);
    world.b.drops.clear();
    world.b.quiet();
}

#[test]
fn a38_a_call_that_nobody_listens_for_contradicts_nothing() {
    let mut world = World::new();
    let (_, old) = world.connected();
    world.b.cm.unlisten(world.now, SERVICE).expect("it listens");
    world.pass(Duration::from_secs(2));
    world.b.receive(world.now, A, &contradiction(0));
    assert_eq!((world.b.drop_reason(), probes(&mut world, old)), (DropReason::CmNoListener, 0));
}

#[test]
fn r112_a_rep_from_a_queue_pair_that_is_connected_waits_until_the_old_connection_is_asked_about() {
    for alive in [true, false] {
        let mut world = World::new();
        let (old, _) = world.connected();
        let call = Call { qpn: Qpn::new(0x333), ..call() };
        let a = world.a.cm.connect(world.now, &call).expect("a call");
        world.exchange();
        let (b, _) = world.request();
        world.b.cm.accept(world.now, b, &acceptance()).expect("it waits");
        let rep = world.sent_by_b();
        world.arrive_at_a(&rep);
        assert_eq!((world.a.drop_reason(), world.sent_by_a()), (DropReason::CmStale, vec![]));
        assert!(matches!(world.a.event(), Event::ProbePeer { id, .. } if id == old));
        if alive {
            world.a.cm.handle_comm_est(old);
            world.arrive_at_a(&rep);
            let stale = RejReason::STALE_CONNECTION;
            assert!(
                matches!(world.a.event(), Event::Rejected { id, reason, .. } if id == a && reason == stale)
            );
            assert_eq!(names(&world.sent_by_a()), ["REJ"]);
            assert_eq!(world.a.cm.state(old), Some(State::Established));
            continue;
        }
        world.now += Duration::from_secs(10);
        for _ in 0..5 {
            world.a.cm.handle_timeout(world.now);
        }
        world.a.collect();
        assert!(
            world
                .a
                .events
                .iter()
                .any(|event| matches!(event, Event::Disconnected { id, .. } if *id == old))
        );
        assert_eq!(world.a.cm.state(a), Some(State::ReqSent), "the call goes on");
    }
}
