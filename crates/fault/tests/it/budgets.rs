//! Which of the packets that match a rule takes, against a model that counts on its fingers; and clocks.

use std::time::Duration;

use proptest::prelude::*;
use uroce_fault::{FaultInjector, Verdict};
use uroce_wire::Opcode;

use crate::packets::{TestPacket, Wire, ms, send, send_back};

/// Numbers of the packets that a rule without chance takes, of so many that match.
fn taken(packets: u32, skip: u32, every: u32, count: u32) -> Vec<u32> {
    (0..packets)
        .filter(|number| *number >= skip && (number - skip + 1).is_multiple_of(every))
        .take(count as usize)
        .collect()
}

fn dropped(rules: &str, packets: u32) -> Vec<u32> {
    let mut wire = Wire::new(rules);
    (0..packets).filter(|psn| wire.give(&send(*psn)) == Verdict::Dropped).collect()
}

proptest! {
    #[test]
    fn skip_every_and_count_are_those_of_the_model(skip in 1u32..9, every in 1u32..6, count in 1u32..9) {
        let rule = format!("tx -> drop skip={skip} every={every} count={count}");
        prop_assert_eq!(dropped(&rule, 60), taken(60, skip, every, count));
        // Packets that do not match are not counted.
        let mut wire = Wire::new(&rule);
        let among_others = (0..60u32).filter(|psn| {
            wire.give(&send_back(*psn));
            wire.give(&send(*psn)) == Verdict::Dropped
        });
        prop_assert_eq!(among_others.collect::<Vec<_>>(), taken(60, skip, every, count));
    }

    /// What one rule takes, the next does not see; what it leaves, the next counts.
    #[test]
    fn a_later_rule_counts_what_the_first_one_leaves(every in 2u32..5, skip in 1u32..5) {
        let rules = format!("a: tx -> drop every={every}; b: tx -> drop skip={skip} count=1");
        let first = taken(40, 0, every, u32::MAX);
        let left: Vec<u32> = (0..40).filter(|psn| !first.contains(psn)).collect();
        let mut wanted = first;
        wanted.push(left[skip as usize]);
        wanted.sort_unstable();
        prop_assert_eq!(dropped(&rules, 40), wanted);
    }

    /// A rule with a chance of its own draws the same numbers whatever stands beside it.
    #[test]
    fn a_chance_depends_on_seed_and_place_only(seed: u64, p in 0.05f64..0.95) {
        let losses = |rules: &str, run: u64| {
            let mut wire = Wire::with_seed(rules, run);
            (0..50).map(|psn| wire.give(&send(psn)) == Verdict::Dropped).collect::<Vec<_>>()
        };
        let alone = losses(&format!("tx -> drop p={p}"), seed);
        prop_assert_eq!(&losses(&format!("tx -> drop p={p}; rx -> drop p=0.5"), seed), &alone);
        prop_assert_eq!(&losses(&format!("tx -> drop p={p} seed={seed}"), !seed), &alone);
        prop_assert_eq!(&losses(&format!("rx -> drop; tx -> drop p={p} seed={seed}"), !seed), &alone);
    }

    /// Packets leave a rate limit one behind the other, each as long as its bits take.
    #[test]
    fn a_rate_is_a_queue_with_one_server(
        arrivals in prop::collection::vec((0u64..4_000, 0usize..40), 1..30), rate in 1u64..50,
    ) {
        let mut injector = Wire::new(&format!("tx -> rate={rate}mbit/1MB")).injector;
        let (mut now, mut free, mut wanted, mut out) = (0, 0, Vec::new(), Vec::new());
        let mut drain = |injector: &mut FaultInjector, up_to: Duration| {
            while let Some(at) = injector.poll_timeout().filter(|at| *at <= up_to) {
                while let Some(release) = injector.poll_packet(at) {
                    out.push((at, u32::from(release.packet[11])));
                }
            }
        };
        for (psn, (gap, words)) in (0u32..).zip(&arrivals) {
            let behind = vec![0; words * 4];
            let packet = TestPacket::new(send(0).meta.direction, Opcode::RC_SEND_ONLY, 9, psn, &behind);
            now += gap * 1_000;
            drain(&mut injector, Duration::from_nanos(now));
            injector.handle_packet(Duration::from_nanos(now), &packet.meta, &packet.bytes);
            // 14, 20 and 8 bytes of Ethernet, IP and UDP.
            let bits = (packet.bytes.len() as u64 + 42) * 8;
            free = free.max(now) + bits * 1_000 / rate;
            wanted.push((Duration::from_nanos(free), psn));
        }
        drain(&mut injector, Duration::MAX);
        prop_assert_eq!(out, wanted);
    }

    /// Each packet is in exactly one of the counters.
    #[test]
    fn counters_add_up(psns in prop::collection::vec(0u32..8, 1..60), seed: u64) {
        let rules = "a: tx psn=0 -> drop; b: tx psn=1 -> delay=1ms; c: tx psn=2 -> dup=2; d: tx psn=3 -> corrupt p=0.5; \
                     e: tx psn=4 -> hold; f: tx psn=5 -> set:rkey=1";
        let mut wire = Wire::with_seed(rules, seed);
        for psn in &psns {
            wire.give(&send(*psn));
        }
        wire.finish();
        let counters = wire.injector.counters();
        prop_assert_eq!(counters.seen, psns.len() as u64);
        prop_assert_eq!(counters.seen, counters.passed + counters.dropped + counters.released);
        let of = |psn| psns.iter().filter(|other| **other == psn).count() as u64;
        prop_assert_eq!((counters.dropped, counters.added), (of(0), 2 * of(2)));
        let reports: Vec<_> = wire.injector.report().map(|rule| (rule.matched, rule.applied, rule.not_applied)).collect();
        prop_assert_eq!(reports[0], (of(0), of(0), 0));
        prop_assert_eq!(reports[3].0, of(3));
        prop_assert_eq!(reports[5], (of(5), 0, of(5)));
        prop_assert_eq!(wire.out.len() as u64, counters.passed + counters.released + counters.added);
    }
}

