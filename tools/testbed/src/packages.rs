//! Debian packages: which are missing, and installing them when allowed.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::process::{self, command};

/// Debian packages that make and run the guest with a kernel rxe.
pub const RXE_GUEST: &[&str] = &[
    "qemu-system-x86",
    "busybox-static",
    "dash",
    "cpio",
    "kmod",
    "rdma-core",
    "ibverbs-providers",
    "ibverbs-utils",
    "perftest",
    "rdmacm-utils",
    "iproute2",
    "ethtool",
    "tcpdump",
];

/// Debian packages with the programs, and with the header that the struct layouts are compared with.
pub const PROGRAMS: &[&str] = &[
    "ibverbs-utils",
    "libibverbs-dev",
    "librdmacm-dev",
    "perftest",
    "rdmacm-utils",
    "python3-pyverbs",
    "ibverbs-providers",
    "iperf3",
    "infiniband-diags",
    "ucx-utils",
    "openmpi-bin",
    "libopenmpi-dev",
    "libfabric-bin",
    "qperf",
    "valgrind",
    // These build libfabric with its tests, which Debian has not.
    "autoconf",
    "automake",
    "libtool",
    "make",
];

/// Debian packages of the browser and of a font for it.
pub const BROWSER: &[&str] = &["chromium", "fonts-dejavu-core"];

/// Makes sure that every package of `wanted` is installed: with apt when running as root.
///
/// # Errors
/// Not a Debian system, not root (the sentence says what to install), or apt failed.
pub fn ensure(wanted: &[&str]) -> Result<()> {
    let missing = missing(wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if !process::is_root() {
        return Err(Error::new(format!(
            "packages are missing and only root may install them; run: sudo {line}"
        )));
    }
    eprintln!("installing {}", missing.join(" "));
    install(&missing).or_else(|_| {
        process::run(apt().arg("update"))?;
        install(&missing)
    })
}

/// The packages of `wanted` that are not installed.
///
/// # Errors
/// There is no `dpkg-query`: this is not a Debian-like system.
pub fn missing(wanted: &[&str]) -> Result<Vec<String>> {
    let installed = versions(wanted)?;
    Ok(wanted
        .iter()
        .filter(|name| !installed.contains_key(**name))
        .map(|name| (*name).to_owned())
        .collect())
}

/// Name and version of those packages of `wanted` that are installed.
///
/// # Errors
/// As [`missing`].
pub fn versions(wanted: &[&str]) -> Result<BTreeMap<String, String>> {
    if process::find_program("dpkg-query").is_none() {
        return Err(Error::new(format!(
            "the guest is made from Debian packages and this system has no dpkg; use Debian or Ubuntu, or install by hand: {}",
            wanted.join(" ")
        )));
    }
    let mut query =
        command(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"]);
    let output = query
        .args(wanted)
        .output()
        .map_err(|error| Error::new(format!("dpkg-query did not start: {error}")))?;
    Ok(parse_versions(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_versions(listing: &str) -> BTreeMap<String, String> {
    let installed = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next()? == "installed").then_some(())?;
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    listing.lines().filter_map(installed).collect()
}

fn install(names: &[String]) -> Result<()> {
    process::run(apt().args(["install", "-y", "-q", "--no-install-recommends"]).args(names))
}

fn apt() -> std::process::Command {
    let mut apt = command(["apt-get"]);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_packages_do_not_count_as_installed() {
        let found = parse_versions(
            "installed perftest 4.5+0.17-1\nconfig-files cpio 2.13\nnot-installed x \n",
        );
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("perftest".to_owned(), "4.5+0.17-1".to_owned())]
        );
    }
}
