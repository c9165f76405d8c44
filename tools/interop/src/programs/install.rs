//! The program and the libraries, where a user without privileges finds them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Result};
use uroce_testbed::install as package;

/// A folder for files of the programs, beside the libraries.
pub const SCRATCH: &str = "scratch";

/// The program and the libraries in a folder that the user nobody may read.
///
/// # Errors
/// They do not build, or there is no room.
pub fn install() -> Result<(PathBuf, Guard)> {
    install_with(&[])
}

/// The same, built with these features, each `PACKAGE/FEATURE`.
///
/// # Errors
/// As [`install`].
pub fn install_with(features: &[&str]) -> Result<(PathBuf, Guard)> {
    let folder = std::env::temp_dir().join(format!("uroce-programs-{}", std::process::id()));
    fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    let guard = Guard::new(Leftover::Folder(folder.clone()));
    package::for_tests(&folder, features)?;
    for path in ["", "bin", "lib", "lib/uroce", "lib/uroce/drop-in"] {
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.join(path), readable).context(|| "could not set a mode")?;
    }
    let (scratch, writable) = (folder.join(SCRATCH), fs::Permissions::from_mode(0o777));
    fs::create_dir_all(&scratch).context(|| format!("could not make {}", scratch.display()))?;
    fs::set_permissions(scratch, writable).context(|| "could not set a mode")?;
    Ok((folder, guard))
}
