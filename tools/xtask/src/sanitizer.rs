//! `cargo xtask sanitizer`: the tests under AddressSanitizer or ThreadSanitizer.

use std::ffi::OsString;
use std::process::Command;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::{process, workspace};

/// Packages with `unsafe` code, threads or memory that is shared, and the C interface.
const PACKAGES: [&str; 11] = [
    "uroce-memory",
    "uroce-datapath",
    "uroce-udp",
    "uroce-packet",
    "uroce-xdp",
    "uroce-device",
    "uroce-service",
    "uroce-verbs",
    "uroce-ibverbs",
    "uroce-rdmacm",
    "uroce-rsockets",
];
/// For the system calls of rustix to go through libc, where a sanitizer sees that memory is mapped anew.
const THROUGH_LIBC: &str = "--cfg rustix_use_libc";
/// What `--help` prints.
const HELP: &str = "\
Run the tests under a sanitizer, with a nightly toolchain

Usage: cargo xtask sanitizer <address|thread> [PACKAGE...]

Arguments:
  PACKAGE   Only the tests of these packages; else of all that have unsafe code or share memory

A report is printed where it happens, and its test binary fails. The standard library is compiled with the sanitizer, too:
`rustup toolchain install nightly --component rust-src`.

Environment:
  TSAN_OPTIONS, ASAN_OPTIONS   Passed on; `log_path=FILE` collects the reports. Without TSAN_OPTIONS: die_after_fork=0
";

/// Compiles the packages and the standard library with the sanitizer, into a folder of their own, and runs the tests. A
/// failed test does not keep the others from running.
///
/// # Errors
/// A test failed, the sanitizer has reported something, there is no such sanitizer, or no nightly toolchain.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<()> {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| word == "-h" || word == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let (name, packages) = match words.split_first() {
        Some((name, packages)) if ["address", "thread"].contains(&name.as_str()) => {
            (name, packages)
        }
        Some((name, _)) => {
            return Err(Error::new(format!("there is no sanitizer {name}\n\n{HELP}")));
        }
        None => return Err(Error::new(format!("which sanitizer?\n\n{HELP}"))),
    };
    let mut test = test(name, packages)?;
    let status = test.status().context(|| "rustup could not be started")?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::new(format!("{} failed: see above", process::describe(&test)))),
    }
}

fn test(sanitizer: &str, packages: &[String]) -> Result<Command> {
    let host = workspace::host()?;
    let folder = workspace::target_folder().join(format!("{sanitizer}-sanitizer"));
    let mut test = process::command(["rustup", "run", "nightly", "cargo", "test", "-Zbuild-std"]);
    test.args(["--profile", workspace::PROFILE, "--locked", "--no-fail-fast"]);
    test.args(["--lib", "--tests"]);
    test.args(["--target", &host]).arg("--target-dir").arg(folder);
    match packages {
        [] => test.args(PACKAGES.iter().flat_map(|package| ["--package", package])),
        _ => test.args(packages.iter().flat_map(|package| ["--package", package.as_str()])),
    };
    // It starts the examples, which cargo builds only where no targets are chosen.
    test.args(["--", "--skip", "examples::they_run"]);
    let flags = format!("-Zsanitizer={sanitizer} -Cforce-frame-pointers=yes {THROUGH_LIBC}");
    if sanitizer == "thread" && std::env::var_os("TSAN_OPTIONS").is_none() {
        // Children of a fork start threads: a device of theirs does.
        test.env("TSAN_OPTIONS", "die_after_fork=0");
    }
    // Those of the toolchain that has compiled this program.
    test.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC");
    test.env("RUSTFLAGS", flags).current_dir(workspace::root());
    Ok(test)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(test: &Command) -> Vec<String> {
        test.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn all_packages_or_those_that_are_named() {
        let all = words_of(&test("thread", &[]).expect("rustc is there"));
        assert!(PACKAGES.iter().all(|package| all.iter().any(|word| word == package)), "{all:?}");
        let one = words_of(&test("address", &["uroce-udp".to_owned()]).expect("rustc is there"));
        let chosen = one.iter().filter(|word| word.starts_with("uroce-"));
        assert_eq!(chosen.collect::<Vec<_>>(), ["uroce-udp"]);
    }

    #[test]
    fn a_sanitizer_that_is_not_there_is_an_error_with_help() {
        for words in [vec![], vec!["memory".into()]] {
            let error = run(words.into_iter()).expect_err("no such sanitizer").to_string();
            assert!(error.contains("sanitizer") && error.contains("Usage:"), "{error}");
        }
    }
}
