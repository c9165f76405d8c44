//! Unmodified programs of libibverbs on our devices: `uroce run -- PROGRAM`, both ends on this machine.

mod case;
mod end;
mod pyverbs;
mod table;
mod trial;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::Args;

use crate::cleanup::{Guard, Leftover};
use crate::dist;
use crate::error::{Context, Error, Result};
use case::CASES;
use table::Table;

/// Debian packages with the programs, and with the header that the struct layouts are compared with.
pub const PACKAGES: &[&str] = &[
    "ibverbs-utils",
    "libibverbs-dev",
    "librdmacm-dev",
    "perftest",
    "rdmacm-utils",
    "python3-pyverbs",
    "ibverbs-providers",
];

/// Name of the tests of rdma-core in the table.
const PYVERBS: &str = "pyverbs tests";

/// Options of `programs`.
#[derive(Debug, Args)]
pub struct ProgramsArgs {
    /// Run only command lines that contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the table into docs/interop.md.
    #[arg(long)]
    write: bool,
}

/// Runs every program with every set of options.
///
/// # Errors
/// One of them failed, or the libraries do not build.
pub fn run(arguments: &ProgramsArgs) -> Result<()> {
    let (folder, _guard) = install()?;
    let wanted = |line: &str| arguments.only.as_ref().is_none_or(|text| line.contains(text));
    let mut table = Table::default();
    for case in CASES.iter().filter(|case| wanted(&case.line())) {
        let outcome = trial::run(case, &folder).or_else(|first| {
            // A busy machine lets one program start before the other listens.
            println!("again   {}: {first}", case.line());
            trial::run(case, &folder)
        });
        let outcome = outcome.map(|()| "ok".to_owned());
        table.add(case.program, case.options(), outcome);
    }
    if wanted(PYVERBS) {
        let outcome = pyverbs::tests(&folder);
        let outcome =
            outcome.map(|score| format!("{} ok, {} skipped", score.passed, score.skipped));
        table.add(PYVERBS, String::new(), outcome);
    }
    if arguments.write {
        table.write()?;
    }
    match table.failed() {
        0 => Ok(()),
        failed => Err(Error::new(format!("{failed} programs failed: see above"))),
    }
}

/// What CI runs.
///
/// # Errors
/// As [`run`].
pub fn run_for_ci() -> Result<()> {
    run(&ProgramsArgs { only: None, write: false })
}

/// The program and the libraries in a folder that the user nobody may read.
fn install() -> Result<(PathBuf, Guard)> {
    let folder = std::env::temp_dir().join(format!("uroce-programs-{}", std::process::id()));
    fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    let guard = Guard::new(Leftover::Folder(folder.clone()));
    dist::for_tests(&folder)?;
    for path in ["", "bin", "lib", "lib/uroce", "lib/uroce/drop-in"] {
        let everybody = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.join(path), everybody).context(|| "could not set a mode")?;
    }
    Ok((folder, guard))
}