/// The time of `from` belongs to the rule, that of `until` does not.
#[test]
fn a_rule_is_open_from_its_first_nanosecond_up_to_before_its_last() {
    let step = Duration::from_nanos(1);
    let mut wire = Wire::new("any -> drop from=2ms until=4ms");
    for (now, verdict) in [
        (Duration::ZERO, Verdict::Pass),
        (ms(2) - step, Verdict::Pass),
        (ms(2), Verdict::Dropped),
        (ms(4) - step, Verdict::Dropped),
        (ms(4), Verdict::Pass),
        (ms(90_000_000), Verdict::Pass),
    ] {
        wire.now = now;
        assert_eq!(wire.give(&send(1)), verdict, "{now:?}");
    }
    let report = wire.injector.report().next().expect("a rule");
    assert_eq!((report.matched, report.applied), (2, 2), "before and after it does not even match");
}

/// A refused packet does not use up the budget of a rule.
#[test]
fn what_cannot_be_done_is_not_counted_as_done() {
    let mut wire = Wire::new("a: tx -> set:rkey=1 count=1 then=b; b: any -> drop");
    assert_eq!(wire.give(&send(1)), Verdict::Pass);
    assert_eq!(wire.give(&send(2)), Verdict::Pass, "b has not begun");
    wire.give(&crate::packets::write_only(3));
    assert_eq!(
        wire.give(&crate::packets::write_only(4)),
        Verdict::Dropped,
        "a is done, b has begun"
    );
    let reports: Vec<_> =
        wire.injector.report().map(|rule| (rule.applied, rule.not_applied)).collect();
    assert_eq!(reports, [(1, 2), (1, 0)]);
}

/// A chain of three: each begins behind the last packet of the one before, not with it.
#[test]
fn rules_in_a_chain_follow_each_other_packet_by_packet() {
    let rules = "a: -> drop count=2 then=b; b: -> drop skip=1 count=1 then=c; c: -> drop count=1";
    assert_eq!(dropped(rules, 10), [0, 1, 3, 4]);
    // A rule may name itself, and then begins again: it has been done once.
    assert_eq!(dropped("a: -> drop count=1 then=a", 4), Vec::<u32>::new());
}

/// Without a count a rule is done when it has been applied once.
#[test]
fn a_successor_begins_behind_the_first_packet_of_a_rule_without_a_count() {
    assert_eq!(dropped("a: tx psn=1 -> pass then=b; b: tx -> drop", 5), [2, 3, 4]);
}

