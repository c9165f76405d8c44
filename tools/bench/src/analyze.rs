//! Packets a second of `uroce analyze` and of tshark, over the same file.

use std::path::{Path, PathBuf};

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{self, command, find_program};

use crate::Setup;
use crate::interleave::{self, Benchmark};
use crate::record::{Reading, Series, Unit};

/// The name of this group.
pub const GROUP: &str = "analyze";
/// The series of our program.
pub const OURS: &str = "uroce analyze";
/// The series of tshark.
pub const BASELINE: &str = "tshark -T fields";

/// Packets of the file; a quick run has fewer.
const PACKETS: usize = 600_000;
const QUICK: usize = 100_000;
/// What tshark is asked for: as much as a line of `uroce dissect` needs.
const FIELDS: [&str; 5] = [
    "frame.time_epoch",
    "ip.src",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
];
/// Runs a program and writes seconds by the clock, in the program, in the kernel, and the most KiB that
/// it had.
const TIME: [&str; 4] = ["time", "--quiet", "-f", "%e %U %S %M"];

/// Measures both.
///
/// # Errors
/// `time` is not installed, or the file cannot be made.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    if find_program("time").is_none() {
        return Err(Error::new("GNU time is not installed: apt-get install time"));
    }
    let folder = std::env::temp_dir().join(format!("uroce-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    let _guard = Guard::new(Leftover::Folder(folder.clone()));
    let packets = if setup.quick { QUICK } else { PACKETS };
    let file = capture(&folder, packets)?;
    let ours = words(&[&setup.program.display().to_string(), "analyze", &file, "--json"]);
    let mut theirs = words(&["tshark", "-r", &file, "-T", "fields"]);
    theirs.extend(FIELDS.iter().flat_map(|field| ["-e", field]).map(str::to_owned));
    let mut benchmarks = vec![benchmark(OURS, &[BASELINE], ours, packets, &folder)];
    match find_program("tshark") {
        Some(_) => benchmarks.push(benchmark(BASELINE, &[], theirs, packets, &folder)),
        None => eprintln!("tshark is not installed: its figures are missing"),
    }
    eprintln!("{GROUP}: {packets} packets");
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds, &setup.best))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn capture(folder: &Path, packets: usize) -> Result<String> {
    let file = folder.join("traffic.pcap");
    let bytes = uroce_tests::traffic::capture(packets).context(|| "a capture could not be made")?;
    std::fs::write(&file, bytes).context(|| format!("could not write {}", file.display()))?;
    Ok(file.display().to_string())
}

fn benchmark(
    name: &str,
    baselines: &[&str],
    words: Vec<String>,
    packets: usize,
    folder: &Path,
) -> Benchmark<'static> {
    let report = folder.join("time");
    Benchmark::new(name, Unit::Mmps, baselines, move || timed(&words, packets, &report))
}

/// Runs the command once. Packets a second of processor time: other programs on the machine take some
/// of the time by the clock.
fn timed(words: &[String], packets: usize, report: &PathBuf) -> Result<Reading> {
    let mut line = command(TIME);
    line.arg("-o").arg(report).args(words).stdout(std::process::Stdio::null());
    process::run(&mut line)?;
    let text = std::fs::read_to_string(report).context(|| "GNU time wrote nothing")?;
    reading(&text, packets).ok_or_else(|| Error::new(format!("GNU time wrote {text:?}")))
}

fn reading(text: &str, packets: usize) -> Option<Reading> {
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [elapsed, user, system, kib] = numbers[..] else { return None };
    let cpu = user + system;
    let figure = Reading::new(packets as f64 / cpu.max(0.01) / 1e6);
    Some(figure.with("cpu_s", cpu).with("wall_s", elapsed).with("peak_mib", kib / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_time_are_read() {
        let found = reading("0.40 0.15 0.05 20480\n", 300_000).expect("four numbers");
        assert!((found.value - 1.5).abs() < 1e-9, "{}", found.value);
        assert_eq!((found.extra["peak_mib"], found.extra["wall_s"]), (20.0, 0.4));
        assert_eq!(reading("Command exited\n", 1), None);
    }
}
