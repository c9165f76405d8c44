//! `cargo xtask package`: a tarball, a .deb and an .rpm of what `cargo xtask dist` builds, and whether they install, run
//! and go away again.

mod archive;
mod container;
mod deb;
mod files;
mod needs;
mod root;
mod rpm;
mod scripts;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use needs::SystemNeeds;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::install::{Linker, OLDEST_GLIBC};
use uroce_testbed::process::{command, find_program, stdout_of};
use uroce_testbed::{packages, workspace};

use crate::dist;

/// The version of everything.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// One line about it.
const SUMMARY: &str = "Software RDMA NIC in userspace: RoCEv2 without kernel module or root";
/// What a package manager shows of it.
const DESCRIPTION: &str = "\
uroce is a RoCEv2 NIC that lives in the process that uses it. It exchanges data with RoCE hardware, with the kernel
driver rxe and with itself over UDP port 4791. `uroce run -- PROGRAM` runs unmodified programs of libibverbs and
librdmacm on it, as any user, in containers and in CI.";
/// Most bytes of the program: 6 MB; this may only become less.
const MOST_BYTES: u64 = 6_000_000;

/// Options of `package`.
#[derive(Debug, Args)]
pub struct PackageArgs {
    /// Where to put the packages [default: `packages` in cargo's build folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Link with this system's C library instead of the names of glibc 2.28
    #[arg(long)]
    here: bool,
    /// Package the build of CI, and try it in empty roots on this machine: what CI does
    #[arg(long, conflicts_with_all = ["here", "test", "container"])]
    ci: bool,
    /// Try the packages in roots of these Debian suites, or in roots from tar archives
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    test: Vec<String>,
    /// Build the container image with buildah from this root, a tar archive, and run it
    #[arg(long, value_name = "ARCHIVE")]
    container: Option<PathBuf>,
    /// Pack this folder, which `cargo xtask dist` has made, and build nothing
    #[arg(long, value_name = "FOLDER", conflicts_with = "here")]
    tree: Option<PathBuf>,
}

/// The packages of one build.
#[derive(Debug)]
pub struct Packages {
    /// Everything in one folder, for any distribution and place.
    pub archive: PathBuf,
    /// For Debian and its relatives.
    pub deb: PathBuf,
    /// For Fedora, Red Hat, SUSE and their relatives; none where there is no rpmbuild.
    pub rpm: Option<PathBuf>,
}

/// Makes the packages and tries them as the options say.
///
/// # Errors
/// They do not build, need a newer glibc than they may, or do not install, run and go away.
pub fn run(args: &PackageArgs) -> Result<()> {
    let default = || workspace::target_folder().join("packages");
    let out = args.out.clone().unwrap_or_else(default);
    let made = make(args, &out)?;
    if args.ci {
        trial::in_empty_roots(&made)?;
    }
    for suite in &args.test {
        trial::in_system(suite, &made)?;
    }
    if let Some(base) = &args.container {
        container::check(base, &made.deb)?;
    }
    println!("{}", out.display());
    Ok(())
}

/// Builds, looks at the result, and packs it.
fn make(args: &PackageArgs, out: &Path) -> Result<Packages> {
    fs::create_dir_all(out).context(|| format!("could not make {}", out.display()))?;
    let tree = match &args.tree {
        Some(tree) => tree.clone(),
        None => build(args, &out.join("tree"))?,
    };
    let needs = needs::of(&files::programs(&tree)?)?;
    let others = needs.others().join(", ");
    println!(
        "needs glibc {} and {}",
        needs.glibc_text(),
        if others.is_empty() { "no more" } else { &others }
    );
    if !args.ci {
        check_size(&tree.join("bin/uroce"))?;
    }
    if !args.ci && !args.here {
        needs.check(OLDEST_GLIBC)?;
    }
    pack(&tree, &needs, out)
}

fn build(args: &PackageArgs, tree: &Path) -> Result<PathBuf> {
    if tree.exists() {
        fs::remove_dir_all(tree).context(|| format!("could not empty {}", tree.display()))?;
    }
    match (args.ci, args.here) {
        (true, _) => dist::make_for_tests(tree)?,
        (false, true) => dist::make(tree, Linker::OfThisSystem)?,
        (false, false) => dist::make(tree, Linker::Portable)?,
    }
    Ok(tree.to_owned())
}

fn pack(built: &Path, needs: &SystemNeeds, out: &Path) -> Result<Packages> {
    let time = commit_time();
    let archive = archive::make(built, out, &time)?;
    let deb = deb::make(built, needs, out, &time)?;
    let rpm = if find_program("rpmbuild").is_some() {
        Some(rpm::make(built, out, &time)?)
    } else {
        println!("no .rpm: there is no rpmbuild; `apt-get install rpm` has it");
        None
    };
    Ok(Packages { archive, deb, rpm })
}

/// When the last commit was made, in seconds: two builds of it make the same packages.
fn commit_time() -> String {
    let mut git = command(["git", "log", "-1", "--format=%ct"]);
    let time = stdout_of(git.current_dir(workspace::root()));
    std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .or_else(|| time.ok().map(|time| time.trim().to_owned()))
        .filter(|time| time.parse::<u64>().is_ok())
        .unwrap_or_else(|| "0".to_owned())
}

/// The program is small enough.
fn check_size(program: &Path) -> Result<()> {
    let bytes = program.metadata().context(|| format!("no {}", program.display()))?.len();
    println!("the program has {bytes} bytes");
    match bytes <= MOST_BYTES {
        true => Ok(()),
        false => Err(Error::new(format!("the program has {bytes} bytes, more than {MOST_BYTES}"))),
    }
}

/// Installs what a trial needs, as far as it may.
fn ensure(wanted: &[&str]) -> Result<()> {
    packages::ensure(wanted)
}
