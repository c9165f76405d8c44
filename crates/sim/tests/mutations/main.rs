//! The test of the simulator: NICs that are broken on purpose are found out.
//!
//! `cargo test -p uroce-sim --features mutation --test mutations -- --nocapture` tells how many seeds each needs.
//! `UROCE_SEEDS=n` tries at most `n` for each.

use uroce_device::memory::mutation::choose;
use uroce_sim::{Invariant, Scenario, run_caught};

/// Seeds that are tried for each mutation.
const SEEDS: u64 = 10_000;

/// The first seed whose simulation finds out the mutation, and what it says.
fn found(mutation: &'static str) -> Option<(u64, String)> {
    let seeds = std::env::var("UROCE_SEEDS").ok().and_then(|text| text.parse().ok());
    choose(Some(mutation));
    let first = (0..seeds.unwrap_or(SEEDS)).find_map(|seed| {
        let violation = run_caught(&Scenario::new(seed), |_| ()).err();
        violation.map(|violation| (seed, violation.to_string()))
    });
    choose(None);
    first
}

/// How many seeds it takes until a simulation finds out the mutation by this invariant, and what it says.
fn found_by(mutation: &'static str, invariant: Invariant) -> Option<(u64, String)> {
    choose(Some(mutation));
    let first = (0..SEEDS).find_map(|seed| {
        let outcome = run_caught(&Scenario::new(seed), |_| ());
        let violation = outcome.err().filter(|violation| violation.invariant == invariant)?;
        Some((seed, violation.to_string()))
    });
    choose(None);
    first
}

/// A test for each mutation of the list.
macro_rules! mutations {
    ($($name:ident: $mutation:literal,)*) => {$(
        #[test]
        fn $name() {
            let (seed, what) = found($mutation).expect("the simulator finds out the mutation");
            println!("{}: {} seeds, {what}", $mutation, seed + 1);
        }
    )*};
}

mutations! {
    // Defects that kernel rxe has had.
    b5_an_address_that_wraps_passes_the_range_check: "range-wraps",
    b10_the_key_of_an_empty_access_is_checked: "empty-key-checked",
    b13_a_packet_that_is_sent_again_has_other_bytes: "resent-corrupted",
    b15_the_wait_after_an_rnr_nak_is_cut_short: "rnr-at-once",
    b18_psns_are_compared_without_their_wrap: "psn-compare-plain",
    b19_reads_are_not_counted_in_the_msn: "read-not-counted",
    b20_an_atomic_that_comes_again_is_executed_again: "atomic-again",
    b26_a_send_that_comes_again_is_delivered_again: "duplicate-executed",
    b38_a_fence_behind_an_unsignaled_local_operation_hangs: "fence-hangs",
    // Defects that this NIC could have.
    a_request_behind_a_second_gap_is_executed: "reorder-skips",
    a_packet_in_a_buffer_with_others_is_taken_for_the_next_one: "joined-any-psn",
    a_tail_probe_counts_as_an_acknowledgement: "probe-acknowledges",
    a_message_without_ack_request_completes_when_it_is_sent: "unasked-completes",
    a_response_behind_a_missing_one_is_taken_for_two: "early-not-placed",
    a_repair_starts_behind_what_is_missing: "go-back-late",
    r66_a_full_queue_forgets_its_oldest_completion: "overflow-drops-oldest",
    each_packet_behind_a_gap_draws_a_nak: "nak-again",
    the_ack_of_a_duplicate_ends_a_read_for_rxe: "duplicate-acknowledges-read",
    two_holes_of_a_read_are_asked_for_at_once: "holes-at-once",
}

/// A test for each mutation that is there for the sake of one invariant.
macro_rules! mutations_of_invariants {
    ($($name:ident: $mutation:literal, $invariant:ident;)*) => {$(
        #[test]
        fn $name() {
            let (seed, what) = found_by($mutation, Invariant::$invariant)
                .expect("the simulator finds out the mutation");
            println!("{}: {} seeds, {what}", $mutation, seed + 1);
        }
    )*};
}

mutations_of_invariants! {
    i2_a_byte_behind_a_message_is_written: "write-too-long", Canaries;
    i3_a_success_is_reported_twice: "completes-twice", Completions;
    i9_a_management_agent_answers_often: "answers-often", Strangers;
    i10_a_queue_pair_keeps_its_protection_domain: "domain-kept", Resources;
    i11_a_device_with_a_timer_wants_to_be_polled_at_once: "never-idle", Bounds;
    i14_the_timer_is_not_started_again_after_a_retry: "timer-forgotten", Liveness;
    r108_a_req_that_comes_again_is_a_new_one: "req-again-is-new", Messages;
    r109_a_lost_rtu_is_not_repeated: "rtu-not-repeated", Sequence;
    a23_a_dreq_of_a_wrong_id_is_believed: "dreq-unchecked", Statuses;
    r115_depths_are_not_crossed: "depths-not-crossed", Sequence;
    a_queue_pair_of_another_engine_outlives_its_connection: "link-elsewhere-stays", Statuses;
    a_window_of_type_1_that_is_bound_to_nothing_still_gives_access: "unbind-forgotten", Statuses;
    a_question_that_comes_again_is_a_new_one: "question-again-is-new", Messages;
    r111_a_connection_ends_without_timewait: "timewait-skipped", Liveness;
    r66_an_overflow_is_not_told: "overflow-untold", Completions;
    i16_a_key_works_after_its_region_was_deregistered: "key-lives-on", Keys;
}

#[test]
fn i13_keys_that_do_not_come_from_the_seed() {
    choose(Some("seed-ignored"));
    let differs = |seed: &u64| {
        let outcome = || run_caught(&Scenario::new(*seed), |_| ());
        outcome() != outcome()
    };
    let seed = (0..SEEDS).find(differs).expect("two runs of a seed differ");
    choose(None);
    println!("seed-ignored: {} seeds, I13: two runs of a seed differ", seed + 1);
}
