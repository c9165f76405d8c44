//! Runs of iperf3: one TCP stream with its defaults.

use serde::Deserialize;
use uroce_testbed::error::{Context, Result};
use uroce_testbed::packages;
use uroce_testbed::process::stdout_of;

use crate::link::{FAR, Link};
use crate::record::Reading;
use crate::uroce::Server;

const PORT: u16 = 5201;

/// Makes sure that iperf3 is installed: with apt when running as root.
///
/// # Errors
/// It is missing and may not be installed; the sentence says what to do.
pub fn ensure() -> Result<()> {
    packages::ensure(&["iperf3"])
}

#[derive(Debug, Deserialize)]
struct Report {
    end: End,
}

#[derive(Debug, Deserialize)]
struct End {
    sum_received: Sum,
    sum_sent: Sum,
    cpu_utilization_percent: Cpu,
}

#[derive(Debug, Deserialize)]
struct Sum {
    seconds: f64,
    bytes: f64,
    bits_per_second: f64,
    #[serde(default)]
    retransmits: f64,
}

/// Percent of one processor at the two ends.
#[derive(Debug, Deserialize)]
struct Cpu {
    host_total: f64,
    remote_total: f64,
}

/// One TCP stream over `link` for so many seconds, with the named congestion control.
///
/// # Errors
/// One of the ends failed; the kernel may lack that congestion control.
pub fn over(link: &Link, congestion: &str, seconds: u32) -> Result<Reading> {
    let server = Server::start(link.far(&server_line()), || link.serves(PORT))?;
    let said = stdout_of(&mut link.near(&client_line(FAR, congestion, seconds)))?;
    server.finish()?;
    parse(&said)
}

/// One TCP stream over the loopback interface of this machine.
///
/// # Errors
/// As [`over`].
pub fn over_lo(congestion: &str, seconds: u32) -> Result<Reading> {
    let namespace = uroce_testbed::netns::NetNs::create("bench")?;
    let server = Server::start(namespace.command(&server_line()), || namespace.listens(PORT))?;
    let line = client_line("127.0.0.1", congestion, seconds);
    let said = stdout_of(&mut namespace.command(&line))?;
    server.finish()?;
    parse(&said)
}

fn server_line() -> Vec<String> {
    "iperf3 -s -1".split(' ').map(str::to_owned).collect()
}

fn client_line(server: &str, congestion: &str, seconds: u32) -> Vec<String> {
    let line = format!("iperf3 -c {server} -J -C {congestion} -t {seconds}");
    line.split(' ').map(str::to_owned).collect()
}

fn parse(json: &str) -> Result<Reading> {
    let report: Report = serde_json::from_str(json).context(|| "iperf3 printed no report")?;
    let End { sum_received, sum_sent, cpu_utilization_percent: cpu } = report.end;
    let cpu_seconds = (cpu.host_total + cpu.remote_total) / 100.0 * sum_received.seconds;
    Ok(Reading::new(sum_received.bits_per_second / 1e9)
        .with("cpu_s_per_gb", cpu_seconds / (sum_received.bytes / 1e9).max(1e-9))
        .with("retransmits", sum_sent.retransmits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_counts() {
        let json = r#"{"start": {}, "end": {
            "sum_sent": {"seconds": 1, "bytes": 1100000000, "bits_per_second": 8.8e9, "retransmits": 46},
            "sum_received": {"seconds": 1, "bytes": 1000000000, "bits_per_second": 8e9},
            "cpu_utilization_percent": {"host_total": 20, "remote_total": 70}}}"#;
        let reading = parse(json).expect("a report");
        assert_eq!((reading.value, reading.extra["retransmits"]), (8.0, 46.0));
        assert!((reading.extra["cpu_s_per_gb"] - 0.9).abs() < 1e-9);
    }
}
