//! Simulations of the first seeds. `UROCE_SEED=n` runs one of them.

use std::panic::catch_unwind;

use uroce_sim::{Coverage, Passage, Scenario, Violation, run, shrink};

const SEEDS: u64 = 2_000;
/// With so many seeds, everything is met that can be met.
const ALL: usize = 1_000;

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

/// The network of a seed as it was before NICs had several engines, windows of type 1 and lookups.
fn older(seed: u64) -> Scenario {
    let mut scenario = Scenario::new(seed);
    scenario.engines.clear();
    for pair in &mut scenario.pairs {
        (pair.type_1, pair.lookup) = (0, None);
    }
    scenario
}

#[test]
fn every_invariant_holds() {
    let mut coverage = Coverage::default();
    let mut packets = 0;
    let mut failures = vec![];
    for seed in seeds() {
        let scenario = Scenario::new(seed);
        let outcome = catch_unwind(|| run(&scenario));
        let Ok(outcome) = outcome else { panic!("a panic in {scenario}") };
        match outcome {
            Ok(report) => {
                coverage.merge(&report.coverage);
                packets += report.packets;
            }
            Err(found) => failures.push((scenario, found)),
        }
    }
    println!("{packets} packets");
    for (what, count) in coverage.iter() {
        println!("{count:10} {what}");
    }
    println!("missing: {:?}", coverage.missing());
    for (scenario, found) in &failures {
        println!("seed {}: {found}", scenario.seed);
    }
    if let Some((scenario, found)) = failures.first() {
        let (small, found) = shrink(scenario, found.clone(), violation);
        panic!("{found}\nin {small}\nof seed {}", scenario.seed);
    }
    if seeds().count() >= ALL {
        assert_eq!(coverage.missing(), Vec::<&str>::new());
    }
    for (name, _) in Coverage::unreachable() {
        assert_eq!(coverage.get(name), 0, "{name} can be reached");
    }
}

#[test]
fn r56_what_followed_a_request_without_a_receive_is_not_taken_for_lost() {
    for seed in [265_227, 309_363] {
        assert_eq!(violation(&older(seed)).map(|found| found.to_string()), None, "{seed}");
    }
}

#[test]
fn i15_the_rnr_retries_that_both_ends_agreed_on_count_while_the_connection_ends() {
    assert_eq!(violation(&older(2502)).map(|found| found.to_string()), None);
}

/// What a NAK asks for may be acknowledged by the answer to an atomic behind it, before it is sent again.
#[test]
fn r71_what_the_answer_to_an_atomic_has_acknowledged_is_not_sent_again() {
    assert_eq!(violation(&older(3014)).map(|found| found.to_string()), None);
}

/// A pair whose last turn meant to let a queue of the model overflow, which has none that do, never ended.
#[test]
fn i14_an_overflow_that_cannot_be_does_not_keep_a_pair_from_its_end() {
    assert_eq!(violation(&older(49_872)).map(|found| found.to_string()), None);
}

/// Copies of a REP leave twice in a second at most for a caller whose address may be forged.
#[test]
fn i14_a_rep_whose_copies_wait_for_their_budget_may_be_unconfirmed() {
    assert_eq!(violation(&older(151_103)).map(|found| found.to_string()), None);
}

/// A REJ was on its way when the process that had sent it ended.
#[test]
fn i15_what_a_process_has_said_before_it_ended_is_explained() {
    assert_eq!(violation(&older(52_289)).map(|found| found.to_string()), None);
}

/// A REP was held back until its sender had given up, and came with the REJ.
#[test]
fn i15_a_rep_that_comes_with_the_rej_of_who_has_sent_it_is_too_late() {
    assert_eq!(violation(&Scenario::new(456_535)).map(|found| found.to_string()), None);
}

/// A REQ was held back until its connection was over, and took the only place of the backlog before the next REQ came.
#[test]
fn i15_a_late_copy_of_a_req_takes_a_place_of_the_backlog() {
    assert_eq!(violation(&Scenario::new(264_415)).map(|found| found.to_string()), None);
}

/// A requester had failed 134 us before an acknowledgement came, and its application saw it 10 ms later.
#[test]
fn i15_an_acknowledgement_that_comes_behind_the_failure_is_too_late() {
    assert_eq!(violation(&Scenario::new(359_060)).map(|found| found.to_string()), None);
}

/// A request of the NIC failed while the NAK of a gap waited, and the packet that was missing came behind that.
#[test]
fn r54_a_nic_that_has_failed_asks_for_nothing_that_is_missing() {
    assert_eq!(violation(&Scenario::new(3413)).map(|found| found.to_string()), None);
}

#[test]
fn i13_a_seed_gives_the_same_packets_each_time() {
    for seed in 0..10 {
        let scenario = Scenario::new(seed);
        assert_eq!(run(&scenario), run(&scenario), "seed {seed}");
    }
}

#[test]
fn i13_engines_of_one_nic_hand_packets_over_in_the_same_order_each_time() {
    let several = (0..).map(Scenario::new).filter(|scenario| !scenario.engines.is_empty());
    for scenario in several.take(5) {
        assert_eq!(run(&scenario), run(&scenario), "seed {}", scenario.seed);
    }
}

#[test]
fn an_observer_sees_each_packet_leave_and_arrive() {
    let mut scenario = Scenario::new(3);
    (scenario.faults, scenario.forged) = (String::new(), 0);
    scenario.outages.clear();
    let (mut sent, mut arrived) = (vec![], vec![]);
    let report = uroce_sim::run_with(&scenario, |event| match event.passage {
        Passage::Sent { .. } => sent.push(event.bytes.to_vec()),
        Passage::Arrived { .. } => arrived.push(event.bytes.to_vec()),
    });
    let report = report.expect("no rule is broken");
    assert_eq!(report.packets, sent.len() as u64);
    sent.sort();
    arrived.sort();
    // The last ones may still be on their way.
    assert!(arrived.len() > sent.len() / 2 && arrived.iter().all(|one| sent.contains(one)));
}

#[test]
fn our_nics_and_the_model_of_rxe_meet_losses_in_both_directions() {
    let scenarios = (0..300).map(Scenario::new).filter(|scenario| scenario.models > 0);
    let mut coverage = Coverage::default();
    let mut count = 0;
    for scenario in scenarios.take(30) {
        let report = run(&scenario).expect("every invariant holds");
        coverage.merge(&report.coverage);
        count += 1;
    }
    assert_eq!(count, 30, "seeds with models are no exception");
    for what in [
        "rxe model: a NAK for a gap is sent",
        "rxe model: a NAK for a gap is taken",
        "rxe model: an RNR NAK is sent",
        "rxe model: an RNR NAK is taken",
        "rxe model: it goes back",
        "rxe model: a timeout",
        "rxe model: a request that comes again",
    ] {
        assert!(coverage.get(what) > 0, "{what}");
    }
}
