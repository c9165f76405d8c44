//! What a program and libraries need of the system that they are installed on.

use std::collections::BTreeSet;
use std::path::PathBuf;

use uroce_testbed::error::{Error, Result};
use uroce_testbed::process::{command, stdout_of};

/// The libraries of glibc, each of them on every system that has it.
const OF_GLIBC: [&str; 5] =
    ["libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"];
/// The dynamic linkers of glibc start so.
const LINKER: &str = "ld-linux";

/// Libraries and versions that ELF files name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SystemNeeds {
    libraries: BTreeSet<String>,
    glibc: (u32, u32),
    strange: BTreeSet<String>,
}

/// What `files` need together.
///
/// # Errors
/// One of them is no ELF file.
pub fn of(files: &[PathBuf]) -> Result<SystemNeeds> {
    let mut needs = SystemNeeds::default();
    for file in files {
        needs.add(&stdout_of(command(["objdump", "-p"]).arg(file).env("LC_ALL", "C"))?);
    }
    Ok(needs)
}

impl SystemNeeds {
    /// Adds what `objdump -p` prints of a file.
    fn add(&mut self, listing: &str) {
        let references = listing.split_once("Version References:").map_or("", |(_, rest)| rest);
        for line in listing.lines() {
            let mut words = line.split_whitespace();
            if words.next() == Some("NEEDED") {
                self.libraries.extend(words.next().map(str::to_owned));
            }
        }
        for name in references.lines().filter_map(|line| line.split_whitespace().last()) {
            match name.strip_prefix("GLIBC_").map(version) {
                Some(Some(version)) => self.glibc = self.glibc.max(version),
                Some(None) => drop(self.strange.insert(name.to_owned())),
                None => {}
            }
        }
    }

    /// The oldest glibc that has all of it, such as `2.28`.
    pub fn glibc_text(&self) -> String {
        format!("{}.{}", self.glibc.0, self.glibc.1)
    }

    /// Libraries that are not of glibc.
    pub fn others(&self) -> Vec<&str> {
        let is_other = |name: &&str| !OF_GLIBC.contains(name) && !name.starts_with(LINKER);
        self.libraries.iter().map(String::as_str).filter(is_other).collect()
    }

    /// Nothing but a glibc of this version is needed.
    ///
    /// # Errors
    /// A newer one is, or another library.
    pub fn check(&self, oldest: &str) -> Result<()> {
        let others = self.others();
        if let Some(name) = self.strange.first() {
            return Err(Error::new(format!("{name} is no version that glibc keeps")));
        }
        if version(oldest).is_none_or(|oldest| self.glibc > oldest) {
            let needed = self.glibc_text();
            return Err(Error::new(format!("glibc {needed} is needed, and {oldest} must do")));
        }
        match others.is_empty() {
            true => Ok(()),
            false => Err(Error::new(format!("not every system has {}", others.join(", ")))),
        }
    }
}

/// `2.28` or `2.2.5`, as two numbers.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
Dynamic Section:
  NEEDED               libm.so.6
  NEEDED               libgcc_s.so.1
  SONAME               GLIBC_9.9

Version References:
  required from libc.so.6:
    0x09691a75 0x00 03 GLIBC_2.2.5
    0x069691b8 0x00 05 GLIBC_2.28
  required from libgcc_s.so.1:
    0x0b792650 0x00 02 GCC_3.0
";

    #[test]
    fn the_newest_version_and_foreign_libraries_are_found() {
        let mut needs = SystemNeeds::default();
        needs.add(LISTING);
        assert_eq!(needs.glibc_text(), "2.28");
        assert_eq!(needs.others(), ["libgcc_s.so.1"]);
        let error = needs.check("2.28").expect_err("a library").to_string();
        assert!(error.contains("libgcc_s.so.1"), "{error}");
        let error = needs.check("2.17").expect_err("too new").to_string();
        assert!(error.contains("2.28 is needed"), "{error}");
    }

    #[test]
    fn a_private_name_of_glibc_is_refused() {
        let mut needs = SystemNeeds::default();
        needs.add(
            "Version References:\n  required from libc.so.6:\n    0x1 0x00 02 GLIBC_PRIVATE\n",
        );
        assert!(needs.check("2.28").is_err_and(|error| error.to_string().contains("PRIVATE")));
    }
}
