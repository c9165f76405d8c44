//! `cargo xtask dist`: the program `uroce` and both forms of libibverbs, laid out as a package installs
//! them.
//!
//! The library is linked here and not by cargo: rustc gives each shared library of its own a version
//! script, next to which one of ours, with the symbol versions of rdma-core, has no effect.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::{Context, Result};
use crate::process::{command, run as run_command};
use crate::workspace;

/// Options of `dist`.
#[derive(Debug, Args)]
pub struct DistArgs {
    /// Where to put everything [default: `dist` in cargo's build folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Versions of the symbols, as in rdma-core.
const VERSIONS: &str = "crates/ibverbs/libibverbs.map";

/// Builds with optimisation and prints where everything is.
///
/// # Errors
/// It does not compile, or there is no C compiler to link with.
pub fn run(arguments: &DistArgs) -> Result<()> {
    let default = || workspace::target_folder().join("dist");
    let out = arguments.out.clone().unwrap_or_else(default);
    build("release")?;
    lay_out(&workspace::target_folder().join("release"), &out)?;
    println!("{}", out.display());
    Ok(())
}

/// The same as [`run`] with the profile of CI, for tests.
///
/// # Errors
/// As [`run`].
pub fn for_tests(out: &Path) -> Result<()> {
    build(workspace::PROFILE)?;
    lay_out(&workspace::build_folder(), out)
}

fn build(profile: &str) -> Result<()> {
    // The whole workspace decides about features, as in the tests: else everything is compiled again.
    let words = ["build", "--profile", profile, "--locked", "--quiet"];
    let what = ["--package", "uroce", "--package", "uroce-ibverbs"];
    run_command(workspace::cargo(&words).args(what))
}

fn lay_out(built: &Path, out: &Path) -> Result<()> {
    let (bin, lib) = (out.join("bin"), out.join("lib/uroce"));
    for folder in [&bin, &lib.join("drop-in")] {
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    fs::copy(built.join("uroce"), bin.join("uroce")).context(|| "could not copy uroce")?;
    let archive = built.join("liburoce_ibverbs.a");
    link(&archive, &lib.join("liburoce_ibverbs.so"))?;
    link(&archive, &lib.join("drop-in/libibverbs.so.1"))
}

/// Makes a shared library of the archive, with the file's name as its own name.
fn link(archive: &Path, library: &Path) -> Result<()> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let mut linker = command(["cc", "-shared", "-o"]);
    linker.arg(library).arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    linker.arg("-Wl,--gc-sections,-z,now,-z,defs,--strip-debug");
    linker.arg(format!("-Wl,--version-script={}", workspace::root().join(VERSIONS).display()));
    linker.arg(format!("-Wl,-soname,{name}"));
    run_command(linker.args(["-lpthread", "-ldl", "-lm"]))
}
