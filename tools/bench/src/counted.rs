//! Which runs count: those beside a baseline that was near its best.
//!
//! A ratio beside a baseline that was slowed down by something else flatters. So a run counts only when its first
//! baseline, in the same round, came near the best that it has ever shown with that placement of the processors.

use std::collections::BTreeSet;

use crate::record::{Record, Run, Series};

/// The record with those runs only that count.
pub fn counted(record: &Record) -> Record {
    let mut counted = record.clone();
    for series in &mut counted.series {
        let whole = series.clone();
        series.runs.retain(|run| counts(record, &whole, run, &mut BTreeSet::new()));
    }
    counted
}

/// Whether the baseline, or what that is compared with in turn, was near its best in the round of `run`.
fn counts(record: &Record, series: &Series, run: &Run, seen: &mut BTreeSet<String>) -> bool {
    if record.is_baseline(series) {
        return series.is_near(&record.best, run);
    }
    let first = series.baselines.first().filter(|name| **name != series.name);
    let Some(name) = first else {
        return true;
    };
    let Some(baseline) = record.find(&series.group, name) else {
        return false;
    };
    let mut runs = baseline.runs.iter();
    let beside = runs.find(|other| other.round == run.round);
    seen.insert(name.clone()) && beside.is_some_and(|run| counts(record, baseline, run, seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Unit;

    fn series(name: &str, unit: Unit, baselines: &[&str], figures: &[f64]) -> Series {
        let baselines = baselines.iter().map(|name| (*name).to_owned()).collect();
        Series { baselines, ..Series::of_close(name, unit, figures) }
    }

    fn rounds(record: &Record, name: &str) -> Vec<u32> {
        let found = record.find("g", name).expect("a series");
        found.runs.iter().map(|run| run.round).collect()
    }

    #[test]
    fn runs_beside_a_slow_baseline_do_not_count_nor_what_is_compared_with_them() {
        let mut record = Record::new();
        record.series = vec![
            series("tcp", Unit::Gbps, &[], &[10.0, 2.0, 8.0]),
            series("write", Unit::Gbps, &["tcp"], &[1.0, 2.0, 3.0, 4.0]),
            series("read", Unit::Gbps, &["write", "tcp"], &[5.0, 6.0]),
            series("memory", Unit::KiB, &[], &[1.0, 9.0]),
        ];
        record.learn();
        let counted = counted(&record);
        assert_eq!(rounds(&counted, "tcp"), [0, 2]);
        assert_eq!(rounds(&counted, "write"), [0, 2], "nothing stood beside the last one");
        assert_eq!(rounds(&counted, "read"), [0]);
        assert_eq!(rounds(&counted, "memory"), [0, 1], "it is nobody's baseline");
    }

    #[test]
    fn series_that_name_each_other_as_baselines_do_not_count() {
        let mut record = Record::new();
        record.series = vec![
            series("a", Unit::Gbps, &["b"], &[1.0]),
            series("b", Unit::Gbps, &["a"], &[1.0]),
            series("alone", Unit::Gbps, &["alone"], &[1.0]),
        ];
        let counted = counted(&record);
        assert!(rounds(&counted, "a").is_empty() && rounds(&counted, "b").is_empty());
        assert_eq!(rounds(&counted, "alone"), [0]);
    }
}
