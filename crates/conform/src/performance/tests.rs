use std::cell::Cell;

use uroce_wire::{NakCode, Opcode, Psn, Syndrome};

use super::*;
use crate::fake::{FakeAgent, FakeWire, card, incoming};
use crate::run::NUMBERS;
use crate::{
    CaseReport, Counter, Incoming, Packet, Reply, Report, Selection, Verdict, limits, run,
};

/// A packet of the peer to the queue pair of the run's first case.
fn said(opcode: Opcode, psn: Psn, change: impl FnOnce(Packet) -> Packet) -> Option<Incoming> {
    let packet = change(Packet::new(opcode, 0x10_0001 + NUMBERS, psn, vec![]));
    let bytes = [packet.covered(), vec![0; 4]].concat();
    Some(Incoming { bytes, ..incoming(opcode, 0) })
}

fn request(sent: &[u8]) -> (Psn, Opcode) {
    let packet = uroce_wire::Packet::parse(sent).expect("the tester's packets are well formed");
    (packet.bth.psn, packet.bth.opcode)
}

/// Answers each request at once.
fn sound(sent: &[u8]) -> Option<Incoming> {
    let (psn, opcode) = request(sent);
    match opcode {
        Opcode::RC_READ_REQUEST => {
            said(Opcode::RC_READ_RESPONSE_ONLY, psn, |packet| packet.data(&[0; 16]))
        }
        Opcode::RC_FETCH_ADD => said(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, |packet| packet),
        _ => said(Opcode::RC_ACKNOWLEDGE, psn, |packet| packet),
    }
}

fn refusing(sent: &[u8]) -> Option<Incoming> {
    let nak = Syndrome::nak(NakCode::RemoteAccess);
    said(Opcode::RC_ACKNOWLEDGE, request(sent).0, |packet| packet.syndrome(nak))
}

fn early(sent: &[u8]) -> Option<Incoming> {
    said(Opcode::RC_ACKNOWLEDGE, request(sent).0.add(50), |packet| packet)
}

thread_local! {
    /// Packets that came, the PSN that is expected, and whether its absence was told.
    static LOSSY: Cell<(u32, Option<Psn>, bool)> = const { Cell::new((0, None, false)) };
}

/// Loses one packet of seven and answers the others as a responder does, but for one of twelve.
fn lossy(sent: &[u8]) -> Option<Incoming> {
    let (psn, opcode) = request(sent);
    let (count, expected, told) = LOSSY.get();
    let expected = expected.unwrap_or(psn);
    LOSSY.set((count + 1, Some(expected), told));
    let dice = count.wrapping_mul(0x9e37_79b1) >> 16;
    if dice % 7 == 6 {
        return None;
    }
    let ahead = psn.since(expected);
    if ahead > 0 {
        LOSSY.set((count + 1, Some(expected), true));
        let nak = Syndrome::nak(NakCode::PsnSequence);
        let nak = said(Opcode::RC_ACKNOWLEDGE, expected, |packet| packet.syndrome(nak));
        return nak.filter(|_| !told);
    }
    if ahead == 0 {
        LOSSY.set((count + 1, Some(expected.add(1)), false));
    }
    let is_read = opcode == Opcode::RC_READ_REQUEST;
    let answer = if is_read { sound(sent) } else { said(Opcode::RC_ACKNOWLEDGE, psn, |ack| ack) };
    answer.filter(|_| dice % 12 != 11)
}

fn counters(values: &[(&str, u64)]) -> Reply {
    let counter = |(name, value): &(&str, u64)| Counter { name: (*name).to_owned(), value: *value };
    Reply::Counters { counters: values.iter().map(counter).collect(), missing: None }
}

fn ran(case: &str, answer: fn(&[u8]) -> Option<Incoming>, agent: &mut FakeAgent) -> Report {
    let mut wire = FakeWire { answer: Some(answer), ..FakeWire::default() };
    let only = vec![format!("rc.performance.{case}")];
    let selection = Selection { only, performance: true, ..Selection::default() };
    let card = crate::Card { mtu: 3, ..card() };
    run(&selection, &mut wire, agent, &card, &mut |_| true)
}

fn first(case: &str, answer: fn(&[u8]) -> Option<Incoming>) -> CaseReport {
    ran(case, answer, &mut FakeAgent::default()).cases.swap_remove(0)
}

