//! Benchmarks and their baselines run interleaved: short runs one after the other, for several rounds, each between two looks at
//! the placement of the processors.

use uroce_testbed::error::Result;

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

/// Runs `benchmarks` one after the other, for `rounds` rounds. A run that fails is told on stderr and left out.
///
/// `first_round` is the number of the first round in its group, so that no two have the same.
pub fn run_interleaved(
    group: &str,
    mut benchmarks: Vec<Benchmark<'_>>,
    first_round: u32,
    rounds: u32,
) -> Vec<Series> {
    let mut all: Vec<Series> = benchmarks.iter().map(|one| empty(group, one)).collect();
    let mut before_ns = placement::round_trip_ns();
    for round in first_round..first_round + rounds {
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
    }
    all
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
        let series = run_interleaved("g", benchmarks, 5, 3);
        assert_eq!(order.into_inner(), "ababab");
        let rounds: Vec<_> = series[0].runs.iter().map(|run| run.round).collect();
        assert_eq!(rounds, [5, 7]);
        assert_eq!(
            (series[0].baselines.as_slice(), series[1].runs.len()),
            (&["b".to_owned()][..], 3)
        );
    }
}
