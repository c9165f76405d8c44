//! The steps that are one command each.

use std::process::Command;

use crate::bench::instructions;
use crate::error::Result;
use crate::process::{self, describe, find_program};
use crate::{packages, page, programs, rxe, workspace};

/// Reads captures with the profile of docs/wireshark, and its fields are held against ours.
const TSHARK: &str = "tshark";
/// Checks the manual pages.
const GROFF: &str = "groff-base";
/// Counts instructions.
const VALGRIND: &str = "valgrind";

/// Programs that pages of the documentation run (`tools/uroce/tests/learn.rs`).
const OF_PAGES: &[&str] = &["nftables", "tcpdump", "python3-minimal"];

/// The seed of property tests; without it each run draws its own, as `cargo test` by itself does.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It could not be tried here, and why.
    Skipped(String),
    /// It does not hold, and why.
    Failed(String),
}

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// One thing that CI checks.
#[derive(Debug)]
pub struct Step {
    /// Name on the command line.
    pub name: &'static str,
    /// What holds when it passes.
    pub about: &'static str,
    /// Does it.
    pub run: fn() -> Outcome,
}

/// Installs what other steps need, or skips when that is not allowed here.
pub fn packages() -> Outcome {
    let others = [VALGRIND, TSHARK, GROFF];
    let wanted = [rxe::PACKAGES, programs::PACKAGES, page::PACKAGES, OF_PAGES, &others].concat();
    match packages::missing(&wanted) {
        Ok(missing) if missing.is_empty() => Outcome::Passed,
        Ok(_) if process::is_root() => packages::ensure(&wanted).into(),
        Ok(missing) => Outcome::Skipped(format!(
            "not root; install them with: sudo apt-get install {}",
            missing.join(" ")
        )),
        Err(error) => Outcome::Skipped(error.to_string()),
    }
}

/// `cargo fmt --check`.
pub fn fmt() -> Outcome {
    shown(&mut workspace::cargo(&["fmt", "--all", "--check"]))
}

/// `cargo clippy`, warnings are errors.
pub fn clippy() -> Outcome {
    let words = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    shown(&mut workspace::cargo_build(&words))
}

/// `cargo doc`, warnings are errors.
pub fn doc() -> Outcome {
    let mut command = workspace::cargo_build(&["doc", "--workspace", "--no-deps", "--quiet"]);
    shown(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// `cargo test`, documentation tests included.
///
/// Property tests take the inputs of one seed unless the environment has another: CI says the same of the same sources.
pub fn test() -> Outcome {
    let mut command = workspace::cargo_build(&["test", "--workspace", "--no-fail-fast"]);
    if std::env::var_os(PROPTEST_SEED).is_none() {
        command.env(PROPTEST_SEED, "4791");
    }
    shown(&mut command)
}

/// Instructions per packet against the accepted figures.
pub fn instructions() -> Outcome {
    match packages::missing(&[VALGRIND]) {
        Ok(missing) if missing.is_empty() => instructions::check().into(),
        Ok(_) => Outcome::Skipped("valgrind is not installed".to_owned()),
        Err(error) => Outcome::Skipped(error.to_string()),
    }
}

/// Stock programs on our libibverbs.
pub fn programs() -> Outcome {
    match packages::missing(programs::PACKAGES) {
        Ok(missing) if missing.is_empty() => programs::run_for_ci().into(),
        Ok(missing) => Outcome::Skipped(format!("packages are missing: {}", missing.join(" "))),
        Err(error) => Outcome::Skipped(error.to_string()),
    }
}

/// The page of a capture in a browser.
pub fn page() -> Outcome {
    match packages::missing(page::PACKAGES) {
        Ok(missing) if missing.is_empty() => page::run_for_ci().into(),
        Ok(missing) => Outcome::Skipped(format!("packages are missing: {}", missing.join(" "))),
        Err(error) => Outcome::Skipped(error.to_string()),
    }
}

/// The interop matrix against the kernel, and faults between two kernels.
pub fn rxe() -> Outcome {
    with_guest(|| rxe::matrix_for_ci().and_then(|()| rxe::proxy_for_ci()))
}

/// Stock programs on our libraries against themselves on the kernel.
pub fn calls() -> Outcome {
    with_guest(rxe::calls_for_ci)
}

fn with_guest(run: impl FnOnce() -> Result<()>) -> Outcome {
    if !process::is_root() {
        return Outcome::Skipped("a tap device and a network namespace need root".to_owned());
    }
    match packages::missing(rxe::PACKAGES) {
        Ok(missing) if missing.is_empty() => run().into(),
        Ok(missing) => Outcome::Skipped(format!("packages are missing: {}", missing.join(" "))),
        Err(error) => Outcome::Skipped(error.to_string()),
    }
}

/// Runs `command` with its output going to the terminal.
pub fn shown(command: &mut Command) -> Outcome {
    let line = describe(command);
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("`{line}` failed ({status})")),
        Err(error) => Outcome::Failed(format!("could not start `{line}`: {error}")),
    }
}

/// The words that run a program as the user nobody when this process is root; nothing otherwise.
pub fn as_nobody() -> &'static [&'static str] {
    let possible = process::is_root() && find_program("setpriv").is_some();
    if possible { process::AS_NOBODY } else { &[] }
}
