//! Where the repository is.

use std::path::PathBuf;

/// The top folder of the repository, also when cargo runs this program from somewhere else.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").is_file())
        .map_or_else(|| PathBuf::from("."), PathBuf::from)
}
