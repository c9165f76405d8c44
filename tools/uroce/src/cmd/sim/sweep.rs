//! `uroce sim sweep --seeds A..B`.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use uroce_sim::{Coverage, Scenario, Violation, run_caught};

use super::failed::Failed;
use super::{counts, counts_json, never};
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::progress::{Progress, bar};
use crate::report::{json, out};

/// How often the progress is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Simulations at the same time at most.
const MOST_JOBS: i64 = 1024;

const EXAMPLES: &str = "\
Examples:
  uroce sim sweep --seeds 0..1000
  uroce sim sweep --seeds 0..100000 --jobs 2 --json";

/// Arguments of `uroce sim sweep`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SweepArgs {
    /// The seeds, the last one excluded: 0..100000
    #[arg(long, value_name = "A..B", value_parser = read_range)]
    seeds: Range<u64>,
    /// Simulations at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MOST_JOBS))]
    jobs: Option<u16>,
}

fn read_range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text:?} is no range of seeds, such as 0..1000");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let range = from.parse().map_err(|_| wrong())?..to.parse().map_err(|_| wrong())?;
    if range.is_empty() { Err(format!("there is no seed in {text}")) } else { Ok(range) }
}

/// What all simulations gave together.
#[derive(Debug, Default)]
struct Totals {
    coverage: Coverage,
    seeds: u64,
    packets: u64,
    failed: Option<(Scenario, Violation)>,
}

/// The work that the threads share.
struct Sweep {
    next: AtomicU64,
    end: u64,
    /// Simulations that went well, for those who wait.
    done: Arc<AtomicU64>,
    stop: AtomicBool,
    interrupt: Interrupt,
    totals: Mutex<Totals>,
}

impl Sweep {
    /// Runs simulations until none is left or one has failed.
    fn work(&self) {
        let mut mine = Totals::default();
        while !self.stop.load(Ordering::Relaxed) && !self.interrupt.is_set() {
            let more = |next| (next < self.end).then(|| next + 1);
            let Ok(seed) = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            else {
                break;
            };
            let scenario = Scenario::new(seed);
            match run_caught(&scenario, |_| ()) {
                Ok(report) => {
                    mine.coverage.merge(&report.coverage);
                    mine.seeds += 1;
                    mine.packets += report.packets;
                    self.done.fetch_add(1, Ordering::Relaxed);
                }
                Err(violation) => {
                    self.stop.store(true, Ordering::Relaxed);
                    mine.failed = Some((scenario, violation));
                }
            }
        }
        self.add(mine);
    }

    fn add(&self, mine: Totals) {
        let mut totals = self.totals.lock().expect("no thread panics with the lock");
        totals.coverage.merge(&mine.coverage);
        totals.seeds += mine.seeds;
        totals.packets += mine.packets;
        let lowest = |failed: &Option<(Scenario, Violation)>| {
            failed.as_ref().map_or(u64::MAX, |(scenario, _)| scenario.seed)
        };
        if lowest(&mine.failed) < lowest(&totals.failed) {
            totals.failed = mine.failed;
        }
    }
}

/// Runs the simulations of all seeds.
///
/// # Errors
/// Exit 1 if an invariant does not hold: the simulation is made smaller and told; and if the sweep is interrupted.
pub fn run(args: &SweepArgs, global: &Global) -> Result<(), Failure> {
    let started = Instant::now();
    let all = args.seeds.end - args.seeds.start;
    let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or_else(processors, usize::from);
    let sweep = Sweep {
        next: AtomicU64::new(args.seeds.start),
        end: args.seeds.end,
        done: Arc::default(),
        stop: AtomicBool::new(false),
        interrupt: Interrupt::install(),
        totals: Mutex::default(),
    };
    let progress = Progress::new(TICK);
    let done = sweep.done.clone();
    progress.show(move |_, columns| {
        bar(columns, (done.load(Ordering::Relaxed), all), "seeds", started.elapsed())
    });
    thread::scope(|scope| {
        for _ in 1..all.min(jobs as u64) {
            // Without a further thread the others do the work.
            let work = || sweep.work();
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        sweep.work();
    });
    drop(progress);
    // Without the time that it takes to make a violation smaller.
    let elapsed = started.elapsed();
    // Seeds are taken in their order, and each that was taken has come to its end.
    let left = sweep.next.into_inner()..sweep.end;
    let mut totals = sweep.totals.into_inner().expect("no thread panics with the lock");
    let failed =
        totals.failed.take().map(|(scenario, violation)| Failed::new(&scenario, violation));
    let failure = match &failed {
        Some(failed) => Some(failed.failure()),
        None if totals.seeds < all => Some(interrupted(totals.seeds, all, &left)),
        None => None,
    };
    if global.json {
        json::print_with(&report(&totals, failed.as_ref(), elapsed), failure.as_ref());
    } else {
        show(&totals, failed.as_ref(), elapsed);
    }
    failure.map_or(Ok(()), Err)
}

fn interrupted(done: u64, all: u64, left: &Range<u64>) -> Failure {
    let Range { start, end } = left;
    Failure::test(format!("interrupted after {done} of {all} seeds"))
        .help(format!("`uroce sim sweep --seeds {start}..{end}` goes on"))
}

fn report(totals: &Totals, failed: Option<&Failed>, elapsed: Duration) -> serde_json::Value {
    let Totals { coverage, seeds, packets, .. } = totals;
    serde_json::json!({
        "version": json::VERSION,
        "seeds": seeds,
        "packets": packets,
        "seconds": elapsed.as_secs_f64(),
        "violation": failed.map(Failed::json),
        "counts": counts_json(coverage),
    })
}

fn show(totals: &Totals, failed: Option<&Failed>, elapsed: Duration) {
    match failed {
        Some(failed) => failed.print(),
        None => {
            out(&counts(&totals.coverage));
            out(&never(&totals.coverage));
        }
    }
    out(&summary(totals, elapsed, failed.is_some()));
}

/// How much was simulated without a violation, and how fast.
fn summary(totals: &Totals, elapsed: Duration, one_failed: bool) -> String {
    let Totals { seeds, packets, .. } = totals;
    let seconds = elapsed.as_secs_f64();
    let rate = *packets as f64 / seconds.max(f64::MIN_POSITIVE);
    let seeds = format!("{seeds} {}", if one_failed { "other seeds" } else { "seeds" });
    format!(
        "{seeds}, {packets} packets in {seconds:.1} s ({rate:.0} packets/s): every invariant held\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_is_read() {
        assert_eq!(read_range("3..10"), Ok(3..10));
        assert_eq!(read_range("0..1"), Ok(0..1));
    }

    #[test]
    fn the_summary_of_a_sweep_with_a_violation_counts_the_other_seeds() {
        let totals = Totals { seeds: 4, packets: 900, ..Totals::default() };
        let said = |one_failed| summary(&totals, Duration::from_secs(3), one_failed);
        let rest = "900 packets in 3.0 s (300 packets/s): every invariant held\n";
        assert_eq!(said(false), format!("4 seeds, {rest}"));
        assert_eq!(said(true), format!("4 other seeds, {rest}"));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "7", "..", "1..", "..9", "a..b", "-1..3", "1..=3", "9..9", "9..3"] {
            assert!(read_range(text).is_err(), "{text}");
        }
    }
}