#[test]
fn operations_of_a_sound_peer_are_measured() {
    for (case, window) in [("write", 16), ("read", 16), ("fetch-add", 16), ("write-32k", 2)] {
        let mut done = first(case, sound);
        assert_eq!(done.verdict, Verdict::Pass, "{case}");
        let figures = done.figures.take().expect("it came to its end");
        assert_eq!((figures.window, figures.again), (window, 0), "{case}");
        // Each answer takes a millisecond there, and a long message draws one for each of its 32 packets.
        assert!(figures.median >= Duration::from_millis(1) && figures.p99 >= figures.median);
        assert!(figures.messages > 10 && figures.rate() > 10.0 && figures.rate() < 1001.0);
        assert_eq!(figures.sent, figures.received, "{case}");
        assert_eq!(figures.counters, Counted::Missing("none".to_owned()));
    }
}

#[test]
fn a_peer_that_refuses_or_answers_what_was_not_asked_fails() {
    for answer in [refusing, early] {
        let done = first("write", answer);
        assert!(matches!(done.verdict, Verdict::Fail(_) | Verdict::Inconclusive(_)), "{done:?}");
        assert_eq!(done.figures, None);
    }
}

#[test]
fn a_receive_that_does_not_complete_fails() {
    let done = first("send", sound);
    let why = done.verdict.why();
    assert!(why.contains("its receive did not complete"), "{why}");
}

#[test]
fn what_was_lost_is_sent_again_and_told() {
    for case in ["write", "read"] {
        LOSSY.set((0, None, false));
        let done = first(case, lossy);
        let Some(figures) = &done.figures else { panic!("{case}: {:?}", done.verdict) };
        assert!(figures.again > 10 && figures.messages > 50, "{case}: {figures:?}");
        let Verdict::Tolerated(why) = &done.verdict else { panic!("{case}: {:?}", done.verdict) };
        assert!(why.contains("were sent again"), "{why}");
    }
}

#[test]
fn a_peer_that_counts_fewer_packets_than_were_sent_fails() {
    let verdict = |before: u64, after: u64, name: &str| {
        let values = |value| counters(&[(name, value), ("hw_counters/duplicate_request", 3)]);
        // A case that fails is run three times.
        let replies = [values(before), values(after)];
        let counters = replies.iter().cycle().take(6).cloned().collect();
        let mut agent = FakeAgent { counters, ..FakeAgent::default() };
        ran("write", sound, &mut agent).cases.swap_remove(0)
    };
    let name = "hw_counters/rcvd_pkts";
    let good = verdict(5, 100_005, name);
    assert_eq!(good.verdict, Verdict::Pass);
    let change = Change { name: name.to_owned(), before: 5, after: 100_005 };
    assert_eq!(good.figures.expect("figures").counters, Counted::Changed(vec![change]));
    for name in [name, "counters/port_rcv_packets"] {
        let bad = verdict(5, 6, name).verdict;
        assert!(bad.why().contains("counted 1 packets"), "{bad:?}");
    }
    assert!(verdict(0, 0, name).verdict.why().contains("nothing is counted there"));
    assert!(verdict(9, 3, name).verdict.why().contains("went back"));
    assert_eq!(verdict(1, 2, "hw_counters/other").verdict, Verdict::Pass);
}

#[test]
fn an_agent_that_answers_nonsense_or_too_much_ends_the_run() {
    let many: Vec<_> = (0..=limits::COUNTERS as u64).map(|value| ("a", value)).collect();
    let long = "x".repeat(limits::COUNTER_NAME + 1);
    for reply in [
        Reply::Done,
        counters(&many),
        counters(&[("hw_counters/\u{1b}[2J", 1)]),
        counters(&[("", 1)]),
        counters(&[(&long, 1)]),
    ] {
        let counters = [reply.clone()].into();
        let mut agent = FakeAgent { counters, ..FakeAgent::default() };
        let report = ran("write", sound, &mut agent);
        let verdicts: Vec<_> = report.cases.iter().map(|done| done.verdict.word()).collect();
        assert_eq!(verdicts, ["inconclusive"], "{reply:?}: {report:?}");
        assert!(report.lost.is_some(), "{reply:?}: {report:?}");
    }
}

#[test]
fn a_quantile_is_one_of_the_values() {
    let values: Vec<_> = (1..=200).map(Duration::from_millis).collect();
    assert_eq!(quantile(&values, 50), Duration::from_millis(100));
    assert_eq!(quantile(&values, 99), Duration::from_millis(198));
    assert_eq!(quantile(&values[..1], 99), Duration::from_millis(1));
    assert_eq!(quantile(&[], 50), Duration::ZERO);
}
