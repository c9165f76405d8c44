//! `cargo xtask fuzz`: the fuzz targets under libFuzzer.

mod campaign;
mod report;

use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;
use std::thread::available_parallelism;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::{process, workspace};

/// Seconds of processor time for each target, if the command line does not say.
const SECONDS: u64 = 3600;
/// What `--help` prints.
const HELP: &str = "\
Look for inputs that make a fuzz target fail, with libFuzzer

Usage: cargo xtask fuzz [OPTIONS] [TARGET...]

Arguments:
  TARGET   Only these targets (folders of tests/fuzz/corpus); else all

Options:
  --seconds <N>   Processor time for each target, so that other work on the machine does not count [default: 3600]
  --jobs <N>      Targets that run at once [default: one for each processor]

Debug assertions are on. Inputs that reach new code are kept in target/fuzz/corpus, where the next run begins with them
and with those of tests/fuzz/corpus; one that fails is in target/fuzz/failed, and the exit status is 1. What libFuzzer
prints is in target/fuzz/log. Each target gives a row for the table in docs/trust/log.md.

Needs cargo-fuzz: `cargo install --locked cargo-fuzz`.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct FuzzArgs {
    targets: Vec<String>,
    seconds: u64,
    jobs: usize,
}

/// Builds the targets, runs each for its time, and prints what they did.
///
/// # Errors
/// An input made a target fail, cargo-fuzz is not there, the targets do not build, or the command line is wrong.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<()> {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| word == "-h" || word == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let args = parse(&words, &all_targets()?)?;
    if process::find_program("cargo-fuzz").is_none() {
        let remedy = "`cargo install --locked cargo-fuzz` installs it";
        return Err(Error::new(format!("there is no cargo-fuzz: {remedy}")));
    }
    process::run(&mut build())?;
    println!("{}", report::HEAD);
    let totals = campaign::run(&args.targets, args.seconds, args.jobs)?;
    let failed: Vec<_> = totals.iter().filter(|one| one.failed).collect();
    failed.iter().for_each(|one| eprintln!("{} failed: see {}", one.target, one.log.display()));
    match failed.len() {
        0 => Ok(()),
        count => Err(Error::new(format!("{count} of {} targets failed", totals.len()))),
    }
}

/// Every target has a corpus.
fn all_targets() -> Result<Vec<String>> {
    let folder = workspace::root().join("tests/fuzz/corpus");
    let entries = fs::read_dir(&folder).context(|| format!("cannot read {}", folder.display()))?;
    let mut targets: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    targets.sort();
    Ok(targets)
}

fn parse(words: &[String], all: &[String]) -> Result<FuzzArgs> {
    let jobs = available_parallelism().map_or(1, NonZero::get);
    let mut args = FuzzArgs { targets: Vec::new(), seconds: SECONDS, jobs };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => args.seconds = number(word, words.next())?,
            "--jobs" => args.jobs = number(word, words.next())? as usize,
            target if all.iter().any(|name| name == target) => args.targets.push(target.to_owned()),
            other => {
                let targets = all.join(", ");
                let what =
                    format!("there is no target or option {other}; the targets are {targets}");
                return Err(Error::new(format!("{what}\n\n{HELP}")));
            }
        }
    }
    if args.targets.is_empty() {
        args.targets = all.to_vec();
    }
    Ok(args)
}

fn number(option: &str, value: Option<&String>) -> Result<u64> {
    let number = value.and_then(|value| value.parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| Error::new(format!("{option} needs a number above 0")))
}

/// The release profile, with assertions, and without link-time optimisation, which takes minutes for each target. Sanitizers
/// would need a nightly toolchain.
fn build() -> Command {
    let mut build = process::command(["cargo", "fuzz", "build", "--fuzz-dir", "tests/fuzz"]);
    build.args([
        "--features",
        "libfuzzer",
        "--sanitizer",
        "none",
        "--release",
        "--debug-assertions",
    ]);
    build.arg("--target-dir").arg(folder().join("build")).current_dir(workspace::root());
    build.env("CARGO_PROFILE_RELEASE_LTO", "off");
    build
}

/// Where everything is that the campaigns leave.
fn folder() -> PathBuf {
    workspace::target_folder().join("fuzz")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<FuzzArgs> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words, &["frames".to_owned(), "mads".to_owned()])
    }

    #[test]
    fn all_targets_or_those_that_are_named() {
        let all = parsed(&["--seconds", "7", "--jobs", "3"]).expect("right");
        let targets = vec!["frames".to_owned(), "mads".to_owned()];
        assert_eq!(all, FuzzArgs { targets, seconds: 7, jobs: 3 });
        assert_eq!(parsed(&["mads"]).expect("right").targets, ["mads"]);
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_names_the_targets() {
        for words in [&["nads"][..], &["--second", "7"], &["--seconds"], &["--jobs", "0"]] {
            let error = parsed(words).expect_err("wrong").to_string();
            assert!(error.contains("frames, mads") || error.contains("above 0"), "{error}");
        }
    }

    #[test]
    fn the_targets_are_there() {
        let targets = all_targets().expect("the corpora");
        assert!(targets.iter().any(|target| target == "queue_pair"), "{targets:?}");
    }
}
