//! The tarball: one folder, to be unpacked anywhere.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use uroce_testbed::error::Result;
use uroce_testbed::process::{command, run};

use super::VERSION;

/// The name of the folder in it.
pub fn name() -> String {
    format!("uroce-{VERSION}-{ARCH}-linux")
}

/// Where it is.
pub fn path(out: &Path) -> PathBuf {
    out.join(format!("{}.tar.gz", name()))
}

/// Packs what is built.
///
/// # Errors
/// There is no `tar`, or no room.
pub fn make(built: &Path, out: &Path, time: &str) -> Result<PathBuf> {
    let path = path(out);
    let mut tar = command(["tar", "--create", "--gzip", "--sort=name", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", &format!("--mtime=@{time}"), "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--transform=flags=r;s,^\\.,{},", name()));
    // gzip would otherwise write the present time into the file.
    run(tar.env("GZIP", "-n").arg("--file").arg(&path).arg("--directory").arg(built).arg("."))?;
    Ok(path)
}
