//! Whether packages install, run as an ordinary user between two hosts, and go away without a trace.

mod hosts;

use std::fs;
use std::path::Path;

use hosts::Hosts;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, find_program, is_root, run, stdout_of};

use super::root::{self, Root};
use super::{Packages, archive, ensure};

/// Programs of RDMA in the roots; `rpm` because no root has another system than Debian.
const IN_ROOTS: &str = "ibverbs-utils,ibverbs-providers,perftest,rpm";

/// A mirror may lag behind; nothing of these roots is kept.
const OLD_LISTS: &str = "--aptopt=Acquire::Check-Valid-Until \"false\"";

/// Installs each package into an empty root and runs it on this system.
///
/// # Errors
/// One of them does not install, run or go away.
pub fn in_empty_roots(packages: &Packages) -> Result<()> {
    if !is_root() {
        return Err(Error::new("network namespaces and dpkg need root: run this with sudo"));
    }
    let hosts = Hosts::set_up()?;
    let (path, _guard) = root::folder("package-root")?;
    let database = path.join("var/lib/dpkg");
    for folder in ["info", "updates"] {
        let folder = database.join(folder);
        fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    }
    fs::write(database.join("status"), "").context(|| "could not make a database of dpkg")?;
    let etc = path.join("etc/default");
    fs::create_dir_all(&etc).context(|| format!("could not make {}", etc.display()))?;
    try_all(&Root::Empty(path), packages, &hosts)
}

/// Installs each package into a root of a Debian suite and runs it there.
///
/// # Errors
/// As [`in_empty_roots`], or the root cannot be made.
pub fn in_system(suite: &str, packages: &Packages) -> Result<()> {
    ensure(&["mmdebstrap"])?;
    let hosts = Hosts::set_up()?;
    let (path, _guard) = root::folder("package-root")?;
    println!("{suite}: making a root");
    if Path::new(suite).is_file() {
        run(command(["tar", "--extract", "--file", suite, "--directory"]).arg(&path))?;
    } else {
        let include = format!("--include={IN_ROOTS}");
        let mut mmdebstrap = command(["mmdebstrap", "--variant=minbase", &include, OLD_LISTS]);
        run(mmdebstrap.arg(suite).arg(&path))?;
    }
    let system = Root::System(path);
    let release = fs::read_to_string(system.path().join("etc/debian_version"));
    println!("{suite}: Debian {}", release.as_deref().unwrap_or("of no version").trim());
    try_all(&system, packages, &hosts)
}

fn try_all(root: &Root, packages: &Packages, hosts: &Hosts) -> Result<()> {
    try_one(".tar.gz", root, "/opt/uroce", hosts, |root| unpack(root, &packages.archive), remove)?;
    try_one(
        ".deb",
        root,
        "/usr",
        hosts,
        |root| {
            dpkg(root, &packages.deb)?;
            let settings = root.path().join(SETTINGS);
            fs::write(&settings, "").context(|| format!("could not write {}", settings.display()))
        },
        purge,
    )?;
    let has_rpm = match root {
        Root::Empty(_) => find_program("rpm").is_some(),
        Root::System(path) => path.join("usr/bin/rpm").exists(),
    };
    match &packages.rpm {
        Some(package) if has_rpm => {
            try_one(".rpm", root, "/usr", hosts, |root| rpm(root, package), erase)
        }
        _ => {
            println!("skipped .rpm: there is no rpm");
            Ok(())
        }
    }
}

/// Installs, runs, removes and compares.
fn try_one(
    name: &str,
    root: &Root,
    prefix: &str,
    hosts: &Hosts,
    install: impl FnOnce(&Root) -> Result<()>,
    remove: impl FnOnce(&Root) -> Result<()>,
) -> Result<()> {
    let before = root.contents()?;
    install(root)?;
    let done = hosts.run_programs(root, prefix)?;
    remove(root)?;
    root::compare(&before, &root.contents()?)
        .map_err(|error| Error::new(format!("{name} does not go away: {error}")))?;
    println!("ok {name:8} installed, {done}, removed");
    Ok(())
}

