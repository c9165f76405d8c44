//! The files of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Result};

/// Folders that every system has; a package owns the others, so that nothing of them stays.
pub const OF_THE_SYSTEM: [&str; 10] = [
    "usr",
    "usr/bin",
    "usr/lib",
    "usr/lib/systemd",
    "usr/lib/systemd/system",
    "usr/share",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/man/man1",
    "usr/share/man/man7",
];

/// Everything below `folder` in order, relative to it: files, links and folders.
///
/// # Errors
/// It cannot be read.
pub fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    let mut open = vec![PathBuf::new()];
    while let Some(inside) = open.pop() {
        let path = folder.join(&inside);
        let entries =
            fs::read_dir(&path).context(|| format!("could not read {}", path.display()))?;
        for entry in entries {
            let entry = entry.context(|| format!("could not read {}", path.display()))?;
            let name = inside.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(name.clone());
            }
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// The program and the libraries of what `cargo xtask dist` has built; links are none of them.
///
/// # Errors
/// As [`below`].
pub fn programs(built: &Path) -> Result<Vec<PathBuf>> {
    let in_folder = |path: &PathBuf| path.starts_with("bin") || path.starts_with("lib/uroce");
    let all = below(built)?.into_iter().filter(in_folder).map(|path| built.join(path));
    Ok(all.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_file())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_listed_in_order() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = below(here).expect("readable");
        let place = |name: &str| found.iter().position(|path| path == Path::new(name));
        assert!(place("src").is_some_and(|folder| place("src/main.rs") > Some(folder)));
    }
}
