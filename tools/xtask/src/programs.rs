//! Unmodified programs of libibverbs on our devices: `uroce run -- PROGRAM`, both ends on this machine.

mod case;
mod end;
mod expected;
mod exports;
mod mpi;
mod pyverbs;
mod record;
mod stage;
mod system;
mod table;
mod trial;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use case::{CASES, Case, Form};
use clap::Args;
use expected::Expected;
use stage::Stage;
use table::Table;
pub use trial::LISTENS;

use crate::cleanup::{Guard, Leftover};
use crate::dist;
use crate::error::{Context, Error, Result};
use crate::process;

/// Debian packages with the programs, and with the header that the struct layouts are compared with.
pub const PACKAGES: &[&str] = &[
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
    "valgrind",
];

/// Name of the tests of rdma-core in the table.
const PYVERBS: &str = "pyverbs tests";

/// Options of `programs`.
#[derive(Debug, Args)]
pub struct ProgramsArgs {
    /// Run only command lines that contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the tables into docs/interop.md, and the list of what is expected of the tests of
    /// rdma-core.
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// Most runs of a program, or of a test of rdma-core, that fails. Some of them have time-outs of their own,
/// and some wait for ever for a packet that a busy machine has dropped.
const TRIES: usize = 3;

/// Runs every program with every set of options.
///
/// # Errors
/// One of them failed, or the libraries do not build.
pub fn run(arguments: &ProgramsArgs) -> Result<()> {
    let (folder, _guard) = install()?;
    let stage = Stage::set_up()?;
    let wanted = |line: &str| arguments.only.as_ref().is_none_or(|text| line.contains(text));
    let cases: Vec<&Case> =
        CASES.iter().filter(|case| wanted(&case.line()) && can_be_run(case, &stage)).collect();
    if cases.iter().any(|case| case.is_mpi()) {
        mpi::compile(&folder)?;
    }
    let mut table = Table::default();
    for case in cases {
        table.add(case.program, case.options(), attempts(case, &stage, &folder));
    }
    for library in exports::LIBRARIES.iter().filter(|library| wanted(&exports::line(library))) {
        table.add(exports::PROGRAM, (*library).to_owned(), exports::check(library, &folder));
    }
    if wanted(PYVERBS) {
        run_tests(arguments.write, &stage, &folder, &mut table)?;
    }
    if arguments.write {
        table.write()?;
    }
    match table.failed() {
        0 => Ok(()),
        failed => Err(Error::new(format!("{failed} programs failed: see above"))),
    }
}

/// What is not installed is left out, and that is said; in CI it fails.
fn can_be_run(case: &Case, stage: &Stage) -> bool {
    if case.form == Form::Interfaces && !stage.has_interface() {
        println!("skipped {}: it needs network interfaces of its own, and root", case.line());
        return false;
    }
    let missing = case.needs().into_iter().find(|program| process::find_program(program).is_none());
    if let Some(program) = missing.filter(|_| !is_ci()) {
        println!("skipped {}: there is no {program} on this machine", case.line());
        return false;
    }
    true
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

fn attempts(case: &Case, stage: &Stage, folder: &Path) -> Result<String> {
    let mut outcome = trial::run(case, stage, folder);
    for _ in 1..TRIES {
        let Err(error) = &outcome else { break };
        println!("again   {}: {error}", case.line());
        outcome = trial::run(case, stage, folder);
    }
    outcome.map(|()| "ok".to_owned())
}

fn run_tests(write: bool, stage: &Stage, folder: &Path, table: &mut Table) -> Result<()> {
    let record = pyverbs::record(stage, folder)?;
    if write {
        Expected::write(&record)?;
        table.explain(record.reasons());
    }
    let score = format!("{} ok, {} skipped", record.passed(), record.skipped());
    let outcome = pyverbs::check(&record, stage, folder);
    table.add(PYVERBS, String::new(), outcome.map(|()| score));
    Ok(())
}

/// What CI runs.
///
/// # Errors
/// As [`run`].
pub fn run_for_ci() -> Result<()> {
    run(&ProgramsArgs { only: None, write: false })
}

/// The program and the libraries in a folder that the user nobody may read.
///
/// # Errors
/// They do not build, or there is no room.
pub fn install() -> Result<(PathBuf, Guard)> {
    install_with(&[])
}

/// The same, built with these features, each `PACKAGE/FEATURE`.
///
/// # Errors
/// As [`install`].
pub fn install_with(features: &[&str]) -> Result<(PathBuf, Guard)> {
    let folder = std::env::temp_dir().join(format!("uroce-programs-{}", std::process::id()));
    fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    let guard = Guard::new(Leftover::Folder(folder.clone()));
    dist::for_tests(&folder, features)?;
    for path in ["", "bin", "lib", "lib/uroce", "lib/uroce/drop-in"] {
        let everybody = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.join(path), everybody).context(|| "could not set a mode")?;
    }
    let (scratch, anybody) = (folder.join(trial::SCRATCH), fs::Permissions::from_mode(0o777));
    fs::create_dir_all(&scratch).context(|| format!("could not make {}", scratch.display()))?;
    fs::set_permissions(scratch, anybody).context(|| "could not set a mode")?;
    Ok((folder, guard))
}
