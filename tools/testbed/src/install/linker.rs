//! What the program and the libraries are linked with, and so which C library they need.

use std::env::consts::ARCH;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{Error, Result};
use crate::process::{command, find_program, run};
use crate::workspace;

/// The oldest glibc that [`Linker::Portable`] serves: that of Debian 10 and of Red Hat Enterprise Linux 8.
pub const OLDEST_GLIBC: &str = "2.28";
/// Where zig keeps the C library that it has built for a target.
const CACHES: [&str; 2] = ["ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"];

/// A linker and its C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linker {
    /// The C compiler of this system: what it links needs this system's glibc or a newer one.
    OfThisSystem,
    /// zig, which knows the names of each glibc: what it links needs [`OLDEST_GLIBC`] or a newer one.
    Portable,
}

impl Linker {
    /// Builds `packages` with optimisation; returns where they are.
    ///
    /// # Errors
    /// They do not compile, or there is no zig.
    pub fn build(self, packages: &[&str]) -> Result<PathBuf> {
        let packages = packages.iter().flat_map(|package| ["--package", package]);
        match self {
            Self::OfThisSystem => {
                let mut cargo = workspace::cargo(&["build", "--release", "--locked", "--quiet"]);
                run(cargo.args(packages))?;
                Ok(workspace::target_folder().join("release"))
            }
            Self::Portable => {
                check_zig()?;
                let target = format!("{ARCH}-unknown-linux-gnu");
                let mut cargo = workspace::cargo(&["zigbuild", "--release", "--locked", "--quiet"]);
                cargo.args(["--target", &format!("{target}.{OLDEST_GLIBC}")]);
                run(with_caches(&mut cargo).args(packages))?;
                Ok(workspace::target_folder().join(target).join("release"))
            }
        }
    }

    /// The linker, to be given its arguments.
    pub fn command(self) -> Command {
        match self {
            Self::OfThisSystem => command(["cc"]),
            Self::Portable => {
                let target = format!("{ARCH}-linux-gnu.{OLDEST_GLIBC}");
                let mut zig = command(["cargo-zigbuild", "zig", "cc", "--", "-target", &target]);
                with_caches(&mut zig);
                zig
            }
        }
    }
}

/// Leaves the caches in the build folder, unless the environment has another place.
fn with_caches(command: &mut Command) -> &mut Command {
    for name in CACHES.into_iter().filter(|name| std::env::var_os(name).is_none()) {
        command.env(name, workspace::target_folder().join("zig"));
    }
    command
}

fn check_zig() -> Result<()> {
    match find_program("cargo-zigbuild") {
        Some(_) => Ok(()),
        None => Err(Error::new(
            "there is no cargo-zigbuild, which links with the names of an older glibc; \
             `pip install cargo-zigbuild` has it together with zig, `--here` links with this system's glibc",
        )),
    }
}
