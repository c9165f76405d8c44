//! A C program of ours that runs at both ends: here on our libibverbs, in the guest on that of Debian 13, since that of Debian 12
//! has no FLUSH and no ATOMIC WRITE.

use std::path::{Path, PathBuf};

use uroce_rxe_guest::{Guest, supplies};
use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::{command, run};

use crate::programs::install::SCRATCH;

/// The release whose libibverbs has all of the operations, and what of it the guest needs.
const RELEASE: &str = "trixie";
const PACKAGES: [&str; 6] = [
    "libibverbs1",
    "ibverbs-providers",
    "libibverbs-dev",
    "libnl-3-200",
    "libnl-route-3-200",
    "libc6",
];
const LIBRARIES: [&str; 5] = [
    "libibverbs.so.1",
    "libnl-3.so.200",
    "libnl-route-3.so.200",
    "libc.so.6",
    "libibverbs/librxe-rdmav34.so",
];
const LIBRARY_FOLDER: &str = "usr/lib/x86_64-linux-gnu";
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";

/// Makes the program `name`, with the header of that release.
///
/// # Errors
/// The packages cannot be had, or there is no C compiler.
pub fn compile(name: &str, text: &str, folder: &Path) -> Result<PathBuf> {
    let packages = supplies::unpacked(Some(RELEASE), &PACKAGES)?;
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, text).context(|| format!("could not write {}", source.display()))?;
    let program = folder.join(SCRATCH).join(name);
    let mut cc = command(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    cc.arg(&program).arg(&source).arg("-I").arg(packages.join("usr/include"));
    cc.arg(packages.join(LIBRARY_FOLDER).join("libibverbs.so.1"));
    run(cc.arg("-Wl,--allow-shlib-undefined"))?;
    Ok(program)
}

/// Copies the program and the libraries that it needs into the guest.
///
/// # Errors
/// A file is missing.
pub fn give(guest: &Guest, program: &Path) -> Result<()> {
    let packages = supplies::unpacked(Some(RELEASE), &PACKAGES)?;
    let to = guest.share().join("program");
    std::fs::create_dir_all(&to).context(|| format!("could not make {}", to.display()))?;
    supplies::add(program, &to)?;
    supplies::add(&packages.join(LOADER), &to)?;
    let library = |name: &str| supplies::add(&packages.join(LIBRARY_FOLDER).join(name), &to);
    LIBRARIES.into_iter().try_for_each(library)
}

/// Where the guest finds it.
pub const ENTER: &str = "cd /mnt/share/program\n";

/// How the guest starts the program `name`.
pub fn guest_line(name: &str, arguments: &str) -> String {
    format!(
        "RDMAV_DRIVERS=$PWD/librxe ./ld-linux-x86-64.so.2 --library-path . ./{name} {arguments}"
    )
}
