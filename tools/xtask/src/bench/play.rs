//! Rivals take turns: short runs one after the other, for several rounds, each between two looks at
//! the placement of the processors.

use super::placement::{self, Place};
use super::record::{Reading, Run, Series, Unit};
use super::summary::shown;
use crate::error::Result;

/// One of those who take turns.
pub struct Contestant<'a> {
    /// Unique in the group.
    pub name: String,
    /// Of its figure.
    pub unit: Unit,
    /// With whom it is compared.
    pub rivals: Vec<String>,
    /// Makes one short run.
    pub run: Box<dyn FnMut() -> Result<Reading> + 'a>,
}

impl<'a> Contestant<'a> {
    /// One that is compared with `rivals`.
    pub fn new(
        name: impl Into<String>,
        unit: Unit,
        rivals: &[&str],
        run: impl FnMut() -> Result<Reading> + 'a,
    ) -> Self {
        let rivals = rivals.iter().map(|name| (*name).to_owned()).collect();
        Self { name: name.into(), unit, rivals, run: Box::new(run) }
    }
}

/// Lets `contestants` take turns for `rounds` rounds. A run that fails is told on stderr and left out.
///
/// `first_round` is the number of the first round in its group, so that no two have the same.
pub fn play(
    group: &str,
    mut contestants: Vec<Contestant<'_>>,
    first_round: u32,
    rounds: u32,
) -> Vec<Series> {
    let mut all: Vec<Series> = contestants.iter().map(|one| empty(group, one)).collect();
    let mut before_ns = placement::round_trip_ns();
    for round in first_round..first_round + rounds {
        for (series, contestant) in all.iter_mut().zip(&mut contestants) {
            let outcome = (contestant.run)();
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

fn empty(group: &str, contestant: &Contestant<'_>) -> Series {
    Series {
        group: group.to_owned(),
        name: contestant.name.clone(),
        unit: contestant.unit,
        rivals: contestant.rivals.clone(),
        runs: Vec::new(),
    }
}

fn tell(series: &Series, reading: &Reading, place: Place, after_ns: f64) {
    let (figure, unit) = (shown(reading.value), series.unit.name());
    eprintln!("  {:44} {figure:>8} {unit:5} {:5} ({after_ns:.0} ns)", series.name, place.name());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn contestants_alternate_and_a_failed_run_leaves_a_gap() {
        let mut calls = 0;
        let order = std::cell::RefCell::new(String::new());
        let contestants = vec![
            Contestant::new("a", Unit::Us, &["b"], || {
                order.borrow_mut().push('a');
                calls += 1;
                if calls == 2 { Err(Error::new("broken")) } else { Ok(Reading::new(1.0)) }
            }),
            Contestant::new("b", Unit::Us, &[], || {
                order.borrow_mut().push('b');
                Ok(Reading::new(2.0))
            }),
        ];
        let series = play("g", contestants, 5, 3);
        assert_eq!(order.into_inner(), "ababab");
        let rounds: Vec<_> = series[0].runs.iter().map(|run| run.round).collect();
        assert_eq!(rounds, [5, 7]);
        assert_eq!((series[0].rivals.as_slice(), series[1].runs.len()), (&["b".to_owned()][..], 3));
    }
}
