//! Random walks over a pair of RC or XRC queue pairs with checkers of their own.
//!
//! `UROCE_SEED=n` runs one seed again, `UROCE_SEEDS=n` runs that many, `UROCE_TRACE=1` prints
//! every packet.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sim::walk::{Mode, Walk};

const SEEDS: u64 = 150;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64, mode: Mode) -> u64 {
    match catch_unwind(AssertUnwindSafe(|| Walk::new(seed, mode).run())) {
        Ok(fingerprint) => fingerprint,
        Err(panic) => {
            eprintln!("failed in mode {mode:?}: run it again with UROCE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn run_all(mode: Mode) {
    if let Some(seed) = number("UROCE_SEED") {
        run(seed, mode);
        return;
    }
    let first = number("UROCE_FIRST_SEED").unwrap_or(0);
    for seed in first..first + number("UROCE_SEEDS").unwrap_or(SEEDS) {
        run(seed, mode);
    }
}

#[test]
fn i14_when_faults_stop_everything_succeeds() {
    run_all(Mode::Liveness);
}

#[test]
fn i3_whatever_happens_every_request_completes_once_and_canaries_live() {
    run_all(Mode::Safety);
}

#[test]
fn i13_the_same_seed_gives_the_same_packets() {
    for seed in 0..10 {
        for mode in [Mode::Liveness, Mode::Safety] {
            assert_eq!(run(seed, mode), run(seed, mode), "seed {seed} {mode:?}");
        }
    }
}