/// What this machine's dpkg does not look for: in an empty root there are no other packages and no programs.
const PATHS_OF_DPKG: [&str; 2] = ["--force-depends", "--force-bad-path"];

/// Runs the scripts of a package on this system, not in the root, where nothing can run them; they are told the root.
const SCRIPTS_OUTSIDE: &str = "--force-script-chrootless";

/// What the administrator writes for the service; a purge removes it.
const SETTINGS: &str = "etc/default/uroce-serve";

fn purge(root: &Root) -> Result<()> {
    let mut dpkg = root.manager("dpkg");
    if matches!(root, Root::Empty(_)) {
        dpkg.arg(SCRIPTS_OUTSIDE);
    }
    run(dpkg.args(PATHS_OF_DPKG).args(["--purge", "uroce"]))
}

/// In an empty root there is no shell for the scripts.
fn erase(root: &Root) -> Result<()> {
    let mut rpm = root.manager("rpm");
    if matches!(root, Root::Empty(_)) {
        rpm.arg("--noscripts");
    }
    run(rpm.args(["--erase", "uroce"]))
}

fn dpkg(root: &Root, package: &Path) -> Result<()> {
    let (file, inside) = brought_in(root, package)?;
    let mut dpkg = root.manager("dpkg");
    if matches!(root, Root::Empty(_)) {
        dpkg.args(PATHS_OF_DPKG);
    }
    run(dpkg.args(["--install", &inside]))?;
    remove_copy(&file)
}

/// The database of a Debian system's rpm is empty, so what the package requires is looked at here, not there.
fn rpm(root: &Root, package: &Path) -> Result<()> {
    let (file, inside) = brought_in(root, package)?;
    let required = stdout_of(command(["rpm", "--query", "--requires", "--package"]).arg(package));
    if let Ok(required) = required
        && let Some(line) = required.lines().find(|line| !is_of_every_system(line))
    {
        return Err(Error::new(format!("the .rpm requires {line}")));
    }
    let mut rpm = root.manager("rpm");
    run(rpm.args(["--install", "--nodeps", "--force-debian", &inside]))?;
    remove_copy(&file)
}

/// A requirement that a system of rpm fulfils by its glibc, or by rpm itself.
fn is_of_every_system(requirement: &str) -> bool {
    let of_glibc =
        ["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux"];
    let others = ["rpmlib(", "rtld(GNU_HASH)", "libgcc_s.so.1", "/bin/sh"];
    of_glibc.iter().chain(&others).any(|start| requirement.starts_with(start))
}

/// A package where the package manager finds it: the file to remove, and its name for the manager.
fn brought_in(root: &Root, package: &Path) -> Result<(Option<std::path::PathBuf>, String)> {
    let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match root {
        Root::Empty(_) => Ok((None, package.display().to_string())),
        Root::System(path) => {
            let copy = path.join(&name);
            fs::copy(package, &copy).context(|| format!("could not copy {name}"))?;
            Ok((Some(copy), format!("/{name}")))
        }
    }
}

fn remove_copy(file: &Option<std::path::PathBuf>) -> Result<()> {
    file.as_ref().map_or(Ok(()), fs::remove_file).context(|| "could not remove a copy")
}

fn unpack(root: &Root, package: &Path) -> Result<()> {
    let opt = root.path().join("opt");
    fs::create_dir_all(&opt).context(|| format!("could not make {}", opt.display()))?;
    run(command(["tar", "--extract", "--file"]).arg(package).arg("--directory").arg(&opt))?;
    fs::rename(opt.join(archive::name()), opt.join("uroce")).context(|| "could not rename it")
}

fn remove(root: &Root) -> Result<()> {
    let opt = root.path().join("opt");
    fs::remove_dir_all(opt.join("uroce")).context(|| "could not remove it")?;
    if matches!(root, Root::Empty(_)) {
        fs::remove_dir(&opt).context(|| format!("could not remove {}", opt.display()))?;
    }
    Ok(())
}
