//! The repository: where it is, and cargo run in it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::process::{command, run, stdout_of};

/// The top folder of the repository, also when cargo runs this program from somewhere else.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let top = manifest.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    top.map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// Cargo's build folder: `$CARGO_TARGET_DIR`, else `target` in the repository.
pub fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Where cargo puts the programs of [`cargo_build`].
pub fn build_folder() -> PathBuf {
    target_folder().join(PROFILE)
}

/// The target triple of this machine, as rustc names it.
///
/// # Errors
/// rustc does not run, or does not tell.
pub fn host() -> Result<String> {
    let version = stdout_of(&mut command(["rustc", "-vV"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::new("rustc does not tell its host"))
}

/// The build profile of everything that this program builds, itself included: one compilation for all steps.
pub const PROFILE: &str = "ci";

/// `cargo COMMAND --profile ci WORDS`, to be run in the repository.
///
/// # Panics
/// When `words` is empty, which is a mistake in this program.
pub fn cargo_build(words: &[&str]) -> Command {
    let mut cargo = cargo(&words[..1]);
    cargo.args(["--profile", PROFILE, "--locked"]).args(&words[1..]);
    cargo
}

/// `cargo` with `words`, to be run in the repository.
///
/// Incremental builds are off in CI: their files cost more time than a build from nothing gets back.
pub fn cargo(words: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut cargo = command([program]);
    cargo.args(words).current_dir(root());
    if std::env::var_os("CI").is_some() {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
    cargo
}

/// Builds every library, program and example of the workspace.
///
/// All at once, as `cargo test --workspace` does: cargo then chooses the same features for third-party crates, and what
/// one step of CI has compiled serves the next one. Programs alone would have most of them compiled again.
///
/// # Errors
/// Something does not compile.
pub fn build_all() -> Result<()> {
    build_all_with(&[])
}

/// The same with features (`PACKAGE/FEATURE`).
///
/// # Errors
/// Something does not compile.
pub fn build_all_with(features: &[&str]) -> Result<()> {
    let words = ["build", "--workspace", "--lib", "--bins", "--examples", "--quiet"];
    let mut cargo = cargo_build(&words);
    run(cargo.args(features.iter().flat_map(|feature| ["--features", feature])))
}

/// Builds the program `uroce` and copies it into `folder`, readable for all users.
///
/// # Errors
/// It does not compile, or the copy failed.
pub fn install_uroce(folder: &Path) -> Result<PathBuf> {
    build_all()?;
    let program = folder.join("uroce");
    fs::copy(build_folder().join("uroce"), &program)
        .context(|| "could not copy the program uroce")?;
    for path in [folder, &program] {
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path, readable)
            .context(|| format!("could not set the mode of {}", path.display()))?;
    }
    Ok(program)
}
