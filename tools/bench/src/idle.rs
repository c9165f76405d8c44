//! What an open device costs while nothing happens.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use uroce_testbed::error::{Context, Error, Result};

use crate::Setup;
use crate::interleave::{self, Benchmark};
use crate::link::{FAR, Link};
use crate::record::{Reading, Series, Unit};
use crate::uroce::{Server, WAITS_AT};

/// The name of this group.
pub const GROUP: &str = "idle";
const WATCHED: Duration = Duration::from_secs(3);

/// The name of the series of a datapath.
pub fn name(datapath: &str) -> String {
    format!("{datapath} open device without traffic")
}

/// Measures all datapaths.
///
/// # Errors
/// Not root.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    let link = Link::create(1500)?;
    let benchmarks = setup.datapaths.iter().map(|datapath| {
        let link = &link;
        Benchmark::new(name(datapath), Unit::Percent, &[], move || {
            watch(link, &setup.program, datapath)
        })
    });
    eprintln!("{GROUP}");
    Ok(interleave::run(GROUP, benchmarks.collect(), 0, setup.rounds.min(3), &setup.best))
}

/// Processor time of a server that waits with an open device.
fn watch(link: &Link, program: &Path, datapath: &str) -> Result<Reading> {
    let mut line = vec![program.display().to_string()];
    line.extend(
        ["perf", "write", "bw", "--address", FAR, "--datapath", datapath].map(str::to_owned),
    );
    let server = Server::start(link.far(&line), || link.serves(WAITS_AT))?;
    std::thread::sleep(Duration::from_millis(300));
    let (from, started) = (processor_time_ns(server.id())?, Instant::now());
    std::thread::sleep(WATCHED);
    let spent = processor_time_ns(server.id())? - from;
    server.stop();
    Ok(Reading::new(spent / started.elapsed().as_nanos() as f64 * 100.0))
}

/// Of all threads of a process: the first number of schedstat.
fn processor_time_ns(process: u32) -> Result<f64> {
    let folder = format!("/proc/{process}/task");
    let tasks = fs::read_dir(&folder).context(|| format!("cannot read {folder}"))?.flatten();
    let times = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    let times: Vec<_> = times.collect();
    match times.is_empty() {
        true => Err(Error::new("the kernel keeps no /proc/PID/task/TID/schedstat")),
        false => Ok(times.iter().sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_used_some_time() {
        let before = processor_time_ns(std::process::id()).expect("of this process");
        let from = Instant::now();
        while from.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let after = processor_time_ns(std::process::id()).expect("of this process");
        assert!(before > 0.0 && after > before, "{before} {after}");
    }
}
