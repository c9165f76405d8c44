//! `cargo xtask rxe conform`: `uroce conform` against the kernel rxe of a guest.

mod page;
mod trial;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use page::{Deviations, Page};
use trial::{Run, Trial};
use uroce_rxe_guest::GuestConfig;
use uroce_rxe_guest::Kernel;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::workspace;

/// Options of `rxe conform`.
#[derive(Debug, Args)]
pub struct ConformArgs {
    /// Kernel of the guest: that of this host's Debian release, or one of another (downloaded once).
    #[arg(long, value_enum, default_value_t)]
    kernel: Kernel,
    /// Only cases whose name contains this; may be given several times.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// How many milliseconds without an answer are silence; an emulated guest is slow.
    #[arg(long, value_name = "MS", default_value_t = 60)]
    silence: u64,
    /// Take this `uroce` instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Keep the packets of each case in this folder (`uroce conform --pcap`).
    #[arg(long, value_name = "FOLDER")]
    captures: Option<PathBuf>,
    /// Write docs/conform/rxe-VERSION.md.
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// Where the pages are.
const FOLDER: &str = "docs/conform";

/// Runs the cases, those that a slow guest left open again, and prints or writes the page.
///
/// # Errors
/// The guest did not boot, the run ended early, or rxe breaks a rule in a way that `docs/conform/rxe.md` does not explain.
pub fn conform(arguments: &ConformArgs) -> Result<()> {
    let program = match &arguments.program {
        Some(file) => file.clone(),
        None => build()?,
    };
    let started = Instant::now();
    let silence = Duration::from_millis(arguments.silence);
    let config = GuestConfig { kernel: arguments.kernel, ..GuestConfig::default() };
    let trial = Trial { config, program, captures: arguments.captures.clone() };
    let run = trial.run(&arguments.only, silence)?;
    println!("{} cases in {:.0} s", run.cases.len(), started.elapsed().as_secs_f64());
    report(arguments, &run)
}

fn build() -> Result<PathBuf> {
    workspace::build_all()?;
    Ok(workspace::build_folder().join("uroce"))
}

fn report(arguments: &ConformArgs, run: &Run) -> Result<()> {
    let folder = workspace::root().join(FOLDER);
    let text = fs::read_to_string(folder.join("rxe.md"))
        .context(|| format!("could not read {FOLDER}/rxe.md"))?;
    let deviations = Deviations::read(&text);
    let page = Page { run, deviations: &deviations };
    if arguments.write {
        let file = folder.join(format!("rxe-{}.md", run.version()));
        fs::write(&file, page.render())
            .context(|| format!("could not write {}", file.display()))?;
    } else {
        print!("{}", page.render());
    }
    match page.unexplained().as_slice() {
        [] => Ok(()),
        cases => Err(Error::new(format!(
            "{FOLDER}/rxe.md does not say why Linux {} fails {}",
            run.version(),
            cases.join(", ")
        ))),
    }
}
