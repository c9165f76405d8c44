//! Simulations of the first seeds. `UROCE_SEED=n` runs one of them.

use std::panic::catch_unwind;

use uroce_sim::{Coverage, Scenario, Violation, run, shrink};

const SEEDS: u64 = 100;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("UROCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("UROCE_SEEDS").unwrap_or(SEEDS),
    }
}

fn violation(scenario: &Scenario) -> Option<Violation> {
    run(scenario).err()
}

#[test]
fn every_invariant_holds() {
    let mut coverage = Coverage::default();
    let mut packets = 0;
    for seed in seeds() {
        let scenario = Scenario::new(seed);
        let outcome = catch_unwind(|| run(&scenario));
        let Ok(outcome) = outcome else { panic!("a panic in {scenario}") };
        match outcome {
            Ok(report) => {
                coverage.merge(&report.coverage);
                packets += report.packets;
            }
            Err(found) => {
                let (small, found) = shrink(&scenario, found, violation);
                panic!("{found}\nin {small}\nof seed {seed}");
            }
        }
    }
    println!("{packets} packets");
    for (what, count) in coverage.iter() {
        println!("{count:10} {what}");
    }
}

#[test]
fn i13_a_seed_gives_the_same_packets_each_time() {
    for seed in 0..10 {
        let scenario = Scenario::new(seed);
        assert_eq!(run(&scenario), run(&scenario), "seed {seed}");
    }
}
