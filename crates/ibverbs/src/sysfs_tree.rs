//! A folder that looks like /sys/class/infiniband with our devices in it.
//!
//! It lies in the user's runtime folder, or in /tmp, under a name made of what is in it: processes
//! with the same devices share it, and one that never ends well leaves a few small files.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, process};

use uroce_device::host::environment;

use crate::{settings, sysfs};

/// Where the devices of this process are shown; made when it is asked for first. `None`: it cannot be
/// made, or belongs to another user.
pub fn root() -> Option<&'static Path> {
    static ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    ROOT.get_or_init(|| make().ok()).as_deref()
}

/// A file below the root, and what is in it.
type Entry = (PathBuf, String);

fn entries() -> (Vec<Entry>, Vec<PathBuf>) {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for interface in settings::devices() {
        let device = PathBuf::from(&interface.name);
        folders.push(device.join("device/net").join(&interface.netdev));
        let below = sysfs::files(&interface).into_iter();
        files.extend(below.map(|(name, text)| (device.join(name), text + "\n")));
    }
    (files, folders)
}

fn make() -> io::Result<PathBuf> {
    let (files, folders) = entries();
    let mut name = DefaultHasher::new();
    (&files, &folders).hash(&mut name);
    let home = home()?;
    let tree = home.join(format!("sysfs-{:016x}", name.finish()));
    if !tree.is_dir() {
        let draft = home.join(format!("draft-{}", process::id()));
        write(&draft, &files, &folders)?;
        // Another process may have made the same one meanwhile.
        if fs::rename(&draft, &tree).is_err() {
            fs::remove_dir_all(&draft)?;
        }
    }
    Ok(tree)
}

/// A folder that only this user can write.
fn home() -> io::Result<PathBuf> {
    let runtime = environment::variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let temporary = environment::variable("TMPDIR").unwrap_or_else(|| "/tmp".into());
    home_in(runtime.filter(|folder| folder.is_dir()), Path::new(&temporary))
}

/// The folder of the session may be another user's: su(1) keeps its variable.
fn home_in(runtime: Option<PathBuf>, temporary: &Path) -> io::Result<PathBuf> {
    // SAFETY: no arguments, always succeeds.
    let user = unsafe { libc::geteuid() };
    let of_session = runtime.map(|folder| folder.join("uroce"));
    if let Some(home) = of_session.filter(|home| make_home(home, user).is_ok()) {
        return Ok(home);
    }
    let home = temporary.join(format!("uroce-{user}"));
    make_home(&home, user).map(|()| home)
}

fn make_home(home: &Path, user: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    let found = fs::symlink_metadata(home)?;
    let safe = found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0;
    if safe { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn write(draft: &Path, files: &[Entry], folders: &[PathBuf]) -> io::Result<()> {
    folders.iter().try_for_each(|folder| fs::create_dir_all(draft.join(folder)))?;
    for (name, text) in files {
        let path = draft.join(name);
        fs::create_dir_all(path.parent().unwrap_or(draft))?;
        fs::write(path, text)?;
    }
    Ok(())
}

/// A new file with this text, beside the tree; the caller removes it.
pub fn write_once(text: &str) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    /// Files that a process with this number may have left when it was killed.
    const TRIES: u32 = 16;
    let home = home()?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o444);
    for _ in 0..TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = home.join(format!("value-{}-{number}", process::id()));
        match options.open(&path) {
            Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_folder() {
        let root = root().expect("a folder of this user's own");
        for device in settings::devices() {
            let port = root.join(&device.name).join("ports/1/link_layer");
            assert_eq!(fs::read_to_string(port).expect("a file"), "Ethernet\n");
            assert!(root.join(&device.name).join("device/net").join(&device.netdev).is_dir());
        }
    }

    #[test]
    fn without_rights_in_the_folder_of_the_session_the_temporary_one_is_taken() {
        let temporary = std::env::temp_dir().join(format!("uroce-home-{}", process::id()));
        fs::create_dir_all(&temporary).expect("a folder");
        let home = home_in(Some("/proc".into()), &temporary).expect("there is another");
        assert!(home.starts_with(&temporary), "{}", home.display());
        let home = home_in(Some(temporary.clone()), Path::new("/proc")).expect("the first");
        assert_eq!(home, temporary.join("uroce"));
        assert!(home_in(Some("/proc".into()), Path::new("/proc")).is_err());
        fs::remove_dir_all(temporary).expect("it is there");
    }
}
