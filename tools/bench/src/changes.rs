//! What has changed since the record that was saved before: a slow-down that no target shows.

use std::fmt::Write as _;

use crate::best::Better;
use crate::counted::counted;
use crate::placement::Place;
use crate::record::{Record, Series};
use crate::summary::{Summary, shown};

/// How far medians lie apart at least.
const APART: f64 = 1.05;

/// Fewer runs that count say nothing.
const LEAST_RUNS: usize = 2;

/// The series of `now` whose figures are others than in `saved`, a line each, worse ones first; empty when nothing was saved.
pub fn text(saved: &Record, now: &Record) -> String {
    if saved.series.is_empty() {
        return String::new();
    }
    let (before, now) = (counted(saved), counted(now));
    let both = now
        .series
        .iter()
        .filter_map(|series| Some((before.find(&series.group, &series.name)?, series)));
    let mut changes: Vec<FigureChange<'_>> =
        both.flat_map(|(old, new)| changes(old, new)).collect();
    changes.sort_by_key(|change| !change.worse);
    let mut text = format!(
        "{} of the figures that count changed since commit {}: ranges apart, medians by 5 % and more\n",
        changes.len(),
        saved.machine.commit
    );
    for FigureChange { series, place, before, now, worse } in changes {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {} {:<44} {:<6} {:>6} -> {:>6} {} ({:.2})",
            if worse { "worse " } else { "better" },
            series.name,
            place.name(),
            shown(before.median),
            shown(now.median),
            series.unit.name(),
            now.median / before.median,
        );
    }
    text
}

/// One series with one placement.
struct FigureChange<'a> {
    series: &'a Series,
    place: Place,
    before: Summary,
    now: Summary,
    worse: bool,
}

/// For each placement in which the runs of `old` and `new` are apart.
fn changes<'a>(old: &Series, new: &'a Series) -> impl Iterator<Item = FigureChange<'a>> {
    [Place::Close, Place::Far].into_iter().filter_map(|place| {
        let (before, now) = (old.summary(place)?, new.summary(place)?);
        let more = now.median > before.median;
        let worse = more == (new.unit.better() == Better::Less);
        let change = FigureChange { series: new, place, before, now, worse };
        are_apart(&before, &now).then_some(change)
    })
}

fn are_apart(one: &Summary, other: &Summary) -> bool {
    let (low, high) = if one.median < other.median { (one, other) } else { (other, one) };
    low.count.min(high.count) >= LEAST_RUNS
        && low.max < high.min
        && high.median >= low.median * APART
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Unit;

    fn record(series: Vec<Series>) -> Record {
        let mut record = Record::new();
        record.series = series;
        record
    }

    #[test]
    fn what_is_apart_is_told_the_worse_first() {
        let saved = record(vec![
            Series::of_close("rises", Unit::Gbps, &[10.0, 11.0, 12.0]),
            Series::of_close("falls", Unit::Gbps, &[10.0, 11.0, 12.0]),
            Series::of_close("overlaps", Unit::Gbps, &[10.0, 14.0, 15.0]),
            Series::of_close("by little", Unit::Gbps, &[100.0, 101.0]),
            Series::of_close("once", Unit::Gbps, &[10.0]),
            Series::of_close("takes longer", Unit::Us, &[1.0, 1.1]),
            Series::of_close("is gone", Unit::Us, &[1.0, 1.1]),
        ]);
        let now = record(vec![
            Series::of_close("rises", Unit::Gbps, &[13.0, 14.0, 15.0]),
            Series::of_close("falls", Unit::Gbps, &[7.0, 8.0, 9.0]),
            Series::of_close("overlaps", Unit::Gbps, &[7.0, 8.0, 10.0]),
            Series::of_close("by little", Unit::Gbps, &[102.0, 103.0]),
            Series::of_close("once", Unit::Gbps, &[20.0, 21.0]),
            Series::of_close("takes longer", Unit::Us, &[2.0, 2.1]),
            Series::of_close("is new", Unit::Us, &[2.0, 2.1]),
        ]);
        let text = text(&saved, &now);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("3 of the figures that count changed"), "{text}");
        let found: Vec<_> = lines[1..].iter().map(|line| line.trim_start()).collect();
        assert!(found[0].starts_with("worse  falls") && found[0].ends_with("(0.73)"), "{text}");
        assert!(found[1].starts_with("worse  takes longer"), "{text}");
        assert!(found[2].starts_with("better rises"), "{text}");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn without_a_saved_record_nothing_is_compared() {
        let now = record(vec![Series::of_close("a", Unit::Gbps, &[1.0, 2.0])]);
        assert_eq!(text(&Record::new(), &now), "");
    }
}
