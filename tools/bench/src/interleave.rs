//! Benchmarks and their baselines run interleaved: short runs one after the other, for several rounds, each between two looks at
//! the placement of the processors.

use uroce_testbed::error::Result;

use crate::best::Best;
use crate::placement::{self, Place};
use crate::record::{Reading, Run, Series, Unit};
use crate::summary::shown;

/// One of those that run interleaved.
pub struct Benchmark<'a> {
    /// Unique in the group.
    pub name: String,
    /// Of its figure.
    pub unit: Unit,
    /// What it is compared with.
    pub baselines: Vec<String>,
    /// Makes one short run.
    pub run: Box<dyn FnMut() -> Result<Reading> + 'a>,
}

impl<'a> Benchmark<'a> {
    /// One that is compared with `baselines`.
    pub fn new(
        name: impl Into<String>,
        unit: Unit,
        baselines: &[&str],
        run: impl FnMut() -> Result<Reading> + 'a,
    ) -> Self {
        let baselines = baselines.iter().map(|name| (*name).to_owned()).collect();
        Self { name: name.into(), unit, baselines, run: Box::new(run) }
    }
}

/// The most rounds that are run for so many that count.
pub fn most_rounds(wanted: u32) -> u32 {
    3 * wanted
}

/// Runs `benchmarks` one after the other, until the first one, the baseline, was near its best in `wanted` rounds, or after
/// [`most_rounds`]. A run that fails is told on stderr and left out.
///
/// `first_round` is the number of the first round in its group, so that no two have the same. `best` is what baselines have
/// shown before.
pub fn run(
    group: &str,
    mut benchmarks: Vec<Benchmark<'_>>,
    first_round: u32,
    wanted: u32,
    best: &Best,
) -> Vec<Series> {
    let mut all: Vec<Series> = benchmarks.iter().map(|one| empty(group, one)).collect();
    let mut best = best.clone();
    let mut before_ns = placement::round_trip_ns();
    for round in first_round..first_round + most_rounds(wanted) {
        for (series, benchmark) in all.iter_mut().zip(&mut benchmarks) {
            let outcome = (benchmark.run)();
            let after_ns = placement::round_trip_ns();
            match outcome {
                Ok(reading) => {
                    tell(series, &reading, Place::of(before_ns, after_ns), after_ns);
                    series.runs.push(Run { round, before_ns, after_ns, reading });
                }
                Err(error) => eprintln!("  {}: a run failed: {error}", series.name),
            }
            before_ns = after_ns;
        }
        let enough = (round - first_round + 1) >= wanted
            && all.first().is_none_or(|baseline| is_done(baseline, wanted, &mut best));
        if enough {
            break;
        }
    }
    all
}

/// Whether a baseline was near its best often enough. What is nobody's baseline always is.
fn is_done(baseline: &Series, wanted: u32, best: &mut Best) -> bool {
    baseline.teach(best);
    let near = baseline.runs.iter().filter(|run| baseline.is_near(best, run)).count();
    // A run that failed does not come back by more rounds.
    near >= wanted as usize || !baseline.baselines.is_empty() || baseline.runs.is_empty()
}

fn empty(group: &str, benchmark: &Benchmark<'_>) -> Series {
    Series {
        group: group.to_owned(),
        name: benchmark.name.clone(),
        unit: benchmark.unit,
        baselines: benchmark.baselines.clone(),
        runs: Vec::new(),
    }
}

fn tell(series: &Series, reading: &Reading, place: Place, after_ns: f64) {
    let (figure, unit) = (shown(reading.value), series.unit.name());
    eprintln!("  {:44} {figure:>8} {unit:5} {:5} ({after_ns:.0} ns)", series.name, place.name());
}

#[cfg(test)]
mod tests {
    use uroce_testbed::error::Error;

    use super::*;

    #[test]
    fn contestants_alternate_and_a_failed_run_leaves_a_gap() {
        let mut calls = 0;
        let order = std::cell::RefCell::new(String::new());
        let benchmarks = vec![
            Benchmark::new("a", Unit::Us, &["b"], || {
                order.borrow_mut().push('a');
                calls += 1;
                if calls == 2 { Err(Error::new("broken")) } else { Ok(Reading::new(1.0)) }
            }),
            Benchmark::new("b", Unit::Us, &[], || {
                order.borrow_mut().push('b');
                Ok(Reading::new(2.0))
            }),
        ];
        let series = run("g", benchmarks, 5, 3, &Best::default());
        assert_eq!(order.into_inner(), "ababab");
        let rounds: Vec<_> = series[0].runs.iter().map(|run| run.round).collect();
        assert_eq!(rounds, [5, 7]);
        assert_eq!(series[1].runs.len(), 3, "a series with a baseline asks for no more rounds");
        assert_eq!(
            (series[0].baselines.as_slice(), series[1].runs.len()),
            (&["b".to_owned()][..], 3)
        );
    }

    #[test]
    fn rounds_beside_a_slow_baseline_are_run_again() {
        let figures = [10.0, 2.0, 3.0, 9.0, 10.0, 1.0];
        let mut calls = figures.iter();
        let baseline = Benchmark::new("tcp", Unit::Gbps, &[], || {
            calls.next().map(|&value| Reading::new(value)).ok_or_else(|| Error::new("no more"))
        });
        let series = run("g", vec![baseline], 0, 2, &Best::default());
        // Where the processors are changes on a busy machine: each place has a best of its own.
        assert!((2..=6).contains(&series[0].runs.len()), "{}", series[0].runs.len());
    }
}
