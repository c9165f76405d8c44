//! libfabric and fabtests, obtained by cargo and built once.
//!
//! No package of Debian has fabtests. A crate of the Rust package registry carries libfabric with them for its own
//! use; cargo fetches it and compares it with the checksum of the lock file.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, find_program, run};
use uroce_testbed::workspace;

const MANIFEST: &str = include_str!("source.toml");
const LOCK: &str = include_str!("source.lock");
const MAKEFILE: &str = include_str!("fabtests.mk");
/// Programs that build them.
const NEEDS: &[&str] = &["autoreconf", "libtoolize", "make", "cc"];
/// A header of libibverbs, and one of librdmacm.
const HEADERS: &[&str] = &["infiniband/verbs.h", "rdma/rdma_cma.h"];
/// Where the crate has libfabric.
const SOURCE: &str = "vendor/lamellar-libfabric-src/libfabric";

/// Why they cannot be built here, if so.
pub fn missing() -> Option<&'static str> {
    let program = NEEDS.iter().find(|program| find_program(program).is_none());
    let include = Path::new("/usr/include");
    program.or_else(|| HEADERS.iter().find(|header| !include.join(header).is_file())).copied()
}

/// The folder with libfabric and the programs, which is made if there is none of this version.
///
/// # Errors
/// There is no network, or something does not compile.
pub fn built() -> Result<PathBuf> {
    let home = workspace::target_folder().join("fabtests");
    let (out, mark) = (home.join("out"), home.join("made-of"));
    let made_of = [MANIFEST, LOCK, MAKEFILE].concat();
    if fs::read_to_string(&mark).is_ok_and(|text| text == made_of) {
        return Ok(out);
    }
    if home.exists() {
        fs::remove_dir_all(&home).context(|| format!("could not remove {}", home.display()))?;
    }
    fetch(&home)?;
    make(&home, &out)?;
    write(&mark, &made_of)?;
    Ok(out)
}

fn fetch(home: &Path) -> Result<()> {
    fs::create_dir_all(home).context(|| format!("could not make {}", home.display()))?;
    for (name, text) in [("Cargo.toml", MANIFEST), ("Cargo.lock", LOCK), ("lib.rs", "")] {
        write(&home.join(name), text)?;
    }
    run(workspace::cargo(&["vendor", "--locked", "--quiet", "vendor"]).current_dir(home)).map_err(
        |error| Error::new(format!("libfabric's source could not be fetched by cargo: {error}")),
    )
}

fn make(home: &Path, out: &Path) -> Result<()> {
    let (source, work) = (home.join(SOURCE), home.join("build"));
    for folder in [out, &work] {
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    let makefile = home.join("fabtests.mk");
    write(&makefile, MAKEFILE)?;
    let jobs = available_parallelism().map_or(1, usize::from);
    let mut make = command(["make", "--silent", &format!("--jobs={jobs}")]);
    make.arg("--file").arg(makefile).current_dir(work);
    make.arg(format!("SOURCE={}", source.display())).arg(format!("OUT={}", out.display()));
    // A make above this one would have this one take its jobs and options.
    run(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).context(|| format!("could not write {}", path.display()))
}
