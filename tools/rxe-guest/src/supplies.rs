//! What one test needs besides: Debian packages that are unpacked and not installed.

use std::fs;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::is_root;

use crate::apt::{self, Apt};
use crate::cache::Cache;
use crate::kernel::{Kernel, Unpacked};

/// The folder with the content of `packages`: those of this host's release, or of `suite` if that is another.
/// They are downloaded once.
///
/// # Errors
/// apt cannot download them, or the disk is full.
pub fn unpacked(suite: Option<&str>, packages: &[&str]) -> Result<PathBuf> {
    let suite = suite.filter(|suite| !apt::host_has(suite));
    let cache = Cache::locate(suite);
    let _lock = cache.lock()?;
    let folder = cache.folder().join("packages").join(packages.join("+"));
    if folder.join("usr").is_dir() {
        return Ok(folder);
    }
    let apt = match suite {
        Some(suite) => Apt::of_suite(suite, &cache.folder().join("apt"))?,
        None => Apt::of_host(),
    };
    let names: Vec<String> = packages.iter().map(|name| (*name).to_owned()).collect();
    apt.unpack(&names, &folder).or_else(|error| {
        // The package lists may be missing, or too old.
        if suite.is_none() && !is_root() {
            return Err(error);
        }
        apt.update()?;
        apt.unpack(&names, &folder)
    })?;
    Ok(folder)
}

/// Copies modules of `kernel`, and those that they need, into `folder`; their names in the order of need.
///
/// # Errors
/// The kernel has no such module, or the disk is full.
pub fn modules(kernel: Kernel, wanted: &[&str], folder: &Path) -> Result<Vec<String>> {
    let suite = kernel.suite();
    let cache = Cache::locate(suite);
    let _lock = cache.lock()?;
    Unpacked::fetch(&cache, suite)?.copy_modules(wanted, folder)
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
