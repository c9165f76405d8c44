//! A short look at speed: it says what this machine does now, not what the NIC can do.

use std::time::{Duration, Instant};

use serde::Serialize;
use uroce_verbs::{SendWr, WorkCompletion};

use super::node::{Pair, STEP_TIMEOUT};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::latency::Latencies;

/// How long each row is measured.
const TIME: Duration = Duration::from_millis(400);
/// Messages in flight.
const DEPTH: u64 = 32;
const SIZES: [usize; 3] = [64, 4096, 65536];

/// One row.
#[derive(Debug, Serialize)]
pub struct Speed {
    operation: &'static str,
    bytes: usize,
    messages: u64,
    mib_per_second: Option<f64>,
    median_us: Option<f64>,
    p99_us: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Write,
    Read,
}

/// Measures bandwidth and latency of WRITE and READ, until the user stops it.
///
/// # Errors
/// Exit 1 if an operation fails.
pub fn measure(pair: &Pair, interrupt: &Interrupt) -> Result<Vec<Speed>, Failure> {
    let mut rows = Vec::new();
    for (operation, op) in [("WRITE bandwidth", Op::Write), ("READ bandwidth", Op::Read)] {
        for size in SIZES {
            if interrupt.is_set() {
                return Ok(rows);
            }
            rows.push(bandwidth(pair, operation, op, size).map_err(Failure::test)?);
        }
    }
    for (operation, op) in [("WRITE latency", Op::Write), ("READ latency", Op::Read)] {
        if interrupt.is_set() {
            return Ok(rows);
        }
        rows.push(latency(pair, operation, op).map_err(Failure::test)?);
    }
    Ok(rows)
}

fn post(pair: &Pair, op: Op, size: usize) -> Result<(), String> {
    let a = &pair.a;
    let sges = [a.sge(0, size)];
    let remote = pair.b.mr.remote().part(..size);
    let wr = match op {
        Op::Write => SendWr::write(1, &sges, remote),
        Op::Read => SendWr::read(1, &sges, remote),
    };
    a.rc.post_send(&[wr.signaled()]).map_err(|error| error.to_string())
}

fn bandwidth(pair: &Pair, operation: &'static str, op: Op, bytes: usize) -> Result<Speed, String> {
    let start = Instant::now();
    let depth = if op == Op::Read { DEPTH / 2 } else { DEPTH };
    let (mut posted, mut done) = (0, 0);
    while start.elapsed() < TIME || done < posted {
        while posted - done < depth && start.elapsed() < TIME {
            post(pair, op, bytes)?;
            posted += 1;
        }
        done += reap(pair)?;
        if start.elapsed() > TIME * 10 {
            return Err(format!("{operation} stopped after {done} messages"));
        }
    }
    let rate = (done * bytes as u64) as f64 / start.elapsed().as_secs_f64() / 1_048_576.0;
    Ok(Speed {
        operation,
        bytes,
        messages: done,
        mib_per_second: Some(rate),
        median_us: None,
        p99_us: None,
    })
}

/// Completions at A. While there are none B polls too, so that both NICs work in this thread and
/// the figures do not depend on how busy the other processors are.
fn reap(pair: &Pair) -> Result<u64, String> {
    let mut out = [WorkCompletion::default(); 16];
    let count = pair.a.cq.poll(&mut out);
    if count == 0 {
        pair.b.cq.poll(&mut [WorkCompletion::default()]);
    }
    match out[..count].iter().find(|completion| !completion.is_ok()) {
        Some(bad) => Err(bad.to_string()),
        None => Ok(count as u64),
    }
}

/// From the post to the completion: there, and the acknowledgement back.
fn latency(pair: &Pair, operation: &'static str, op: Op) -> Result<Speed, String> {
    let bytes = 8;
    let mut all = Latencies::new(false, false);
    let start = Instant::now();
    while start.elapsed() < TIME {
        let before = Instant::now();
        post(pair, op, bytes)?;
        while reap(pair)? == 0 {
            if before.elapsed() > STEP_TIMEOUT {
                return Err(format!("{operation}: no completion"));
            }
        }
        all.add(before.elapsed());
    }
    Ok(Speed {
        operation,
        bytes,
        messages: all.count(),
        mib_per_second: None,
        median_us: Some(all.percentile(50.0)),
        p99_us: Some(all.percentile(99.0)),
    })
}

/// The rows as text.
pub fn table(rows: &[Speed]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{:<26} {:>8} {:>9}  {:>10} {:>11} {:>9}\n",
        "speed", "bytes", "messages", "MiB/s", "median us", "99% us"
    );
    let figure = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
    for row in rows {
        text += &format!(
            "{:<26} {:>8} {:>9}  {:>10} {:>11} {:>9}\n",
            row.operation,
            row.bytes,
            row.messages,
            figure(row.mib_per_second),
            figure(row.median_us),
            figure(row.p99_us)
        );
    }
    text + "Latency is the time from post to completion: there and back.\n"
}
