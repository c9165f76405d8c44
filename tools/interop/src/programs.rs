//! Unmodified programs of libibverbs on our devices: `uroce run -- PROGRAM`, both ends on this machine.

mod case;
mod end;
mod expected;
pub mod exports;
mod fabtests;
pub mod install;
mod mpi;
mod pyverbs;
mod record;
mod stage;
mod system;
mod table;
mod trial;

use std::path::Path;

use case::{CASES, Case, Form};
use clap::Args;
pub use end::End;
use expected::Expected;
pub use pyverbs::RECORDER;
pub use record::Record;
pub use stage::Stage;
use table::Table;
pub use trial::LISTENS;
use uroce_testbed::error::{Error, Result};
use uroce_testbed::process;

/// Name of the tests of rdma-core in the table.
const PYVERBS: &str = "pyverbs tests";

/// Options of `programs`.
#[derive(Debug, Args)]
pub struct ProgramsArgs {
    /// Run only command lines that contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Run also those tests of libfabric that CI leaves out: further forms of others, and slow ones.
    #[arg(long)]
    full: bool,
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
    let (folder, _guard) = install::install()?;
    let stage = Stage::set_up()?;
    let wanted = |line: &str| arguments.only.as_ref().is_none_or(|text| line.contains(text));
    let cases: Vec<&Case> =
        CASES.iter().filter(|case| wanted(&case.line()) && can_be_run(case, &stage)).collect();
    if cases.iter().any(|case| case.is_mpi()) {
        mpi::compile(&folder)?;
    }
    let mut table = Table::default();
    for case in cases {
        let outcome = attempts(&case.line(), || trial::run(case, &stage, &folder));
        table.add(case.program, case.options(), outcome);
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
    let mut of_libfabric = Table::default();
    let runs = fabtests::wanted(arguments.full || arguments.write, wanted);
    fabtests::run(&runs, &stage, &folder, &mut of_libfabric)?;
    if arguments.write {
        fabtests::write(&of_libfabric)?;
    }
    match table.failed() + of_libfabric.failed() {
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

/// Runs it, and again if it fails.
fn attempts(line: &str, run: impl Fn() -> Result<()>) -> Result<String> {
    let mut outcome = run();
    for _ in 1..TRIES {
        let Err(error) = &outcome else { break };
        println!("again   {line}: {error}");
        outcome = run();
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
