//! Folders that packages are made in, and roots that they are installed into.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::netns::NetNs;
use uroce_testbed::process::{AS_NOBODY, command, run};

use super::files::{self, OF_THE_SYSTEM};

/// Folders in which a package manager and the programs keep notes of their own.
const NOTES: [&str; 10] = [
    "dev",
    "proc",
    "root",
    "sys",
    "run",
    "tmp",
    "var/cache",
    "var/lib/dpkg",
    "var/lib/rpm",
    "var/log",
];
/// Enters a root as the user nobody, with the kernel's file systems in it; they vanish with the mount namespace that
/// `ip netns exec` makes.
const ENTER: &str = "for name in proc sys dev; do mount --rbind /$name \"$0/$name\" || exit; done; \
                     cd / && exec chroot --userspec=65534:65534 \"$0\" \"$@\"";

/// A folder of this process, removed on drop.
///
/// # Errors
/// There is no room.
pub fn folder(purpose: &str) -> Result<(PathBuf, Guard)> {
    let path = std::env::temp_dir().join(format!("uroce-{purpose}-{}", std::process::id()));
    let guard = Guard::new(Leftover::Folder(path.clone()));
    fs::create_dir_all(&path).context(|| format!("could not make {}", path.display()))?;
    // The user nobody enters it, whatever the umask is.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .context(|| format!("could not set the mode of {}", path.display()))?;
    Ok((path, guard))
}

/// What is built, below `usr` in a folder of its own and with compressed manual pages, as packages have it.
///
/// # Errors
/// There is no room.
pub fn stage(built: &Path, purpose: &str) -> Result<(PathBuf, Guard)> {
    let (path, guard) = folder(&format!("package-{purpose}"))?;
    run(command(["cp", "-R"]).arg(built).arg(path.join("usr")))?;
    let is_page = |page: &PathBuf| page.starts_with("usr/share/man") && page.extension().is_some();
    let pages: Vec<_> = files::below(&path)?.into_iter().filter(is_page).collect();
    run(command(["gzip", "-9n"]).args(&pages).current_dir(&path))?;
    run(command(["chmod", "-R", "u=rwX,go=rX"]).arg(&path))?;
    Ok((path, guard))
}

/// Where a package is installed.
#[derive(Debug)]
pub enum Root {
    /// A folder with nothing in it: its programs run on this system.
    Empty(PathBuf),
    /// A whole system: its programs run in it.
    System(PathBuf),
}

impl Root {
    /// Its folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Empty(path) | Self::System(path) => path,
        }
    }

    /// A command of `program`, installed below `prefix`, in a network namespace and as the user nobody.
    pub fn command(&self, network: &NetNs, prefix: &str, words: &[&str]) -> Command {
        let path = self.path().display().to_string();
        let mut all: Vec<String> = match self {
            Self::Empty(_) => {
                let mut all: Vec<_> = AS_NOBODY.iter().map(|word| (*word).to_owned()).collect();
                all.push(format!("{path}{prefix}/bin/uroce"));
                all
            }
            Self::System(_) => {
                ["sh", "-c", ENTER, &path, &format!("{prefix}/bin/uroce")].map(str::to_owned).into()
            }
        };
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let mut inside = network.command(&all);
        inside.env("HOME", "/nonexistent").env("LC_ALL", "C");
        inside
    }

    /// A command of a package manager with this root: the root's own one in a system, this machine's one else.
    pub fn manager(&self, program: &str) -> Command {
        let path = self.path().display().to_string();
        match self {
            Self::Empty(_) => command([program.to_owned(), format!("--root={path}")]),
            Self::System(_) => command(["chroot", &path, program]),
        }
    }

    /// Everything in it, with the size of files, but for what a package manager notes down.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn contents(&self) -> Result<BTreeMap<PathBuf, u64>> {
        let noted = |path: &PathBuf| {
            NOTES.iter().any(|folder| path.starts_with(folder))
                || OF_THE_SYSTEM.iter().any(|folder| path == Path::new(folder))
        };
        let all = files::below(self.path())?.into_iter().filter(|path| !noted(path));
        let sized = |path: PathBuf| {
            let found = self.path().join(&path).symlink_metadata().ok();
            let size = found.filter(|f| !f.is_dir()).map_or(0, |found| found.size());
            (path, size)
        };
        Ok(all.map(sized).collect())
    }
}

/// What was there before is there now, and nothing else.
///
/// # Errors
/// Names what came, went or changed.
pub fn compare(before: &BTreeMap<PathBuf, u64>, now: &BTreeMap<PathBuf, u64>) -> Result<()> {
    let came = now.iter().filter(|(path, size)| before.get(*path) != Some(size));
    let went = before.keys().filter(|path| !now.contains_key(*path));
    let names: Vec<_> =
        came.map(|(path, _)| path).chain(went).map(|path| path.display().to_string()).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!("not as it was before: {}", names.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_behind_is_named() {
        let files = |all: &[(&str, u64)]| {
            all.iter().map(|(path, size)| (PathBuf::from(path), *size)).collect::<BTreeMap<_, _>>()
        };
        let before = files(&[("etc", 0), ("etc/a", 3)]);
        assert!(compare(&before, &before).is_ok());
        let error = compare(&before, &files(&[("etc", 0), ("etc/a", 4), ("usr/b", 1)]));
        let error = error.expect_err("two").to_string();
        assert!(error.contains("etc/a, usr/b"), "{error}");
        assert!(compare(&before, &files(&[("etc", 0)])).is_err());
    }
}
