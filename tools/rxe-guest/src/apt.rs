//! Packages of Debian: those of this host's release, and those of another one without touching this host's apt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, run, stdout_of};

use crate::folder::{find_in, recreate};

/// The keys that Debian signs its archive with, also those of later releases; in package `debian-archive-keyring`.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The apt of this host, or apt with a package list and a cache of its own.
#[derive(Debug)]
pub struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// With the sources and the package lists of this host.
    pub fn of_host() -> Self {
        Self { options: Vec::new() }
    }

    /// With the packages of `suite` (`trixie`, `testing`), from the archive that this host takes its packages from.
    ///
    /// Package lists and all else that apt writes are in `folder`.
    ///
    /// # Errors
    /// This host has no archive of Debian, or `folder` cannot be written.
    pub fn of_suite(suite: &str, folder: &Path) -> Result<Self> {
        let folder = std::path::absolute(folder).context(|| "could not name the folder of apt")?;
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).context(|| format!("could not make {}", part.display()))?;
        }
        let source = format!("deb [signed-by={KEYRING}] {} {suite} main\n", archive()?);
        let list = folder.join("sources.list");
        fs::write(&list, source).context(|| format!("could not write {}", list.display()))?;
        Ok(Self { options: options(&folder) })
    }

    /// Fetches the package lists.
    ///
    /// # Errors
    /// The archive cannot be reached, or its signature is wrong.
    pub fn update(&self) -> Result<()> {
        run(self.command("apt-get").args(["update", "-q"]))
    }

    /// What `package` depends on.
    ///
    /// # Errors
    /// There is no such package in the lists.
    pub fn dependencies(&self, package: &str) -> Result<Vec<String>> {
        let listing = stdout_of(self.command("apt-cache").args(["depends", package]))?;
        let name = |line: &str| Some(line.trim().strip_prefix("Depends: ")?.to_owned());
        Ok(listing.lines().filter_map(name).collect())
    }

    /// Downloads `packages` and makes `folder` of their content; nothing is installed. There is no `folder` before all of it
    /// is unpacked.
    ///
    /// # Errors
    /// They are not in the archive, or the disk is full.
    pub fn unpack(&self, packages: &[String], folder: &Path) -> Result<()> {
        let mut part = folder.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        recreate(&part)?;
        let mut apt = self.command("apt-get");
        run(apt.args(["download", "-q"]).args(packages).current_dir(&part))?;
        for _ in packages {
            let archive = find_in(&part, |name| name.ends_with(".deb"))?;
            run(command(["dpkg", "-x"]).arg(&archive).arg(&part))?;
            fs::remove_file(archive).context(|| "could not remove the unpacked archive")?;
        }
        // A folder of no entries may be replaced.
        recreate(folder)?;
        fs::rename(&part, folder).context(|| format!("could not make {}", folder.display()))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = command([program]);
        command.args(&self.options);
        command
    }
}

/// True when this host's packages come from the release `suite`.
pub fn host_has(suite: &str) -> bool {
    let names = index_targets("$(CODENAME) $(SUITE)").unwrap_or_default();
    names.split_whitespace().any(|name| name == suite)
}

/// Where this host's Debian packages come from. An archive of security updates alone has no other releases' kernels.
///
/// # Errors
/// This host has no archive of Debian.
pub fn archive() -> Result<String> {
    let lines = index_targets("$(LABEL) $(REPO_URI)")?;
    let found = lines.lines().find_map(|line| line.strip_prefix("Debian "));
    found.map(str::to_owned).ok_or_else(|| {
        Error::new("apt has no package list of Debian; run apt-get update on a Debian host")
    })
}

fn index_targets(format: &str) -> Result<String> {
    let words = ["apt-get", "indextargets", "--format", format, "Created-By: Packages"];
    stdout_of(&mut command(words))
}

/// No list of installed packages: what this host has does not matter to what is downloaded.
fn options(folder: &Path) -> Vec<String> {
    let folder = folder.display();
    let settings = [
        format!("Dir::Etc::SourceList={folder}/sources.list"),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        "Dir::Etc::Preferences=/dev/null".to_owned(),
        "Dir::Etc::PreferencesParts=/dev/null".to_owned(),
        "Dir::State::Status=/dev/null".to_owned(),
        format!("Dir::State={folder}"),
        format!("Dir::State::Lists={folder}/lists"),
        format!("Dir::Cache={folder}/cache"),
        "Acquire::Languages=none".to_owned(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
    ];
    settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]).collect()
}
