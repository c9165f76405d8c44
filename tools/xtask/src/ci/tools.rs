//! The steps that tools of this workspace carry out, and what they need installed.

use uroce_testbed::error::Result;
use uroce_testbed::{packages, process};

use super::step::{Outcome, shown};
use crate::tool;

/// Reads captures with the profile of docs/wireshark, and its fields are held against ours.
const TSHARK: &str = "tshark";
/// Runs the scripts of the page of `uroce view` in tests.
const NODE: &str = "nodejs";
/// Checks the manual pages.
const GROFF: &str = "groff-base";
/// Counts instructions.
const VALGRIND: &str = "valgrind";
/// Makes the .rpm and installs it.
const RPM: &str = "rpm";

/// Programs that pages of the documentation run (`tools/uroce/tests/learn.rs`).
const OF_PAGES: &[&str] = &["nftables", "tcpdump", "python3-minimal"];

/// Installs what other steps need, or skips when that is not allowed here.
pub fn packages() -> Outcome {
    let others = [VALGRIND, TSHARK, NODE, GROFF, RPM];
    let wanted =
        [packages::RXE_GUEST, packages::PROGRAMS, packages::BROWSER, OF_PAGES, &others].concat();
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

/// Instructions per packet against the accepted figures.
pub fn instructions() -> Outcome {
    with(&[VALGRIND], || run("bench", &["--check"]))
}

/// Stock programs on our libibverbs.
pub fn programs() -> Outcome {
    with(packages::PROGRAMS, || run("programs", &[]))
}

/// What users install, in each form.
pub fn package() -> Outcome {
    if !process::is_root() {
        return Outcome::Skipped("dpkg and network namespaces need root".to_owned());
    }
    with(&[RPM, "ibverbs-utils", "perftest"], || run("package", &["--ci"]))
}

/// The page of a capture in a browser.
pub fn page() -> Outcome {
    with(packages::BROWSER, || run("page", &[]))
}

/// Our device under its own conformance test, sound and broken.
pub fn conform() -> Outcome {
    with(&[], || run("conform", &[]))
}

/// The interop matrix against the kernel, and faults between two kernels.
pub fn rxe() -> Outcome {
    with_guest(|| match run("rxe", &["matrix", "--ci"])? {
        Outcome::Passed => run("rxe", &["proxy"]),
        outcome => Ok(outcome),
    })
}

/// Stock programs on our libraries against themselves on the kernel.
pub fn calls() -> Outcome {
    with_guest(|| run("rxe", &["calls"]))
}

fn run(tool: &str, words: &[&str]) -> Result<Outcome> {
    tool::step(tool, words).map(|mut command| shown(&mut command))
}

fn with_guest(run: impl FnOnce() -> Result<Outcome>) -> Outcome {
    if !process::is_root() {
        return Outcome::Skipped("a tap device and a network namespace need root".to_owned());
    }
    with(packages::RXE_GUEST, run)
}

/// Runs where these packages are installed.
fn with(wanted: &[&str], run: impl FnOnce() -> Result<Outcome>) -> Outcome {
    let missing = if wanted.is_empty() { Ok(Vec::new()) } else { packages::missing(wanted) };
    match missing {
        Ok(missing) if missing.is_empty() => {
            run().unwrap_or_else(|error| Outcome::Failed(error.to_string()))
        }
        Ok(missing) => Outcome::Skipped(format!("packages are missing: {}", missing.join(" "))),
        Err(error) => Outcome::Skipped(error.to_string()),
    }
}
