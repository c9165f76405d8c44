//! fabtests, the functional tests of libfabric, on our devices.

mod list;
mod source;
mod trial;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use list::{FabricTest, Inclusion, Provider};
use uroce_testbed::error::{Context, Error, Result};

use super::stage::Stage;
use super::table::Table;
use super::{attempts, is_ci};
use crate::document;

/// Name of the table in docs/interop.md.
const TABLE: &str = "fabtests";

/// A test with a provider.
#[derive(Debug, Clone, Copy)]
pub struct FabricRun {
    test: FabricTest,
    provider: Provider,
}

impl FabricRun {
    /// Its command line, without addresses.
    fn line(&self) -> String {
        let (program, _) = self.test.words();
        format!("{program} {}", self.options())
    }

    fn options(&self) -> String {
        let (_, options) = self.test.words();
        format!("-p {} {options}", self.provider.name()).trim_end().to_owned()
    }
}

/// What is to be run: every test that libfabric runs itself, or those of CI.
pub fn wanted(full: bool, is_wanted: impl Fn(&str) -> bool) -> Vec<FabricRun> {
    let all = list::all();
    let runs =
        all.iter().flat_map(|&test| Provider::ALL.map(|provider| FabricRun { test, provider }));
    let chosen = runs.filter(|run| match run.test.with(run.provider) {
        Inclusion::Run => true,
        Inclusion::Full => full,
        Inclusion::LeftOut | Inclusion::Defect => false,
    });
    chosen.filter(|run| is_wanted(&run.line())).collect()
}

/// Runs them.
///
/// # Errors
/// They could not be built.
pub fn run(runs: &[FabricRun], stage: &Stage, folder: &Path, table: &mut Table) -> Result<()> {
    if runs.is_empty() || !is_ready(stage, folder)? {
        return Ok(());
    }
    for run in runs {
        let outcome = attempts(&run.line(), || trial::run(&run.test, run.provider, stage, folder));
        table.add(run.test.words().0, run.options(), outcome);
    }
    Ok(())
}

/// Builds the programs and puts them where the user nobody may run them. What they need and is not there, is said; in CI
/// it is an error.
fn is_ready(stage: &Stage, folder: &Path) -> Result<bool> {
    if !stage.has_interface() {
        return left_out("they need network interfaces of their own, and root".to_owned());
    }
    if let Some(missing) = source::missing() {
        return left_out(format!("there is no {missing} on this machine"));
    }
    match source::built().and_then(|built| copy(&built, &folder.join(trial::PROGRAMS))) {
        Ok(()) => Ok(true),
        Err(error) => left_out(error.to_string()),
    }
}

fn left_out(why: String) -> Result<bool> {
    if is_ci() {
        return Err(Error::new(format!("fabtests: {why}")));
    }
    println!("skipped fabtests: {why}");
    Ok(false)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let why = || format!("could not copy {} to {}", from.display(), to.display());
    fs::create_dir_all(to).context(why)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).context(why)?;
    for entry in fs::read_dir(from).context(why)? {
        let entry = entry.context(why)?;
        fs::copy(entry.path(), to.join(entry.file_name())).context(why)?;
    }
    Ok(())
}

/// Replaces the table of the document by what `table` has of these tests.
///
/// # Errors
/// The document has no place for it.
pub fn write(table: &Table) -> Result<()> {
    let [verbs, rxm, rxd] = Provider::ALL.map(Provider::name);
    let mut text = format!("| test | `{verbs}` | `{rxm}` | `{rxd}` |\n|---|---|---|---|\n");
    for test in list::all() {
        let cells = Provider::ALL.map(|provider| cell(&FabricRun { test, provider }, table));
        text += &format!("| `{}` | {} |\n", test.line, cells.join(" | "));
    }
    document::replace(TABLE, &text)
}

fn cell(run: &FabricRun, table: &Table) -> &'static str {
    match run.test.with(run.provider) {
        Inclusion::LeftOut => "",
        Inclusion::Defect => "defect of libfabric",
        Inclusion::Run | Inclusion::Full => {
            match table.passed(run.test.words().0, &run.options()) {
                Some(true) => "ok",
                Some(false) => "**fails**",
                None => "not run",
            }
        }
    }
}
