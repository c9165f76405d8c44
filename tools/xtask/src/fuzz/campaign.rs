//! Targets that run, each until it has had its processor time.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use uroce_testbed::error::{Context, Result};
use uroce_testbed::{process, workspace};

use super::folder;
use super::report::{self, FuzzTotals, totals_of};

/// How often the processor time of the targets is looked at.
const INTERVAL: Duration = Duration::from_millis(500);
/// Units of the times in /proc/PID/stat in a second (USER_HZ), the same on every architecture that we build for.
const TICKS: u64 = 100;
/// The signal after which libFuzzer ends behind the input that it is at, and prints its totals.
const END: &str = "USR1";

/// A target that runs.
#[derive(Debug)]
struct FuzzProcess {
    target: String,
    child: Child,
    log: PathBuf,
    /// Processor time when it was last looked at, of all threads, in ticks.
    ticks: u64,
    /// It was told to end.
    told: bool,
}

/// Runs `jobs` of the targets at a time, in their order, each for so many seconds of processor time, and prints a row when one
/// ends.
///
/// # Errors
/// A target cannot be started.
pub fn run(targets: &[String], seconds: u64, jobs: usize) -> Result<Vec<FuzzTotals>> {
    let mut waiting = targets.iter();
    let (mut running, mut totals) = (Vec::new(), Vec::new());
    loop {
        while running.len() < jobs
            && let Some(target) = waiting.next()
        {
            eprintln!("{target}: {seconds} s");
            running.push(start(target)?);
        }
        if running.is_empty() {
            return Ok(totals);
        }
        thread::sleep(INTERVAL);
        for mut target in std::mem::take(&mut running) {
            match target.poll(seconds)? {
                Some(ended) => {
                    println!("{}", report::row(&ended));
                    totals.push(ended);
                }
                None => running.push(target),
            }
        }
    }
}

fn start(target: &str) -> Result<FuzzProcess> {
    let [corpus, failed, log] = ["corpus", "failed", "log"].map(|name| folder().join(name));
    let corpus = corpus.join(target);
    for folder in [&corpus, &failed, &log] {
        fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    }
    let log = log.join(target);
    let output = File::create(&log).context(|| format!("cannot make {}", log.display()))?;
    let also = output.try_clone().context(|| "no second descriptor")?;
    let mut command = Command::new(program(target)?);
    command.arg(format!("-artifact_prefix={}/{target}-", failed.display()));
    command.arg("-print_final_stats=1").arg(corpus);
    command.arg(workspace::root().join("tests/fuzz/corpus").join(target));
    command.stdin(Stdio::null()).stdout(output).stderr(also);
    let child = command.spawn().context(|| format!("could not start {target}"))?;
    Ok(FuzzProcess { target: target.to_owned(), child, log, ticks: 0, told: false })
}

/// cargo-fuzz builds for a target triple, which is part of the path.
fn program(target: &str) -> Result<PathBuf> {
    Ok(folder().join("build").join(workspace::host()?).join("release").join(target))
}

impl FuzzProcess {
    /// What came of it, if it has ended. It is told to end when its time is over.
    fn poll(&mut self, seconds: u64) -> Result<Option<FuzzTotals>> {
        self.ticks = self.ticks.max(ticks_of(self.child.id()));
        if let Some(status) = self.child.try_wait().context(|| "cannot wait for a target")? {
            let text = fs::read(&self.log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let seconds = self.ticks / TICKS;
            let log = self.log.clone();
            return Ok(Some(totals_of(&self.target, log, seconds, &text, status.success())));
        }
        if self.ticks >= seconds * TICKS && !self.told {
            let kill = format!("kill -{END} {}", self.child.id());
            process::run(&mut process::command(["sh", "-c", &kill]))?;
            self.told = true;
        }
        Ok(None)
    }
}

/// The processor time of a process that runs, in user mode and in the kernel; 0 when it has ended.
fn ticks_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    parse_ticks(&stat).unwrap_or(0)
}

/// Fields 14 and 15 of proc_pid_stat(5). The second one is a name in brackets, which may have blanks.
fn parse_ticks(stat: &str) -> Option<u64> {
    let behind_name = stat.rsplit_once(')')?.1;
    let mut fields = behind_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_user_and_kernel() {
        let stat = "42 (queue) pair) R 1 2 3 4 5 6 7 8 9 10 1200 34 0 0 20 0 1 0";
        assert_eq!(parse_ticks(stat), Some(1234));
        assert_eq!(parse_ticks("42 (queue_pair) R 1"), None);
        assert_eq!(parse_ticks(""), None);
    }

    #[test]
    fn this_process_has_a_time_and_one_that_is_gone_has_none() {
        let spin = (0..20_000_000u64).fold(0u64, |sum, number| sum.wrapping_mul(31) ^ number);
        std::hint::black_box(spin);
        let own = fs::read_to_string("/proc/self/stat").expect("proc");
        assert!(parse_ticks(&own).is_some(), "{own}");
        assert_eq!(ticks_of(u32::MAX), 0);
    }
}
