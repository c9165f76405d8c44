//! What was measured: series of runs, kept as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uroce_testbed::error::{Context, Error, Result};

use crate::best::{Best, Better};
use crate::machine::Machine;
use crate::placement::Place;
use crate::summary::Summary;

/// Version of the file's format.
const VERSION: u32 = 1;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Gigabits of payload a second.
    #[serde(rename = "Gb/s")]
    Gbps,
    /// Microseconds.
    #[serde(rename = "us")]
    Us,
    /// Million messages or packets a second.
    #[serde(rename = "M/s")]
    Mmps,
    /// How many in a second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// KiB of memory.
    #[serde(rename = "KiB")]
    KiB,
    /// Percent of one processor.
    #[serde(rename = "%")]
    Percent,
}

impl Unit {
    /// Which figures are good.
    pub fn better(self) -> Better {
        match self {
            Self::Gbps | Self::Mmps | Self::PerSecond => Better::More,
            Self::Us | Self::KiB | Self::Percent => Better::Less,
        }
    }

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gbps => "Gb/s",
            Self::Us => "us",
            Self::Mmps => "M/s",
            Self::PerSecond => "1/s",
            Self::KiB => "KiB",
            Self::Percent => "%",
        }
    }
}

/// One figure of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// In the unit of its series.
    pub value: f64,
    /// Other things that the run told, by name: `cpu_s_per_gb`, `syscalls_per_packet`, ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, f64>,
}

impl Reading {
    /// A bare figure.
    pub fn new(value: f64) -> Self {
        Self { value, extra: BTreeMap::new() }
    }

    /// The same with one thing more.
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.extra.insert(name.to_owned(), value);
        self
    }
}

/// One run, with the placement around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Runs of one round were made one after the other.
    pub round: u32,
    /// Hand-off between the processors before it, nanoseconds.
    pub before_ns: f64,
    /// And after it.
    pub after_ns: f64,
    /// What it measured.
    #[serde(flatten)]
    pub reading: Reading,
}

impl Run {
    /// Where the processors were.
    pub fn place(&self) -> Place {
        Place::of(self.before_ns, self.after_ns)
    }
}

/// All runs of one thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The group: `bandwidth`, `latency`, ...
    pub group: String,
    /// What was run, unique in its group.
    pub name: String,
    /// Of all its figures.
    pub unit: Unit,
    /// The series of the group that it is compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<String>,
    /// In order.
    pub runs: Vec<Run>,
}

impl Series {
    /// The figures of one placement.
    pub fn summary(&self, place: Place) -> Option<Summary> {
        let runs = self.runs.iter().filter(|run| run.place() == place);
        Summary::of(runs.map(|run| run.reading.value).collect())
    }

    /// Our figure over the baseline's, of rounds where both had this placement.
    pub fn ratio(&self, baseline: &Self, place: Place) -> Option<Summary> {
        let of_round = |round| {
            let mut runs = baseline.runs.iter();
            runs.find(|run| run.round == round && run.place() == place)
        };
        let ours = self.runs.iter().filter(|run| run.place() == place);
        let ratios = ours.filter_map(|run| {
            let theirs = of_round(run.round)?.reading.value;
            (theirs > 0.0).then(|| run.reading.value / theirs)
        });
        Summary::of(ratios.collect())
    }

    /// Its name among those of all groups and placements.
    pub fn place_key(&self, place: Place) -> String {
        format!("{}/{}/{}", self.group, self.name, place.name())
    }

    /// Enters its runs into `best`.
    pub fn teach(&self, best: &mut Best) {
        for run in &self.runs {
            best.learn(self.place_key(run.place()), run.reading.value, self.unit.better());
        }
    }

    /// Whether one of its runs came near the best.
    pub fn is_near(&self, best: &Best, run: &Run) -> bool {
        best.is_near(&self.place_key(run.place()), run.reading.value, self.unit.better())
    }

    /// The median of something else that the runs told.
    pub fn extra(&self, name: &str) -> Option<f64> {
        let found = self.runs.iter().filter_map(|run| run.reading.extra.get(name).copied());
        Summary::of(found.collect()).map(|summary| summary.median)
    }
}

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// Where.
    pub machine: Machine,
    /// What.
    pub series: Vec<Series>,
    /// What baselines have shown on this machine, in these runs and in those that they replaced.
    #[serde(default)]
    pub best: Best,
}

impl Record {
    /// Empty, of this machine.
    pub fn new() -> Self {
        let (series, best) = (Vec::new(), Best::default());
        Self { version: VERSION, machine: Machine::here(), series, best }
    }

    /// Reads a file; an empty record when there is none.
    ///
    /// # Errors
    /// It is not such a file.
    pub fn read(path: &Path) -> Result<Self> {
        let Ok(text) = fs::read_to_string(path) else {
            return Ok(Self::new());
        };
        let record: Self =
            serde_json::from_str(&text).context(|| format!("{} is no record", path.display()))?;
        match record.version {
            VERSION => Ok(record),
            other => Err(Error::new(format!(
                "{} has version {other} of the format, this program knows {VERSION}: remove it",
                path.display()
            ))),
        }
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The folder does not exist or cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context(|| "the record has no JSON form")?;
        fs::write(path, text + "\n").context(|| format!("could not write {}", path.display()))
    }

