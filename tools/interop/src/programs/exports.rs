//! The names and versions that the libraries of the system export, looked for in those that stand in their
//! place: a program that finds one missing does not start.

use std::collections::BTreeSet;
use std::path::Path;

use uroce_testbed::error::{Error, Result};
use uroce_testbed::process::{command, stdout_of};

use super::system::path_of;

/// The libraries that are stood in for.
pub const LIBRARIES: &[&str] = &["libibverbs.so.1", "librdmacm.so.1"];
/// What the table calls this.
pub const PROGRAM: &str = "exports";

/// The line of a library in the table.
pub fn line(library: &str) -> String {
    format!("{PROGRAM} {library}")
}

/// Compares our library in `folder` with the system's of the same name; says how many names there are.
///
/// # Errors
/// Names that ours does not have; there is no such library, or no `nm`.
pub fn check(library: &str, folder: &Path) -> Result<String> {
    check_against(&path_of(library)?.display().to_string(), library, folder)
}

/// The same against the file of a library.
///
/// # Errors
/// As [`check`].
pub fn check_against(file: &str, library: &str, folder: &Path) -> Result<String> {
    let ours = exports_of(&folder.join("lib/uroce/drop-in").join(library).display().to_string())?;
    let theirs = exports_of(file)?;
    // A name has one default version; ours may have the other as a further one.
    let has = |name: &str| ours.contains(name) || ours.contains(&name.replace("@@", "@"));
    let missing: Vec<&str> = theirs
        .iter()
        .map(String::as_str)
        .filter(|name| name.contains("@@") && !has(name))
        .collect();
    if missing.is_empty() {
        return Ok(format!("{} names", theirs.iter().filter(|name| name.contains("@@")).count()));
    }
    Err(Error::new(format!("{library} does not export {}", missing.join(", "))))
}

fn exports_of(file: &str) -> Result<BTreeSet<String>> {
    let words = ["nm", "--dynamic", "--defined-only", "--with-symbol-versions", file];
    Ok(parse(&stdout_of(&mut command(words))?))
}

/// Names with their versions; the default ones, as programs of today are linked with them, stand behind `@@`.
fn parse(listing: &str) -> BTreeSet<String> {
    let names = listing.lines().filter_map(|line| line.split_whitespace().last());
    names.filter(|name| name.contains('@')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_versions() {
        let listing = "0000 A V_1\n0010 T new@@V_1\n0020 T old@V_0\n";
        let names = ["new@@V_1", "old@V_0"].map(str::to_owned);
        assert_eq!(parse(listing), BTreeSet::from(names));
    }
}
