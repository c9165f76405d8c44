//! Runs of `uroce perf`: two processes at the two ends of a wire, or both ends in one process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, describe, stdout_of};
use uroce_testbed::workspace;

use crate::link::{FAR, Link};
use crate::record::Reading;

/// The port at which a server waits for the exchange of addresses.
pub const WAITS_AT: u16 = 18_515;
/// A run that takes longer than this hangs.
const LIMIT_SECONDS: &str = "120";
/// A server that is not ready after this time never will be.
const START: Duration = Duration::from_secs(5);
/// A server that still runs so long after its client ended hangs.
const LAST_WORD: Duration = Duration::from_secs(5);

/// The part of the JSON of `uroce perf` that is of use here.
#[derive(Debug, Clone, Deserialize)]
pub struct Report {
    results: Vec<Figures>,
    usage: Usage,
    setup: Making,
    counters: std::collections::BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(non_snake_case, reason = "the keys are those of perftest")]
struct Figures {
    MsgSize: f64,
    n_iterations: f64,
    BW_average: Option<f64>,
    MsgRate: Option<f64>,
    t_typical: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
struct Usage {
    elapsed_seconds: f64,
    cpu_seconds: f64,
}

/// What it took to make the queue pairs.
#[derive(Debug, Clone, Deserialize)]
struct Making {
    seconds: f64,
    resident_bytes: f64,
}

/// Both ends' reports of one run; a run in one process has only the client's.
#[derive(Debug, Clone)]
pub struct Reports {
    client: Report,
    server: Option<Report>,
}

/// Builds the program in the release profile and returns its path.
///
/// # Errors
/// It does not compile.
pub fn build() -> Result<PathBuf> {
    let words = ["build", "--release", "--locked", "--quiet", "--package", "uroce"];
    eprintln!("building uroce in the release profile");
    uroce_testbed::process::run(&mut workspace::cargo(&words))?;
    Ok(workspace::target_folder().join("release/uroce"))
}

/// Runs `perf WORDS` at both ends of `link`; `datapath` as in `--datapath`.
///
/// # Errors
/// One of the ends failed.
pub fn over(link: &Link, program: &Path, datapath: &str, words: &str) -> Result<Reports> {
    let mut line = perf(program, words);
    line.extend(["--datapath".to_owned(), datapath.to_owned()]);
    let server = Server::start(link.far(&line), || link.serves(WAITS_AT))?;
    line.push(FAR.to_owned());
    let client = measured(&stdout_of(&mut link.near(&line))?)?;
    Ok(Reports { client, server: Some(parse(&server.finish()?)?) })
}

/// Runs `perf WORDS` with both ends in one process.
///
/// # Errors
/// It failed.
pub fn alone(program: &Path, words: &str) -> Result<Reports> {
    let client = measured(&stdout_of(&mut command(perf(program, words)))?)?;
    Ok(Reports { client, server: None })
}

fn perf(program: &Path, words: &str) -> Vec<String> {
    let program = program.display().to_string();
    let mut line: Vec<String> = ["timeout", "-s", "KILL", LIMIT_SECONDS].map(String::from).into();
    line.extend([program, "perf".to_owned(), "--json".to_owned()]);
    for (place, part) in words.split('\'').enumerate() {
        match place % 2 {
            // In quotes: one word.
            1 => line.push(part.to_owned()),
            _ => line.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    line
}

fn parse(json: &str) -> Result<Report> {
    serde_json::from_str(json).context(|| "uroce perf printed no report")
}

/// The report of the end that measures; a server may have nothing to tell but its costs.
fn measured(json: &str) -> Result<Report> {
    let report = parse(json)?;
    match report.results.is_empty() {
        true => Err(Error::new("uroce perf measured nothing")),
        false => Ok(report),
    }
}

/// A server that ends by itself after one client.
#[derive(Debug)]
pub struct Server {
    child: Child,
    line: String,
    _guard: Guard,
}

impl Server {
    /// Starts `command` and waits until `ready`.
    ///
    /// # Errors
    /// It does not start, or is not ready within five seconds.
    pub fn start(mut command: Command, ready: impl Fn() -> bool) -> Result<Self> {
        let line = describe(&command);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context(|| format!("could not start `{line}`"))?;
        let mut server = Self { _guard: Guard::new(Leftover::Process(child.id())), child, line };
        let started = Instant::now();
        while !ready() {
            if !server.is_running() || started.elapsed() > START {
                let why = server.finish().err().map_or_else(String::new, |e| format!(": {e}"));
                return Err(Error::new(format!("the server did not come up{why}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Ends it, and waits until it is gone with all that it held.
    pub fn stop(mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }

    /// Waits for its end; what it wrote to its standard output.
    ///
    /// # Errors
    /// It failed.
    pub fn finish(mut self) -> Result<String> {
        let deadline = Instant::now() + LAST_WORD;
        while self.is_running() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if self.is_running() {
            let _ = self.child.kill();
        }
        let Self { child, line, _guard } = self;
        let output = child.wait_with_output().context(|| format!("lost `{line}`"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::new(format!("`{line}` failed ({}): {said}", output.status)))
    }
}

impl Reports {
    fn figures(&self) -> &Figures {
        &self.client.results[0]
    }

    fn bytes(&self) -> f64 {
        self.figures().MsgSize * self.figures().n_iterations
    }

    fn ends(&self) -> impl Iterator<Item = &Report> {
        std::iter::once(&self.client).chain(&self.server)
    }

    fn counter(&self, name: &str) -> f64 {
        self.ends().filter_map(|end| end.counters.get(name)).sum::<u64>() as f64
    }

    /// Processor time of both ends, and system calls of both for each packet sent.
    fn with_costs(&self, reading: Reading) -> Reading {
        let cpu: f64 = self.ends().map(|end| end.usage.cpu_seconds).sum();
        let packets = self.counter("datapath_tx_packets");
        let elapsed = self.client.usage.elapsed_seconds.max(1e-9);
        let reading = reading.with("cpu_s_per_gb", cpu / (self.bytes() / 1e9));
        let reading = reading.with("cpu_s_per_s", cpu / elapsed);
        match packets > 0.0 {
            true => {
                reading.with("syscalls_per_packet", self.counter("datapath_syscalls") / packets)
            }
            false => reading,
        }
    }

    /// Gigabits of payload a second.
    pub fn bandwidth(&self) -> Reading {
        let mib = self.figures().BW_average.unwrap_or(0.0);
        self.with_costs(Reading::new(mib * 1_048_576.0 * 8.0 / 1e9))
    }

    /// Million messages a second.
    pub fn rate(&self) -> Reading {
        self.with_costs(Reading::new(self.figures().MsgRate.unwrap_or(0.0)))
    }

    /// Microseconds that it took to make each of `qps` queue pairs.
    pub fn create_us(&self, qps: u32) -> f64 {
        self.client.setup.seconds * 1e6 / f64::from(qps)
    }

    /// KiB that each of `qps` queue pairs takes before it is used.
    pub fn memory_kib(&self, qps: u32) -> f64 {
        self.client.setup.resident_bytes / 1024.0 / f64::from(qps)
    }

    /// The median latency in microseconds: half a round trip for WRITE and SEND, all of it else.
    pub fn latency(&self) -> Reading {
        Reading::new(self.figures().t_typical.unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"version": 1, "test_info": {}, "partial": false,
        "results": [{"MsgSize": 1000, "n_iterations": 1000000, "BW_average": 1192.0929, "MsgRate": 1.25}],
        "usage": {"elapsed_seconds": 0.8, "cpu_seconds": 0.4},
        "setup": {"seconds": 0.001, "resident_bytes": 8192},
        "counters": {"datapath_tx_packets": 1000, "datapath_syscalls": 50}}"#;

    #[test]
    fn a_report_becomes_figures_in_decimal_units() {
        let client = parse(REPORT).expect("a report");
        let both = Reports { server: Some(client.clone()), client };
        let bandwidth = both.bandwidth();
        assert!((bandwidth.value - 10.0).abs() < 1e-3, "{bandwidth:?}");
        assert!((bandwidth.extra["cpu_s_per_gb"] - 0.8).abs() < 1e-9, "{bandwidth:?}");
        assert!((bandwidth.extra["syscalls_per_packet"] - 0.05).abs() < 1e-9, "{bandwidth:?}");
        assert_eq!(both.rate().value, 1.25);
        assert_eq!((both.create_us(10), both.memory_kib(2)), (100.0, 4.0));
    }

    #[test]
    fn a_report_without_results_is_an_error() {
        let empty = r#"{"results": [], "usage": {"elapsed_seconds": 0, "cpu_seconds": 0}, "counters": {},
            "setup": {"seconds": 0, "resident_bytes": 0}}"#;
        assert!(measured(empty).is_err() && measured("nothing").is_err());
        assert!(parse(empty).is_ok(), "as of a server");
    }
}
