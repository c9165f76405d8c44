//! SIDR: questions and answers.

use std::time::Duration;

use uroce_cm::*;
use uroce_wire::{DropReason, Qpn};

use crate::world::*;

fn question() -> Question {
    Question { source_port: 5, private_data: b"who?".to_vec(), ..Question::new(B, UDP_SERVICE) }
}

fn answer() -> Answer {
    let (status, qpn, qkey) = (SidrStatus::VALID, Qpn::new(0x20), 0x0123_4567);
    Answer { status, qpn, qkey, private_data: b"me".to_vec() }
}

fn asked(world: &mut World) -> (CommId, CommId) {
    world.b.cm.listen(world.now, UDP_SERVICE, 2).expect("free");
    let a = world.a.cm.resolve(world.now, &question()).expect("a question");
    world.exchange();
    let Event::Query { id, service_id, remote, ip, private_data } = world.b.event() else {
        panic!("a question");
    };
    assert_eq!((service_id, remote, private_data.len()), (UDP_SERVICE, A, 180));
    assert_eq!((&private_data[..4], ip.map(|ip| ip.source_port)), (&b"who?"[..], Some(5)));
    (a, id)
}

#[test]
fn a_question_is_answered() {
    let mut world = World::new();
    let (a, b) = asked(&mut world);
    assert_eq!(world.b.cm.half_open(), 1);
    world.b.cm.answer(world.now, b, &answer()).expect("it waits");
    world.exchange();
    let Event::Resolved { id, status, qpn, qkey, private_data } = world.a.event() else {
        panic!("an answer");
    };
    assert_eq!((id, status, qpn, qkey), (a, SidrStatus::VALID, Qpn::new(0x20), 0x0123_4567));
    assert_eq!((private_data.len(), &private_data[..3]), (136, &b"me\0"[..]));
    let twice = world.b.cm.answer(world.now, b, &answer());
    assert!(matches!(twice, Err(CmError::WrongState { .. })));
    world.pass(Duration::from_secs(10));
    world.a.quiet();
    world.b.quiet();
    world.nothing_is_left();
}

#[test]
fn a_lost_answer_is_repeated_without_asking_the_application_again() {
    let mut world = World::new();
    let (_, b) = asked(&mut world);
    world.b.cm.answer(world.now, b, &answer()).expect("it waits");
    let lost = world.sent_by_b();
    let (again, _) = world.pass(Duration::from_millis(1_024));
    world.arrive_at_b(&again);
    assert_eq!(world.b.drop_reason(), DropReason::CmDuplicate);
    world.b.quiet();
    let sent = world.sent_by_b();
    assert_eq!(sent, lost);
    world.arrive_at_a(&[sent[0], sent[0]]);
    assert!(matches!(world.a.event(), Event::Resolved { .. }));
    assert_eq!(world.a.drop_reason(), DropReason::CmUnknownId);
}

#[test]
fn nobody_listens_or_nobody_answers() {
    let mut world = World::new();
    let a = world.a.cm.resolve(world.now, &question()).expect("a question");
    world.exchange();
    assert_eq!(world.b.drop_reason(), DropReason::CmNoListener);
    let wanted = SidrStatus::INVALID_SERVICE_ID;
    assert!(
        matches!(world.a.event(), Event::Resolved { id, status, .. } if id == a && status == wanted)
    );
    let a = world.a.cm.resolve(world.now, &question()).expect("a question");
    let first = world.sent_by_a();
    let (again, _) = world.pass(Duration::from_millis(16 * 1_024));
    assert_eq!(again, vec![first[0]; 15]);
    assert_eq!(world.a.event(), Event::TimedOut { id: a });
    world.nothing_is_left();
}

#[test]
fn an_application_that_goes_away_refuses() {
    let mut world = World::new();
    let (a, b) = asked(&mut world);
    world.b.cm.release(world.now, b);
    world.exchange();
    let refused = SidrStatus::REJECTED;
    assert!(
        matches!(world.a.event(), Event::Resolved { id, status, .. } if id == a && status == refused)
    );
    let a = world.a.cm.resolve(world.now, &question()).expect("a question");
    world.a.cm.release(world.now, a);
    world.exchange();
    world.b.event();
    world.pass(Duration::from_secs(100));
    world.a.quiet();
    world.nothing_is_left();
}

#[test]
fn the_backlog_holds_for_questions_too() {
    let mut world = World::new();
    asked(&mut world);
    for wanted in [None, Some(SidrStatus::REJECTED)] {
        world.a.cm.resolve(world.now, &question()).expect("a question");
        world.exchange();
        let answer = world.a.events.pop_front().map(|event| match event {
            Event::Resolved { status, .. } => status,
            other => panic!("{other:?}"),
        });
        assert_eq!(answer, wanted);
    }
    assert_eq!(world.b.drop_reason(), DropReason::CmBacklog);
}

#[test]
fn a_question_that_was_fetched_leaves_the_backlog() {
    let mut world = World::new();
    world.b.cm.listen(world.now, UDP_SERVICE, 1).expect("free");
    for _ in 0..3 {
        world.a.cm.resolve(world.now, &question()).expect("a question");
        world.exchange();
        let Event::Query { id, .. } = world.b.event() else { panic!("a question") };
        world.b.cm.note_fetched(id);
    }
    assert_eq!(world.b.cm.half_open(), 3);
}

#[test]
fn a23_an_answer_of_somebody_else_changes_nothing() {
    let mut world = World::new();
    let (_, b) = asked(&mut world);
    world.b.cm.answer(world.now, b, &answer()).expect("it waits");
    let sent = world.sent_by_b();
    world.a.receive(world.now, C, &sent[0].bytes);
    assert_eq!(world.a.drop_reason(), DropReason::CmWrongPeer);
    world.a.quiet();
}