/// Two rules with one seed and one chance choose packets independently of each other.
#[test]
fn rules_draw_from_streams_of_their_own() {
    let mut wire = Wire::new("tx -> ce p=0.5 also; tx -> drop p=0.5");
    let mut alike = 0;
    for psn in 0..200 {
        let is_dropped = wire.give(&send(psn)) == Verdict::Dropped;
        let is_marked = wire.comments.last().is_some_and(|comment| comment.contains("marked"));
        alike += u32::from(is_dropped == is_marked);
    }
    assert!((60..140).contains(&alike), "{alike} of 200 alike");
}

/// `stop` ends everything, muting too; the packet itself still goes on.
#[test]
fn after_stop_nothing_happens_any_more() {
    let mut wire = Wire::new("psn=1 -> mute=10s; psn=2 -> stop; any -> drop");
    wire.give(&send_back(2));
    for psn in 0..4 {
        assert_eq!(wire.give(&send(psn)), Verdict::Pass, "{psn}");
    }
    let applied: Vec<_> = wire.injector.report().map(|rule| rule.applied).collect();
    assert_eq!(applied, [0, 1, 0]);
}

/// Muting is about one direction between two addresses, and begins anew with each packet that the rule takes.
#[test]
fn mute_is_renewed_and_leaves_others_alone() {
    let mut wire = Wire::new("tx psn=1 -> mute=10ms; tx psn=2 -> pass");
    let mut stranger = send(5);
    stranger.meta.flow.dst = [192, 0, 2, 9].into();
    for (at, packet, verdict) in [
        (0, send(1), Verdict::Dropped),
        (5, send(2), Verdict::Dropped),
        (5, stranger, Verdict::Pass),
        (5, send_back(1), Verdict::Pass),
        // A muted packet is not looked at: it does not mute again.
        (9, send(1), Verdict::Dropped),
        (10, send(2), Verdict::Pass),
        (10, send(1), Verdict::Dropped),
        (19, send(2), Verdict::Dropped),
        (20, send(2), Verdict::Pass),
    ] {
        wire.now = ms(at);
        assert_eq!(wire.give(&packet), verdict, "{} at {at} ms", packet.psn());
    }
    let muted = wire.injector.report().next().expect("a rule");
    assert_eq!((muted.matched, muted.applied), (2, 5), "packets that were muted count as applied");
}

/// Both directions, and each pair of addresses, are silent for the time of their own.
#[test]
fn a_mute_of_one_direction_does_not_end_that_of_the_other() {
    let mut wire = Wire::new("any psn=1 -> mute=10ms");
    for (at, packet, verdict) in [
        (0, send(1), Verdict::Dropped),
        (4, send_back(1), Verdict::Dropped),
        (9, send(2), Verdict::Dropped),
        (10, send(2), Verdict::Pass),
        (13, send_back(2), Verdict::Dropped),
        (14, send_back(2), Verdict::Pass),
    ] {
        wire.now = ms(at);
        assert_eq!(wire.give(&packet), verdict, "{} at {at} ms", packet.psn());
    }
}

/// A held packet and a delayed one: holding ends with the packets that pass, or with time.
#[test]
fn hold_counts_what_passes_to_its_own_queue_pair() {
    for (others, wanted) in [
        (1, vec![1, 0, 2, 3, 4]),
        (2, vec![1, 2, 0, 3, 4]),
        (4, vec![1, 2, 3, 4, 0]),
        (5, vec![1, 2, 3, 4, 0]),
    ] {
        assert_eq!(
            Wire::psns_through(&format!("tx psn=0 -> hold={others}"), 5),
            wanted,
            "hold={others}"
        );
    }
    // Two that are held wait for each other as little as for packets of other queue pairs.
    assert_eq!(Wire::psns_through("tx psn=0..1 -> hold=1", 4), [2, 0, 1, 3]);
}

/// Without a rule that draws, no seed changes anything.
#[test]
fn plans_without_chance_do_the_same_with_every_seed() {
    let rules = "tx psn=2 -> drop; tx psn=3 -> dup, delay=3ms; tx psn=4 -> hold=2; tx psn=5 -> corrupt=icrc@1.2";
    let plan: uroce_fault::Plan = rules.parse().expect("good rules");
    assert!(!plan.is_random());
    let run = |seed| {
        let mut wire = Wire::with_seed(rules, seed);
        (0..9).for_each(|psn| {
            wire.give(&send(psn));
        });
        wire.finish();
        wire.out
    };
    assert!((2..20).all(|seed| run(seed) == run(1)));
}
