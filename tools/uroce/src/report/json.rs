//! The machine-readable form of a result.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::faults;
use crate::latency::Latencies;
use crate::peak::Bandwidth;
use crate::usage::{Setup, Usage};

/// Version of the format: it rises when a key changes its meaning or goes away.
pub const VERSION: u32 = 1;

/// An object with these fields. All go one by one into a map of one type: to collect each list of its own type would be a
/// sort of its own for each, some kilobytes of code.
pub fn object<V: Into<Value>>(
    fields: impl IntoIterator<Item = (impl Into<String>, V)>,
) -> Map<String, Value> {
    let mut object = Map::new();
    object.extend(fields.into_iter().map(|(name, value)| (name.into(), value.into())));
    object
}

/// One run of `uroce perf`.
#[derive(Debug, Serialize)]
pub struct PerfReport {
    /// [`VERSION`].
    pub version: u32,
    /// How it was run.
    pub test_info: TestInfo,
    /// One entry for each message size.
    pub results: Vec<PerfResult>,
    /// What this process used from the exchange of keys to the end, all sizes together.
    pub usage: Usage,
    /// What it took to make the queue pairs.
    pub setup: Setup,
    /// The counters of the device and its datapath that are not 0, from opening to the end.
    pub counters: BTreeMap<&'static str, u64>,
    /// Outcome of `--verify`; absent without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// True if Ctrl-C or the peer ended the run early.
    pub partial: bool,
}

/// How a test was run.
#[derive(Debug, Clone, Serialize)]
pub struct TestInfo {
    /// `write_bw`, ...
    pub test: String,
    /// `client` or `server`.
    pub role: &'static str,
    /// Device name.
    pub device: String,
    /// Our address.
    pub local: String,
    /// The peer's address.
    pub remote: String,
    /// `RC`, `UC`, `UD`.
    pub connection: &'static str,
    /// Queue pairs.
    pub qps: u32,
    /// Path MTU in bytes.
    pub mtu: usize,
    /// Send queue depth.
    pub tx_depth: u32,
    /// Completions per signalled work request.
    pub cq_mod: u32,
    /// Inline bytes.
    pub inline: u32,
    /// Both directions at once.
    pub bidirectional: bool,
}

/// One message size.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum PerfResult {
    /// Of a bandwidth test.
    Bandwidth(BandwidthResult),
    /// Of a latency test.
    Latency(LatencyResult),
}

/// Names as in perftest's JSON; MiB/s and Mpps.
#[derive(Debug, Clone, Serialize)]
#[allow(non_snake_case, reason = "the keys are those of perftest")]
pub struct BandwidthResult {
    MsgSize: u64,
    n_iterations: u64,
    BW_peak: f64,
    BW_average: f64,
    MsgRate: f64,
    unit: &'static str,
}

impl From<&Bandwidth> for BandwidthResult {
    fn from(row: &Bandwidth) -> Self {
        BandwidthResult {
            MsgSize: row.size,
            n_iterations: row.iterations,
            BW_peak: row.peak,
            BW_average: row.average,
            MsgRate: row.rate,
            unit: "MiB/s",
        }
    }
}

/// Names as in perftest's JSON, and more percentiles; microseconds.
#[derive(Debug, Clone, Serialize)]
#[allow(non_snake_case, reason = "the keys are those of perftest")]
pub struct LatencyResult {
    MsgSize: u64,
    n_iterations: u64,
    t_min: f64,
    t_max: f64,
    t_typical: f64,
    t_avg: f64,
    t_stdev: f64,
    t_75: f64,
    t_90: f64,
    t_95: f64,
    t_99: f64,
    t_99_9: f64,
    t_99_99: f64,
    tps_average: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<Vec<f64>>,
}

impl LatencyResult {
    /// The figures of one size.
    pub fn new(size: u64, iterations: u64, per_second: f64, row: &Latencies) -> Self {
        LatencyResult {
            MsgSize: size,
            n_iterations: iterations,
            t_min: row.min(),
            t_max: row.max(),
            t_typical: row.percentile(50.0),
            t_avg: row.average(),
            t_stdev: row.deviation(),
            t_75: row.percentile(75.0),
            t_90: row.percentile(90.0),
            t_95: row.percentile(95.0),
            t_99: row.percentile(99.0),
            t_99_9: row.percentile(99.9),
            t_99_99: row.percentile(99.99),
            tps_average: per_second,
            unit: "usec",
            samples: None,
        }
    }

