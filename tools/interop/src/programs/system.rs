//! Libraries of the system.

use std::path::PathBuf;

use uroce_testbed::error::{Error, Result};
use uroce_testbed::process::{command, stdout_of};

/// Where the dynamic linker finds a library of the system.
///
/// # Errors
/// There is none.
pub fn path_of(library: &str) -> Result<PathBuf> {
    let cache = stdout_of(&mut command(["/sbin/ldconfig", "-p"]))?;
    let found = cache.lines().find(|line| line.trim_start().starts_with(&format!("{library} ")));
    let path =
        found.and_then(|line| line.split_once("=> ")).map(|(_, path)| PathBuf::from(path.trim()));
    path.ok_or_else(|| Error::new(format!("this machine has no {library}")))
}

/// The library of librdmacm that makes the sockets of a program into rsockets.
///
/// # Errors
/// There is none.
pub fn rspreload() -> Result<PathBuf> {
    Ok(path_of("librdmacm.so.1")?.with_file_name("rsocket").join("librspreload.so.1"))
}
