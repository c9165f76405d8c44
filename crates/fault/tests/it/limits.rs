//! What an injector keeps has an end, and what exceeds it is counted.

use uroce_fault::{FaultInjector, Limits, Plan, Refusal, Verdict};
use uroce_wire::Opcode;

use crate::packets::{TestPacket, Wire, ms, send};

fn injector(rules: &str, limits: Limits) -> FaultInjector {
    FaultInjector::with_limits(&rules.parse::<Plan>().expect("good rules"), 1, limits)
}

fn give(injector: &mut FaultInjector, packet: &TestPacket) -> Verdict {
    injector.handle_packet(ms(0), &packet.meta, &packet.bytes)
}

#[test]
fn packets_and_bytes_that_wait() {
    for limits in
        [Limits { packets: 2, ..Limits::default() }, Limits { bytes: 170, ..Limits::default() }]
    {
        let mut injector = injector("any -> delay=1ms", limits);
        let verdicts = [0, 1, 2].map(|psn| give(&mut injector, &send(psn)));
        assert_eq!(verdicts, [Verdict::Taken, Verdict::Taken, Verdict::Dropped]);
        assert!(
            injector.faults().ends_with("dropped because no more packets can be held by rule 1")
        );
        assert_eq!((injector.counters().no_room, injector.waiting()), (1, (2, 160)));
        // Room comes back.
        assert!(injector.poll_packet(ms(1)).is_some());
        assert_eq!(give(&mut injector, &send(3)), Verdict::Taken);
    }
}

#[test]
fn copies_that_do_not_fit_are_counted() {
    let mut injector = injector("any -> dup=5", Limits { packets: 2, ..Limits::default() });
    assert_eq!(give(&mut injector, &send(0)), Verdict::Pass);
    assert_eq!(injector.counters().added_lost, 3);
}

#[test]
fn the_queue_pair_unused_for_longest_is_forgotten() {
    let mut injector = injector("tx pkt=2 -> drop", Limits { flows: 2, ..Limits::default() });
    let to = |qp| TestPacket::new(send(0).meta.direction, Opcode::RC_SEND_ONLY, qp, 0, &[]);
    for (qp, verdict) in [
        (5, Verdict::Pass),
        (6, Verdict::Pass),
        (5, Verdict::Dropped),
        // Takes the place of 6.
        (7, Verdict::Pass),
        (5, Verdict::Pass),
        (6, Verdict::Pass),
    ] {
        assert_eq!(give(&mut injector, &to(qp)), verdict, "{qp}");
    }
    assert_eq!(injector.counters().flows_forgotten, 2);
}

#[test]
fn pairs_of_addresses_that_are_silent() {
    let limits = Limits { muted: 1, ..Limits::default() };
    let mut injector = injector("any -> mute=10ms", limits);
    let mut other = send(0);
    other.meta.flow.dst = [192, 0, 2, 9].into();
    let verdicts = [&send(0), &other].map(|packet| give(&mut injector, packet));
    assert_eq!(verdicts, [Verdict::Dropped, Verdict::Pass]);
    let rule = injector.report().next().expect("a rule");
    assert_eq!((rule.applied, rule.not_applied), (1, 1));
    assert_eq!(rule.reason, Some(Refusal::TooManyMuted));
    // Room comes back.
    assert_eq!(injector.handle_packet(ms(10), &other.meta, &other.bytes), Verdict::Dropped);
}

#[test]
fn events_that_nobody_fetches() {
    let mut injector = injector("any -> drop", Limits { events: 2, ..Limits::default() });
    for psn in 0..5 {
        give(&mut injector, &send(psn));
    }
    let psns = std::iter::from_fn(|| injector.poll_event()).filter_map(|event| event.psn);
    assert_eq!(psns.collect::<Vec<_>>(), [3, 4]);
    assert_eq!(injector.counters().events_lost, 3);
}

#[test]
fn a_sequence_number_far_behind_has_no_history() {
    let mut wire = Wire::new("tx iter=2 -> drop");
    for psn in [0, 1, 5000, 1, 5000] {
        wire.give(&send(psn));
    }
    assert_eq!(wire.psns(), [0, 1, 5000, 1]);
}

#[test]
fn texts_and_rules() {
    let error = "any -> drop;".repeat(1001).parse::<Plan>().expect_err("too many");
    assert_eq!(error.expected, "at most 1000 rules");
    assert!("any -> drop;".repeat(1000).parse::<Plan>().is_ok());
    let error = " ".repeat(300_000).parse::<Plan>().expect_err("too long");
    assert_eq!(error.expected, "at most 262144 bytes of rules");
    let actions = vec!["ce"; 17].join(", ");
    let error = format!("any -> {actions}").parse::<Plan>().expect_err("too many");
    assert_eq!(error.expected, "at most 16 actions in one rule");
}
