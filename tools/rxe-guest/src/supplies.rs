//! What one test needs besides: modules for the guest's kernel, and Debian packages that are unpacked and not installed.

use std::fs;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::{command, is_root, run, stdout_of};

use crate::apt::{self, Apt};
use crate::cache::Cache;
use crate::folder::{find_in, recreate};
use crate::kernel::{Kernel, Unpacked};

/// Copies `modules` of this kernel and what they need into `folder`, and their names, in the order of need, into its file
/// `order`. Some of them the guest has loaded already.
///
/// # Errors
/// The kernel has no such module, or `folder` cannot be written.
pub fn add_modules(kernel: Kernel, modules: &[&str], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    let suite = kernel.suite();
    let unpacked = Unpacked::fetch(&Cache::locate(suite), suite)?;
    let order = unpacked.copy_modules(modules, folder)?.join("\n") + "\n";
    fs::write(folder.join("order"), order)
        .context(|| format!("could not write into {}", folder.display()))
}

/// The folder with the content of `packages`: those of this host's release, or of `suite` if that is another.
/// They are downloaded once.
///
/// # Errors
/// apt cannot download them, or the disk is full.
pub fn unpacked(suite: Option<&str>, packages: &[&str]) -> Result<PathBuf> {
    let suite = suite.filter(|suite| !apt::host_has(suite));
    let cache = Cache::locate(suite);
    let folder = cache.folder().join("packages").join(packages.join("+"));
    if folder.join("usr").is_dir() {
        return Ok(folder);
    }
    let apt = match suite {
        Some(suite) => Apt::of_suite(suite, &cache.folder().join("apt"))?,
        None => Apt::of_host(),
    };
    let names: Vec<String> = packages.iter().map(|name| (*name).to_owned()).collect();
    recreate(&folder)?;
    apt.download(&names, &folder).or_else(|error| {
        // The package lists may be missing, or too old.
        if suite.is_none() && !is_root() {
            return Err(error);
        }
        apt.update()?;
        apt.download(&names, &folder)
    })?;
    for _ in packages {
        let archive = find_in(&folder, |name| name.ends_with(".deb"))?;
        run(command(["dpkg", "-x"]).arg(&archive).arg(&folder))?;
        fs::remove_file(archive).context(|| "could not remove the unpacked archive")?;
    }
    Ok(folder)
}

/// Copies `programs` into the folder `bin` of `to`, and the libraries that they load into its folder `lib`. Libraries that
/// this host has not are in `libraries`. The C library stays out: the guest has it.
///
/// # Errors
/// One of them is missing.
pub fn add_programs(programs: &[PathBuf], libraries: &Path, to: &Path) -> Result<()> {
    let (bin, lib) = (to.join("bin"), to.join("lib"));
    for folder in [&bin, &lib] {
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    for program in programs {
        add(program, &bin)?;
        let listing = stdout_of(command(["ldd"]).arg(program).env("LD_LIBRARY_PATH", libraries))?;
        let loaded = listing.split_whitespace().filter(|word| word.starts_with('/'));
        for library in
            loaded.filter(|path| !path.contains("/ld-linux") && !path.contains("/libc.so"))
        {
            add(Path::new(library), &lib)?;
        }
    }
    Ok(())
}

/// Copies a file into a folder under its own name, following links.
///
/// # Errors
/// There is no such file.
pub fn add(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().unwrap_or_default();
    fs::copy(file, folder.join(name))
        .map(drop)
        .context(|| format!("could not copy {}", file.display()))
}
