//! `cargo test` as a step: what failed is said again at the end, where a reader of a log of many thousand lines looks.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::describe;
use uroce_testbed::workspace;

use super::step::Outcome;

/// How often new output goes to the terminal.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Lines that are repeated at most for one test program: the first ones, which name the tests.
const MAX_LINES: usize = 120;

/// Runs `command`, a `cargo test`; its output goes to the terminal and into the file `STEP-output.log` of cargo's build
/// folder.
///
/// The output goes through a file, not through a pipe: a process that a test leaves behind would keep a pipe open.
pub fn run(step: &str, command: &mut Command) -> Outcome {
    let log = workspace::target_folder().join(format!("{step}-output.log"));
    match run_with_log(command, &log) {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => {
            let output = std::fs::read(&log).unwrap_or_default();
            let failures = failures(&String::from_utf8_lossy(&output));
            Outcome::Failed(format!("`{}` failed ({status})\n{failures}", describe(command)))
        }
    }
}

fn run_with_log(command: &mut Command, log: &Path) -> Result<ExitStatus> {
    let what = || format!("could not write {}", log.display());
    let folder = log.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).context(what)?;
    let stdout = File::create(log).context(what)?;
    let stderr = stdout.try_clone().context(what)?;
    let output = File::open(log).context(|| format!("could not read {}", log.display()))?;
    command.stdout(stdout).stderr(stderr);
    let child = command.spawn().context(|| format!("could not start `{}`", describe(command)))?;
    follow(child, output).context(|| "could not show the output of the tests")
}

/// Copies what is appended to `output` to the terminal until `child` has ended.
fn follow(mut child: Child, mut output: File) -> io::Result<ExitStatus> {
    loop {
        let ended = child.try_wait()?;
        io::copy(&mut output, &mut io::stdout())?;
        io::stdout().flush()?;
        if let Some(status) = ended {
            return Ok(status);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// What the failed tests in `output` printed, their names, and cargo's own errors.
///
/// A test program prints what its failed tests said between a line `failures:` and its last line `test result: ...`.
fn failures(output: &str) -> String {
    let mut kept = Vec::new();
    let mut lines_of_program = None;
    for line in output.lines() {
        let is_result = line.starts_with("test result:");
        match &mut lines_of_program {
            None if line == "failures:" => lines_of_program = Some(0),
            None if is_from_cargo(line) => kept.push(line),
            None => {}
            Some(lines) => {
                *lines += 1;
                if is_result || *lines <= MAX_LINES {
                    kept.push(line);
                }
            }
        }
        if is_result {
            lines_of_program = None;
        }
    }
    kept.join("\n")
}

/// Cargo says that something does not compile, or that a test program failed or was ended by a signal.
fn is_from_cargo(line: &str) -> bool {
    line.starts_with("error: ")
        || line.starts_with("error[")
        || line.contains("process didn't exit successfully")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running tests/it.rs (target/ci/deps/it-1)

running 2 tests
test good ... ok
test bad ... FAILED

successes:

---- good stdout ----
error is a word that a test may print

successes:
    good

failures:

---- bad stdout ----
thread 'bad' panicked at tests/it.rs:3:5: 1 is not 2

failures:
    bad

test result: FAILED. 1 passed; 1 failed

error: test failed, to rerun pass `-p x --test it`
running 1 test
test result: ok. 1 passed; 0 failed
  process didn't exit successfully: `it-2` (signal: 6, SIGABRT: process abort signal)
";

    #[test]
    fn what_failed_is_kept_and_nothing_else() {
        let kept = failures(OUTPUT);
        for line in ["---- bad stdout ----", "1 is not 2", "    bad", "to rerun pass", "SIGABRT"] {
            assert!(kept.contains(line), "{line} in {kept}");
        }
        for line in ["test good", "running", "result: ok", "a word"] {
            assert!(!kept.contains(line), "{line} in {kept}");
        }
    }

    #[test]
    fn a_test_that_prints_very_much_does_not_hide_the_next_program() {
        let much = "x\n".repeat(100_000);
        let output = format!("failures:\n---- a\n{much}test result: FAILED\nfailures:\n---- b\n");
        let kept = failures(&output);
        assert!(kept.contains("---- a") && kept.contains("---- b"), "{kept}");
        assert!(kept.lines().count() < MAX_LINES + 10);
    }

    #[test]
    fn output_is_complete_and_the_exit_status_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("sub").join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let status = run_with_log(&mut command, &log).expect("it ran");
        assert_eq!(status.code(), Some(3));
        assert_eq!(std::fs::read_to_string(&log).expect("a log"), "out\nerr\n");
    }
}
