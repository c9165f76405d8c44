//! The steps that look at the sources: cargo with its tools.

use std::fs;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{self, command, find_program, stdout_of};
use uroce_testbed::workspace;

use super::failed_tests;
use super::step::{Outcome, shown};

/// The seed of property tests; without it each run draws its own, as `cargo test` by itself does.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";
/// How long each fuzz target gets.
const FUZZ_SECONDS: (&str, &str) = ("UROCE_FUZZ_SECONDS", "20");
/// The compiler's own target, which has no need of a second toolchain.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What a crate without the standard library may use.
const WITHOUT_STD: [&str; 2] = ["core", "compiler_builtins"];
/// Packages that only tests and this repository use: no user compiles them.
const NOT_FOR_USERS: [&str; 8] = [
    "uroce-bench",
    "uroce-dist",
    "uroce-interop",
    "uroce-rxe-guest",
    "uroce-testbed",
    "uroce-testkit",
    "uroce-tests",
    "xtask",
];

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
    failed_tests::run("test", &mut command)
}

/// The simulator on NICs that are broken on purpose, by a feature that only this build has.
pub fn mutations() -> Outcome {
    let words = ["test", "-p", "uroce-sim", "--features", "mutation", "--test", "mutations"];
    failed_tests::run("mutations", &mut workspace::cargo_build(&words))
}

/// The fuzz targets on inputs made from their corpora, each for longer than in the step `test`.
///
/// The whole workspace is named, as in `test`: with the same features there is nothing to compile.
pub fn fuzz() -> Outcome {
    let words = ["test", "--workspace", "--test", "corpus", "--", "inputs_made", "--nocapture"];
    let mut command = workspace::cargo_build(&words);
    failed_tests::run("fuzz", command.env(FUZZ_SECONDS.0, FUZZ_SECONDS.1))
}

/// Models of the lock-free code.
pub fn loom() -> Outcome {
    crate::loom::run(std::iter::empty()).into()
}

/// What users compile is compiled by the oldest Rust that Cargo.toml promises, which rustup downloads once.
///
/// Where it cannot be had, the lint `incompatible_msrv` of the step `clippy` must do: it knows the age of the standard
/// library's functions, but not that of the language.
pub fn msrv() -> Outcome {
    let version = match promised() {
        Ok(version) => version,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    if let Err(why) = toolchain(&version) {
        println!(
            "Rust {version} cannot be had, only clippy's incompatible_msrv has checked: {why}"
        );
        return Outcome::Passed;
    }
    let mut check = command(["rustup", "run", &version, "cargo", "check", "--profile"]);
    check.args([workspace::PROFILE, "--locked", "--quiet", "--workspace", "--lib", "--bins"]);
    check.args(NOT_FOR_USERS.iter().flat_map(|package| ["--exclude", package]));
    shown(check.current_dir(workspace::root()))
}

/// `cargo package`: names, versions and pages of the crates that are published. What they compile to, other steps check.
///
/// What the other steps have asked the registry is enough as a rule, and five times as fast.
pub fn crates() -> Outcome {
    let words = ["package", "--workspace", "--no-verify", "--allow-dirty", "--locked", "--quiet"];
    let package = || {
        let mut package = workspace::cargo(&words);
        package.args(NOT_FOR_USERS.iter().flat_map(|package| ["--exclude", package]));
        package
    };
    if process::run(package().arg("--offline")).is_ok() {
        return Outcome::Passed;
    }
    shown(&mut package())
}

/// The `rust-version` of the workspace.
fn promised() -> Result<String> {
    let manifest = fs::read_to_string(workspace::root().join("Cargo.toml"))
        .context(|| "could not read Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \""));
    let version = line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned);
    version.ok_or_else(|| Error::new("Cargo.toml has no rust-version"))
}

/// Sees to it that rustup has this version.
fn toolchain(version: &str) -> Result<()> {
    if find_program("rustup").is_none() {
        return Err(Error::new("there is no rustup"));
    }
    let installed = stdout_of(&mut command(["rustup", "toolchain", "list"]))?;
    if installed.lines().any(|line| line.starts_with(&format!("{version}-"))) {
        return Ok(());
    }
    process::run(&mut command(["rustup", "toolchain", "install", version, "--profile", "minimal"]))
}

/// `uroce-wire` is compiled where there is no standard library: the compiler is shown a folder of libraries that has
/// [`WITHOUT_STD`] only, so that a dependency which wants more is noticed as well as our own code.
pub fn no_std() -> Outcome {
    let folder = match sysroot_without_std() {
        Ok(folder) => folder,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let words = ["check", "--package", "uroce-wire", "--no-default-features", "--quiet"];
    let mut check = workspace::cargo_build(&words);
    // With a target of its own, build scripts and macros keep the standard library.
    check.args(["--target", TARGET]);
    check.env("RUSTFLAGS", format!("--sysroot={}", folder.display()));
    shown(&mut check)
}

/// Makes a folder of libraries, with links to those of the compiler.
fn sysroot_without_std() -> Result<PathBuf> {
    let sysroot = stdout_of(&mut command(["rustc", "--print", "sysroot"]))?;
    let libraries = format!("lib/rustlib/{TARGET}/lib");
    let from = Path::new(sysroot.trim()).join(&libraries);
    let folder = workspace::target_folder().join("no-std");
    let to = folder.join(&libraries);
    if to.exists() {
        fs::remove_dir_all(&to).context(|| format!("could not empty {}", to.display()))?;
    }
    fs::create_dir_all(&to).context(|| format!("could not make {}", to.display()))?;
    let entries = fs::read_dir(&from).context(|| format!("could not read {}", from.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default();
        if is_without_std(&name.to_string_lossy()) {
            std::os::unix::fs::symlink(&path, to.join(name))
                .context(|| format!("could not link {}", path.display()))?;
        }
    }
    Ok(folder)
}

/// `libcore-0123456789abcdef.rlib` and the like.
fn is_without_std(library: &str) -> bool {
    let name = library.strip_prefix("lib").and_then(|rest| rest.split_once('-'));
    name.is_some_and(|(name, _)| WITHOUT_STD.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promised_version_is_found() {
        let version = promised().expect("a version");
        assert!(version.starts_with("1.") && version.split('.').count() >= 2, "{version}");
    }

    #[test]
    fn only_libraries_below_std_are_linked() {
        assert!(is_without_std("libcore-120cbae4e86ec454.rlib"));
        assert!(is_without_std("libcompiler_builtins-27.rmeta"));
        assert!(
            !is_without_std("libstd-27cfc16bdf3bb694.rlib") && !is_without_std("liballoc-6.rlib")
        );
        assert!(!is_without_std("core-1.rlib"));
    }
}
