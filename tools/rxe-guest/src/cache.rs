//! The folder that holds the made guest, and the decision whether it is still the right one.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use uroce_testbed::error::{Context, Result};
use uroce_testbed::packages;
use uroce_testbed::workspace::target_folder;

use crate::recipe;

/// Paths inside the cache folder.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    kvm_verdict: PathBuf,
}

impl Cache {
    /// `$UROCE_RXE_CACHE`, else `rxe-guest` in cargo's target folder; in there, a folder for each `suite` of Debian
    /// that is not this host's.
    pub fn locate(suite: Option<&str>) -> Self {
        let top = std::env::var_os("UROCE_RXE_CACHE")
            .map_or_else(|| target_folder().join("rxe-guest"), PathBuf::from);
        Self::inside(&top, suite)
    }

    fn inside(top: &Path, suite: Option<&str>) -> Self {
        let folder = suite.map_or_else(|| top.to_owned(), |suite| top.join(suite));
        Self { folder, kvm_verdict: top.join("kvm-verdict") }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, if there is none, and waits until no other process changes it. The lock ends with the file, also
    /// when the process is killed.
    ///
    /// # Errors
    /// The folder cannot be made or locked.
    pub fn lock(&self) -> Result<File> {
        std::fs::create_dir_all(&self.folder)
            .context(|| format!("could not make {}", self.folder.display()))?;
        let path = self.folder.join("lock");
        let context = || format!("could not lock {}", path.display());
        let file = File::create(&path).context(context)?;
        flock(&file, FlockOperation::LockExclusive).context(context)?;
        Ok(file)
    }

    /// The kernel that QEMU starts.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// The guest's root file system.
    pub fn initramfs(&self) -> PathBuf {
        self.folder.join("initramfs.cpio")
    }

    /// Where it is noted that KVM was tried on this boot of the host, and with which result: one note for all kernels.
    pub fn kvm_verdict(&self) -> &Path {
        &self.kvm_verdict
    }

    /// True when the guest was made by exactly this recipe.
    pub fn is_fresh(&self, recipe: &str) -> bool {
        let stored = std::fs::read_to_string(self.folder.join("recipe"));
        stored.is_ok_and(|stored| stored == recipe)
            && self.kernel().is_file()
            && self.initramfs().is_file()
    }

    /// Notes which recipe made the guest.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn seal(&self, recipe: &str) -> Result<()> {
        std::fs::write(self.folder.join("recipe"), recipe)
            .context(|| format!("could not write into {}", self.folder.display()))
    }
}

/// A fingerprint of everything that decides the guest's content: lists, scripts, package versions.
///
/// # Errors
/// The installed packages cannot be asked for.
pub fn recipe_fingerprint() -> Result<String> {
    let mut hasher = DefaultHasher::new();
    (recipe::PROGRAMS, recipe::EXTRA_FILES, recipe::PROVIDER, recipe::MODULES).hash(&mut hasher);
    (recipe::INIT, recipe::AGENT, packages::versions(packages::RXE_GUEST)?).hash(&mut hasher);
    Ok(format!("{:016x}\n", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_changes_the_folder() {
        let folder = std::env::temp_dir().join(format!("uroce-lock-test-{}", std::process::id()));
        let cache = Cache::inside(&folder, None);
        let lock = cache.lock().unwrap();
        let other = File::open(folder.join("lock")).unwrap();
        let at_once = FlockOperation::NonBlockingLockExclusive;
        assert_eq!(flock(&other, at_once), Err(rustix::io::Errno::WOULDBLOCK));
        drop(lock);
        assert_eq!(flock(&other, at_once), Ok(()));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_guest_is_fresh_only_for_its_own_recipe() {
        let folder = std::env::temp_dir().join(format!("uroce-cache-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let cache = Cache::inside(&folder, None);
        assert!(!cache.is_fresh("a"));
        for file in [cache.kernel(), cache.initramfs()] {
            std::fs::write(file, "x").unwrap();
        }
        cache.seal("a").unwrap();
        assert!(cache.is_fresh("a") && !cache.is_fresh("b"));
        let other = Cache::inside(&folder, Some("trixie"));
        assert!(!other.is_fresh("a") && other.kvm_verdict() == cache.kvm_verdict());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