    /// With every sample, if it is asked for.
    pub fn with_samples(self, samples: Option<Vec<f64>>) -> Self {
        LatencyResult { samples, ..self }
    }
}

/// An object was printed.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// How an object is written.
#[derive(Clone, Copy)]
enum JsonLayout {
    /// A key a line.
    Indented,
    /// All of it in one line.
    Line,
}

/// Prints a value as JSON on stdout.
pub fn print(value: &impl Serialize) {
    print_as(value, JsonLayout::Indented);
}

/// Prints a report, and why the run failed: with the keys of a failure that has no result.
pub fn print_with(report: &impl Serialize, failure: Option<&Failure>) {
    print(&Ended { report, failure: failure.map(FailureReport::from) });
}

/// A report, and how the run ended.
#[derive(Debug, Serialize)]
struct Ended<'a, T> {
    #[serde(flatten)]
    report: T,
    #[serde(flatten)]
    failure: Option<FailureReport<'a>>,
}

/// Why a run failed.
#[derive(Debug, Serialize)]
struct FailureReport<'a> {
    error: &'a str,
    help: Option<&'a str>,
    exit: u8,
}

impl<'a> From<&'a Failure> for FailureReport<'a> {
    fn from(failure: &'a Failure) -> Self {
        let (error, help) = (failure.what.as_str(), failure.help.as_deref());
        FailureReport { error, help, exit: failure.exit as u8 }
    }
}

/// Prints an object that is written out already.
pub fn print_text(object: &str) {
    PRINTED.store(true, Ordering::Relaxed);
    super::out(&format!("{}\n", object.trim_end()));
}

fn print_as(value: &impl Serialize, layout: JsonLayout) {
    match text_of(value, layout) {
        Ok(text) => print_text(&text),
        Err(error) => tracing::error!(%error, "the result has no JSON form"),
    }
}

/// With what the faults did, if there were any. The keys are in their own order otherwise.
fn text_of(value: &impl Serialize, layout: JsonLayout) -> serde_json::Result<String> {
    let Some(report) = faults::report() else {
        return layout.text_of(value);
    };
    let mut value = serde_json::to_value(value)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("faults".to_owned(), serde_json::to_value(report)?);
    }
    layout.text_of(&value)
}

impl JsonLayout {
    fn text_of(self, value: &impl Serialize) -> serde_json::Result<String> {
        match self {
            Self::Indented => serde_json::to_string_pretty(value),
            Self::Line => serde_json::to_string(value),
        }
    }
}

/// Prints why there is no result, if there is none: `--json` gives one object, whatever happens. It is one line, since some
/// commands print an object a line, and fail behind some of them.
pub fn print_failure(failure: &Failure) {
    if !PRINTED.load(Ordering::Relaxed) {
        let report = object([("version", VERSION)]);
        print_as(&Ended { report, failure: Some(failure.into()) }, JsonLayout::Line);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn keys_are_those_of_perftest() {
        let row = Bandwidth { size: 4096, iterations: 5, ..Bandwidth::default() };
        let text = serde_json::to_value(PerfResult::Bandwidth((&row).into())).expect("plain data");
        assert_eq!((&text["MsgSize"], &text["n_iterations"]), (&4096.into(), &5.into()));
        let mut times = Latencies::new(true, true);
        times.add(Duration::from_micros(10));
        let row = LatencyResult::new(2, 2, 1.0, &times);
        let with = row.clone().with_samples(times.samples());
        let text = serde_json::to_value(PerfResult::Latency(row)).expect("plain data");
        assert_eq!(
            (&text["t_min"], &text["t_75"], &text["t_95"]),
            (&5.0.into(), &5.0.into(), &5.0.into())
        );
        assert!(text.get("samples").is_none(), "{text}");
        let text = serde_json::to_value(PerfResult::Latency(with)).expect("plain data");
        assert_eq!(text["samples"], serde_json::json!([5.0]));
    }

    #[test]
    fn a_report_of_a_run_that_failed_says_why() {
        let report = object([("partial", true)]);
        let text = |failure: Option<&Failure>| {
            let failure = failure.map(FailureReport::from);
            serde_json::to_string(&Ended { report: &report, failure }).expect("plain data")
        };
        let gone = Failure::peer("it is gone").help("look there");
        assert_eq!(
            text(Some(&gone)),
            r#"{"partial":true,"error":"it is gone","help":"look there","exit":4}"#
        );
        assert_eq!(text(None), r#"{"partial":true}"#);
    }
}
