//! Faults by chance: shares, bursts, and that a seed gives the same run again.

use uroce_fault::{FaultInjector, Plan, Verdict};

use crate::packets::{Wire, ms, send};

const COUNT: u32 = 50_000;

/// For each of many packets: whether it was lost.
fn losses(rules: &str, seed: u64) -> Vec<bool> {
    let plan: Plan = rules.parse().expect("good rules");
    let mut injector = FaultInjector::new(&plan, seed);
    let packet = send(0);
    let mut is_lost = || {
        let verdict = injector.handle_packet(ms(0), &packet.meta, &packet.bytes);
        while injector.poll_packet(ms(0)).is_some() {}
        verdict == Verdict::Dropped
    };
    (0..COUNT).map(|_| is_lost()).collect()
}

fn share(losses: &[bool]) -> f64 {
    losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
}

/// Mean length of the runs of lost packets.
fn burst(losses: &[bool]) -> f64 {
    let bursts = losses.chunk_by(|a, b| a == b).filter(|run| run[0]);
    let (count, sum) = bursts.fold((0, 0), |(count, sum), run| (count + 1, sum + run.len()));
    f64::from(sum as u32) / f64::from(count)
}

#[test]
fn independent_loss_has_the_share_that_was_asked_for() {
    for (rules, expected) in [("drop 1%", 0.01), ("drop 30%", 0.3), ("drop 0%", 0.0), ("drop", 1.0)]
    {
        let share = share(&losses(rules, 3));
        // Five times the standard deviation of a binomial distribution.
        let bound = 5.0 * (expected * (1.0 - expected) / f64::from(COUNT)).sqrt();
        assert!((share - expected).abs() <= bound, "{rules}: {share}");
    }
}

#[test]
fn bursts_have_the_share_and_the_length_of_the_model() {
    // Share of the bad state: p / (p + r). Mean stay in it: 1 / r.
    let losses = losses("any -> drop ge=0.01,0.25", 5);
    let (share, burst) = (share(&losses), burst(&losses));
    assert!((share - 0.01 / 0.26).abs() < 0.01, "{share}");
    assert!((burst - 4.0).abs() < 0.6, "{burst}");
}

#[test]
fn both_states_have_a_loss_of_their_own() {
    let share = share(&losses("any -> drop ge=0.1,0.1,0.8,0.2", 7));
    assert!((share - 0.5).abs() < 0.02, "{share}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let rules = "delay 1ms 1ms; corrupt 10%; duplicate 5%; reorder 5%; drop 10%";
    let run = |seed| {
        let mut wire = Wire::with_seed(rules, seed);
        for psn in 0..500 {
            wire.give(&send(psn));
        }
        wire.finish();
        (wire.out, wire.comments)
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}

#[test]
fn a_seed_of_its_own_makes_a_rule_independent_of_the_run() {
    assert_eq!(losses("drop 10% seed=4", 1), losses("drop 10% seed=4", 2));
    assert_ne!(losses("drop 10%", 1), losses("drop 10%", 2));
}

#[test]
fn a_rule_in_front_does_not_change_what_another_draws() {
    let alone = losses("rx -> pass; drop 10%", 1);
    let behind = losses("ce 50%; drop 10%", 1);
    assert_eq!(alone, behind);
}
