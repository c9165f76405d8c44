//! Which Linux kernel the guest has: its Debian packages, downloaded and unpacked, not installed.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::packages;
use uroce_testbed::process::{command, is_root, run, stdout_of};

use crate::apt::{self, Apt};
use crate::cache::Cache;
use crate::folder::find_in;
use crate::recipe;

/// A kernel that the guest can have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// The newest of this host's Debian release.
    #[default]
    Host,
    /// Linux 6.1: Debian 12.
    #[value(name = "6.1")]
    Debian12,
    /// Linux 6.12: Debian 13.
    #[value(name = "6.12")]
    Debian13,
    /// That of Debian testing: Linux 7.2 in November 2026.
    #[value(name = "7.2", alias = "testing")]
    Testing,
}

impl Kernel {
    /// The release whose newest kernel it is, if that is another than this host's.
    pub fn suite(self) -> Option<&'static str> {
        let suite = match self {
            Self::Host => return None,
            Self::Debian12 => "bookworm",
            Self::Debian13 => "trixie",
            Self::Testing => "testing",
        };
        (!apt::host_has(suite)).then_some(suite)
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// An unpacked kernel and its modules.
#[derive(Debug)]
pub struct Unpacked {
    folder: PathBuf,
    version: String,
}

impl Unpacked {
    /// The newest kernel of `suite` or of this host's release; downloaded if it is not there yet.
    ///
    /// # Errors
    /// apt cannot, or the packages have not what a kernel is made of.
    pub fn fetch(cache: &Cache, suite: Option<&str>) -> Result<Self> {
        let apt = match suite {
            Some(suite) => Apt::of_suite(suite, &cache.folder().join("apt"))?,
            None => Apt::of_host(),
        };
        let newest = || image_package(&apt).and_then(|image| download(cache, &apt, &image));
        let folder = newest().or_else(|error| {
            // The package lists may be missing, or so old that the package is gone.
            if suite.is_none() && !is_root() {
                return Err(error);
            }
            apt.update()?;
            newest()
        })?;
        let version = find_in(&folder.join("lib/modules"), |_| true)?;
        let version = version.file_name().unwrap_or_default().to_string_lossy().into_owned();
        run(command(["depmod", "-b"]).arg(&folder).arg(&version))?;
        Ok(Self { folder, version })
    }

    /// The kernel itself. Later packages have it beside the modules.
    ///
    /// # Errors
    /// There is none.
    pub fn image(&self) -> Result<PathBuf> {
        let beside = self.folder.join("lib/modules").join(&self.version).join("vmlinuz");
        if beside.is_file() {
            return Ok(beside);
        }
        find_in(&self.folder.join("boot"), |name| name.starts_with("vmlinuz"))
    }

    /// The files to insert for `module`, dependencies first; empty when it is built into the kernel.
    ///
    /// # Errors
    /// This kernel has no such module.
    pub fn with_dependencies(&self, module: &str) -> Result<Vec<PathBuf>> {
        let mut query = command(["modprobe", "-d"]);
        query.arg(&self.folder).args(["-S", &self.version, "--show-depends", module]);
        let listing = stdout_of(&mut query)?;
        let inserted = |line: &str| {
            let path = line.strip_prefix("insmod ")?.split_whitespace().next()?;
            Some(PathBuf::from(path))
        };
        Ok(listing.lines().filter_map(inserted).collect())
    }

    /// Copies the modules `wanted`, and those that they need, into `folder`; the names of all in the order of need.
    ///
    /// # Errors
    /// One is missing that the guest cannot do without, or cannot be unpacked.
    pub fn copy_modules(&self, wanted: &[&str], folder: &Path) -> Result<Vec<String>> {
        let mut order: Vec<String> = Vec::new();
        for module in wanted {
            let files = match self.with_dependencies(module) {
                Err(_) if recipe::MODULES_OF_OLD_KERNELS.contains(module) => {
                    eprintln!("Linux {} has no module {module} and needs none", self.version);
                    continue;
                }
                files => files?,
            };
            for file in files {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let name = name.trim_end_matches(".xz").to_owned();
                if !order.contains(&name) {
                    copy_module(&file, &folder.join(&name))?;
                    order.push(name);
                }
            }
        }
        Ok(order)
    }
}

/// The guest's `insmod` reads no compressed modules.
fn copy_module(from: &Path, to: &Path) -> Result<()> {
    let context = || format!("could not copy module {}", from.display());
    if from.extension().is_none_or(|extension| extension != "xz") {
        return fs::copy(from, to).map(drop).context(context);
    }
    packages::ensure(&["xz-utils"])?;
    let out = fs::File::create(to).context(context)?;
    let status = command(["xz", "--decompress", "--stdout"]).arg(from).stdout(out).status();
    match status.context(context)?.success() {
        true => Ok(()),
        false => Err(Error::new(format!("xz could not unpack {}", from.display()))),
    }
}

fn image_package(apt: &Apt) -> Result<String> {
    let meta = recipe::KERNEL_META_PACKAGE;
    let image = apt.dependencies(meta)?.into_iter().find(|name| name.starts_with("linux-image-"));
    image.ok_or_else(|| Error::new(format!("apt does not know {meta}; run apt-get update")))
}

/// Later kernels come as several packages, whose names end with the same version.
fn download(cache: &Cache, apt: &Apt, image: &str) -> Result<PathBuf> {
    let folder = cache.folder().join("kernel").join(image);
    if folder.join("lib/modules").is_dir() {
        return Ok(folder);
    }
    let version = image.strip_prefix("linux-image").unwrap_or(image);
    let mut names = apt.dependencies(image)?;
    names.retain(|name| name.ends_with(version));
    names.push(image.to_owned());
    apt.unpack(&names, &folder)?;
    if !folder.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", folder.join("lib"))
            .context(|| "could not link the modules to where modprobe looks for them")?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_called_by_version() {
        let named = |name| Kernel::from_str(name, false).expect("a kernel");
        assert_eq!([named("7.2"), named("testing")], [Kernel::Testing; 2]);
        assert_eq!(Kernel::Debian13.to_string(), "6.12");
        assert_eq!(Kernel::Host.suite(), None);
    }
}
