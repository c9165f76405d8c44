//! A name for a folder that the dynamic linker understands. It takes LD_PRELOAD and LD_LIBRARY_PATH apart at spaces,
//! colons and semicolons, and nothing stands for one of those; so a folder with one in its path gets a second name.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::failure::Failure;

/// `folder`, or a symbolic link to it whose path has nothing in it that the dynamic linker cuts at.
///
/// # Errors
/// Exit 3 if no such link can be made.
pub fn of(folder: &Path) -> Result<PathBuf, Failure> {
    if is_plain(folder) {
        return Ok(folder.to_owned());
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let tops = runtime.into_iter().filter(|top| top.is_absolute() && is_plain(top));
    let mut tops = tops.chain([PathBuf::from("/tmp")]);
    let made = tops.find_map(|top| link_in(&top, folder).ok());
    made.ok_or_else(|| {
        Failure::environment(format!(
            "the dynamic linker cannot load from {}: its path has a space, a colon or the like in it, and no link to it \
             could be made in /tmp",
            folder.display()
        ))
        .help("install uroce at a path without them")
    })
}

fn is_plain(path: &Path) -> bool {
    !path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || b":;$".contains(byte))
}

/// The link, in a folder that only we can write to: who can change it, can choose what the program loads.
fn link_in(top: &Path, folder: &Path) -> io::Result<PathBuf> {
    let user = geteuid().as_raw();
    let ours = top.join(format!("uroce-{user}"));
    match DirBuilder::new().mode(0o700).create(&ours) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = ours.symlink_metadata()?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let link = ours.join(format!("{:016x}", hash(folder.as_os_str())));
    match symlink(folder, &link) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ if std::fs::read_link(&link)? == folder => Ok(link),
        _ => Err(ErrorKind::AlreadyExists.into()),
    }
}

/// FNV-1a.
fn hash(text: &OsStr) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v129_a_path_that_the_linker_would_cut_gets_another_name() {
        assert_eq!(of(Path::new("/usr/lib/uroce")), Ok("/usr/lib/uroce".into()));
        let own = std::env::temp_dir().join(format!("uroce test {}", std::process::id()));
        for name in ["a b", "a:b", "a;b", "$ORIGIN"] {
            let folder = own.join(name);
            std::fs::create_dir_all(&folder).expect("a folder");
            let plain = link_in(&own, &folder).expect("a link");
            assert_eq!(link_in(&own, &folder).expect("the same link"), plain);
            assert_eq!(
                plain.canonicalize().expect("it is there"),
                folder.canonicalize().expect("too")
            );
            let public = of(&folder).expect("a link");
            assert!(is_plain(&public), "{}", public.display());
        }
        std::fs::remove_dir_all(&own).expect("ours");
    }

    #[test]
    fn v129_a_folder_that_others_can_write_to_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let own = std::env::temp_dir().join(format!("uroce-open-{}", std::process::id()));
        let link = own.join(format!("uroce-{}", geteuid().as_raw()));
        std::fs::create_dir_all(&link).expect("a folder");
        std::fs::set_permissions(&link, PermissionsExt::from_mode(0o777)).expect("ours");
        assert!(link_in(&own, Path::new("/a b")).is_err());
        std::fs::remove_dir_all(&own).expect("ours");
    }
}
