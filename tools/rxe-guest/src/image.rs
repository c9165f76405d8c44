//! Makes the guest: kernel and modules from Debian's package, programs and libraries from this host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::packages;
use uroce_testbed::process::{command, find_program, run, stdout_of};

use crate::cache::{Cache, recipe_fingerprint};
use crate::folder::{find_in, recreate};
use crate::kernel::{Kernel, Unpacked};
use crate::recipe;

/// Makes the guest with this kernel, if the cache folder has no fitting one; says where it is.
///
/// # Errors
/// A package is missing, a program failed, or the disk is full.
pub fn build(kernel: Kernel) -> Result<PathBuf> {
    ensure(kernel).map(|cache| cache.folder().to_owned())
}

/// Makes the guest with this kernel when the cached one does not fit; says where it is.
///
/// # Errors
/// A package is missing, a program failed, or the disk is full.
pub(crate) fn ensure(kernel: Kernel) -> Result<Cache> {
    packages::ensure(packages::RXE_GUEST)?;
    let suite = kernel.suite();
    let cache = Cache::locate(suite);
    let _lock = cache.lock()?;
    let fingerprint = recipe_fingerprint()?;
    if !cache.is_fresh(&fingerprint) {
        make(&cache, suite)?;
        cache.seal(&fingerprint)?;
    }
    Ok(cache)
}

fn make(cache: &Cache, suite: Option<&str>) -> Result<()> {
    eprintln!("making the rxe guest in {}", cache.folder().display());
    let kernel = Unpacked::fetch(cache, suite)?;
    let root = cache.folder().join("root");
    recreate(&root)?;
    add_skeleton(&root)?;
    add_programs(&root)?;
    add_provider(&root)?;
    add_modules(&root, &kernel)?;
    fs::copy(kernel.image()?, cache.kernel()).context(|| "could not copy the kernel")?;
    pack(&root, &cache.initramfs())
}

fn add_skeleton(root: &Path) -> Result<()> {
    for folder in ["bin", "proc", "sys", "dev", "tmp", "run", "etc", "root", "mnt", "modules"] {
        fs::create_dir_all(root.join(folder))
            .context(|| format!("could not make {folder} of the guest"))?;
    }
    let busybox = find_program("busybox")
        .ok_or_else(|| Error::new("busybox-static is installed but busybox is not in the PATH"))?;
    fs::copy(busybox, root.join("bin/busybox")).context(|| "could not copy busybox")?;
    // Not busybox's shell: that prefers its own programs (ip) to those in the PATH.
    fs::copy("/bin/dash", root.join("bin/sh")).context(|| "could not copy dash")?;
    add_libraries(root, Path::new("/bin/dash"))?;
    write_file(&root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644)?;
    write_file(&root.join("etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n", 0o644)?;
    write_file(&root.join("init"), recipe::INIT, 0o755)?;
    write_file(&root.join("agent"), recipe::AGENT, 0o755)
}

fn write_file(path: &Path, text: &str, mode: u32) -> Result<()> {
    fs::write(path, text).context(|| format!("could not write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .context(|| format!("could not set the mode of {}", path.display()))
}

/// Programs go to one folder that stands before busybox in the guest's `PATH`.
fn add_programs(root: &Path) -> Result<()> {
    let folder = root.join("usr/local/bin");
    fs::create_dir_all(&folder).context(|| "could not make the guest's program folder")?;
    for name in recipe::PROGRAMS {
        let program = find_program(name).ok_or_else(|| {
            Error::new(format!("{name} is in none of the packages it should be in"))
        })?;
        fs::copy(&program, folder.join(name)).context(|| format!("could not copy {name}"))?;
        add_libraries(root, &program)?;
    }
    recipe::EXTRA_FILES.iter().try_for_each(|file| copy_as_is(root, Path::new(file)))
}

fn add_libraries(root: &Path, binary: &Path) -> Result<()> {
    let listing = stdout_of(command(["ldd"]).arg(binary))?;
    let libraries = listing.split_whitespace().filter(|word| word.starts_with('/'));
    libraries.map(Path::new).try_for_each(|library| copy_as_is(root, library))
}

fn add_provider(root: &Path) -> Result<()> {
    let (folder, prefix) = recipe::PROVIDER;
    let provider = find_in(Path::new(folder), |name| name.starts_with(prefix))?;
    copy_as_is(root, &provider)?;
    add_libraries(root, &provider)
}

/// Copies a file of the host to the same path in the guest, once, following links.
fn copy_as_is(root: &Path, file: &Path) -> Result<()> {
    let inside = root.join(file.strip_prefix("/").unwrap_or(file));
    if inside.exists() {
        return Ok(());
    }
    let folder = inside.parent().expect("a file below the root has a folder");
    fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    fs::copy(file, &inside).map(drop).context(|| format!("could not copy {}", file.display()))
}

fn add_modules(root: &Path, kernel: &Unpacked) -> Result<()> {
    let order = kernel.copy_modules(recipe::MODULES, &root.join("modules"))?;
    write_file(&root.join("modules/order"), &(order.join("\n") + "\n"), 0o644)
}

/// Not compressed: unpacking costs more under software emulation than loading does.
fn pack(root: &Path, archive: &Path) -> Result<()> {
    let script = "find . -print0 | cpio --null --quiet -o -H newc -R 0:0 > \"$1\"";
    let archive =
        std::path::absolute(archive).context(|| "could not make the archive's path absolute")?;
    run(command(["sh", "-c", script, "pack"]).arg(archive).current_dir(root))
}
