//! A program of MPI that checks all its data: messages, collectives and one-sided operations.

use std::path::{Path, PathBuf};
use std::process::Command;

use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::{command, run};

use super::install::SCRATCH;
use super::stage::Stage;

/// Makes programs, and starts them.
pub const NEEDS: &[&str] = &["mpicc", "mpirun"];

const SOURCE: &str = include_str!("mpi_check.c");
const PROGRAM: &str = "mpi_check";

fn program(folder: &Path) -> PathBuf {
    folder.join(SCRATCH).join(PROGRAM)
}

/// Makes the program with MPI's compiler.
///
/// # Errors
/// There is none, or no C compiler.
pub fn compile(folder: &Path) -> Result<()> {
    let source = folder.join(format!("{PROGRAM}.c"));
    std::fs::write(&source, SOURCE).context(|| format!("could not write {}", source.display()))?;
    run(command(["mpicc", "-O1", "-o"]).arg(program(folder)).arg(&source))
}

/// Four ranks, two on each of two network interfaces.
pub fn ranks(stage: &Stage, folder: &Path, variable: Option<&str>, arguments: &str) -> Command {
    let scratch = folder.join(SCRATCH).display().to_string();
    let (home, temporary) = (format!("HOME={scratch}"), format!("TMPDIR={scratch}"));
    let mut words = vec!["env", &home, &temporary];
    words.extend(variable);
    // There may be fewer processors than ranks.
    words.extend(["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
    words.extend(arguments.split_whitespace());
    let (uroce, check) = (folder.join("bin/uroce"), program(folder));
    let (uroce, check) = (uroce.display().to_string(), check.display().to_string());
    for (place, address) in [&stage.alone, &stage.beside].into_iter().enumerate() {
        if place > 0 {
            words.push(":");
        }
        words.extend(["-n", "2", &uroce, "run", "--device", address, "--", &check]);
    }
    stage.command(&words)
}
