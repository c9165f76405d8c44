//! Folders on the way to an image.

use std::fs;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Error, Result};

/// Makes `folder` anew, empty.
///
/// # Errors
/// It cannot be emptied or made.
pub fn recreate(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context(|| format!("could not empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))
}

/// The first entry of `folder` whose name is `wanted`.
///
/// # Errors
/// There is none, or the folder cannot be read.
pub fn find_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries =
        fs::read_dir(folder).context(|| format!("could not read {}", folder.display()))?;
    let fits =
        |path: &PathBuf| path.file_name().is_some_and(|name| wanted(&name.to_string_lossy()));
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(fits)
        .ok_or_else(|| Error::new(format!("nothing fitting in {}", folder.display())))
}