    /// The series called `name` in `group`.
    pub fn find(&self, group: &str, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.group == group && series.name == name)
    }

    /// Takes over the series of `newer`: in place of those of the same name, or behind their runs. What was measured on
    /// another machine goes.
    pub fn absorb(&mut self, newer: Self, append: bool) {
        if !self.machine.is_same(&newer.machine) {
            self.best = Best::default();
            self.series.clear();
        }
        let first = 1 + self.last_round();
        self.machine = newer.machine;
        for mut series in newer.series {
            let old = self
                .series
                .iter_mut()
                .find(|old| old.group == series.group && old.name == series.name);
            match old {
                Some(old) if append => {
                    series.runs.iter_mut().for_each(|run| run.round += first);
                    old.runs.append(&mut series.runs);
                }
                Some(old) => *old = series,
                None => {
                    if append {
                        series.runs.iter_mut().for_each(|run| run.round += first);
                    }
                    self.series.push(series);
                }
            }
        }
        self.learn();
    }

    /// A series without a baseline that is the baseline of another one.
    pub fn is_baseline(&self, series: &Series) -> bool {
        let mut group = self.series.iter().filter(|other| other.group == series.group);
        series.baselines.is_empty() && group.any(|other| other.baselines.contains(&series.name))
    }

    /// Learns the best of all baselines from their runs.
    pub fn learn(&mut self) {
        let mut best = self.best.clone();
        let baselines = self.series.iter().filter(|series| self.is_baseline(series));
        baselines.for_each(|series| series.teach(&mut best));
        self.best = best;
    }

    fn last_round(&self) -> u32 {
        let runs = self.series.iter().flat_map(|series| &series.runs);
        runs.map(|run| run.round).max().unwrap_or(0)
    }
}

#[cfg(test)]
impl Series {
    /// Of group `g` without a baseline; each run is its round, the hand-off around it in nanoseconds, and its figure.
    pub fn of_runs(
        name: &str,
        unit: Unit,
        runs: impl IntoIterator<Item = (u32, f64, f64)>,
    ) -> Self {
        let run = |(round, ns, value)| Run {
            round,
            before_ns: ns,
            after_ns: ns,
            reading: Reading::new(value),
        };
        let (group, name) = ("g".to_owned(), name.to_owned());
        let runs = runs.into_iter().map(run).collect();
        Self { group, name, unit, baselines: Vec::new(), runs }
    }

    /// The same with a figure a round, all *close*.
    pub fn of_close(name: &str, unit: Unit, figures: &[f64]) -> Self {
        let runs = (0..).zip(figures).map(|(round, &value)| (round, 100.0, value));
        Self::of_runs(name, unit, runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, runs: &[(u32, f64, f64)]) -> Series {
        Series::of_runs(name, Unit::Gbps, runs.iter().copied())
    }

    #[test]
    fn only_runs_of_one_round_and_one_placement_are_compared() {
        let ours = series("ours", &[(0, 100.0, 30.0), (1, 400.0, 10.0), (2, 100.0, 40.0)]);
        let theirs = series("theirs", &[(0, 100.0, 20.0), (1, 100.0, 20.0), (3, 100.0, 1.0)]);
        let close = ours.ratio(&theirs, Place::Close).expect("round 0");
        assert_eq!((close.median, close.count), (1.5, 1));
        assert_eq!(ours.ratio(&theirs, Place::Far), None);
    }

    #[test]
    fn newer_runs_replace_older_ones_or_follow_them() {
        let mut record = Record::new();
        record.series.push(series("a", &[(0, 100.0, 1.0)]));
        let newer = Record { series: vec![series("a", &[(0, 100.0, 2.0)])], ..record.clone() };
        let mut longer = record.clone();
        longer.absorb(newer.clone(), true);
        let rounds: Vec<_> = longer.series[0].runs.iter().map(|run| run.round).collect();
        assert_eq!(rounds, [0, 1]);
        record.absorb(newer, false);
        assert_eq!(record.series[0].summary(Place::Close).map(|summary| summary.median), Some(2.0));
        assert_eq!(record.series[0].runs.len(), 1);
    }

    #[test]
    fn nothing_of_another_machine_stays_beside_newer_runs() {
        let mut record = Record::new();
        record.series = vec![series("a", &[(0, 100.0, 1.0)]), series("b", &[(0, 100.0, 1.0)])];
        record.machine.processor = "another one".into();
        record.best.learn("a".into(), 9.0, Better::More);
        let newer = Record { series: vec![series("a", &[(0, 100.0, 2.0)])], ..Record::new() };
        record.absorb(newer, true);
        let names: Vec<_> = record.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!((names, record.series[0].runs.len()), (vec!["a"], 1));
        assert_eq!(record.best.of("a"), None);
    }
}
