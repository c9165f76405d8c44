//! `cargo xtask rxe soak`: mixed verbs both ways between a program on our libibverbs and the same one on rxe, for minutes or
//! hours, step after step, with faults on the wire, the link down and up, and either program killed in the middle.

mod bench;
mod captures;
mod report;
mod step;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bench::Bench;
use captures::Captures;
use clap::Args;
use report::Report;
use step::{Step, WireFaults};
use uroce_rxe_guest::Kernel;
use uroce_testbed::error::{Error, Result};

use super::program;
use crate::programs::install;

/// Options of `rxe soak`.
#[derive(Debug, Args)]
pub struct SoakArgs {
    /// Kernel of the guest: that of this host's Debian release, or one of another (downloaded once).
    #[arg(long, value_enum, default_value_t)]
    kernel: Kernel,
    /// How long steps are begun.
    #[arg(long, value_name = "MINUTES", default_value_t = 30)]
    minutes: u32,
    /// Number of the first step: an earlier run is gone on with.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first: u32,
    /// Only steps in which this happens to packets.
    #[arg(long, value_enum, value_name = "FAULTS", conflicts_with = "stride")]
    faults: Option<WireFaults>,
    /// From a step's number to the next one's: 1260 repeats the combination of the first step with other seeds, 0 that step.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    stride: u32,
    /// Record what our end sends and receives, and keep the captures of the steps that fail in this folder.
    #[arg(long, value_name = "FOLDER")]
    captures: Option<PathBuf>,
}

const SOURCE: &str = include_str!("soak/soak.c");
const NAME: &str = "soak";

/// Takes steps until the time is over, and prints a report.
///
/// # Errors
/// A step failed, or the guest's kernel has logged a warning, or died.
pub fn soak(arguments: &SoakArgs) -> Result<()> {
    let (folder, _guard) = install::install()?;
    let program = program::compile(NAME, SOURCE, &folder)?;
    let captures = arguments.captures.as_deref().map(Captures::new).transpose()?;
    let boot = || Bench::boot(arguments.kernel, &folder, &program, captures.clone());
    let mut bench = boot()?;
    let (begun, mut report) = (Instant::now(), Report::default());
    let time = Duration::from_secs(60 * u64::from(arguments.minutes));
    let mut number = arguments.first;
    while begun.elapsed() < time {
        let step = match arguments.faults {
            Some(faults) => Step::with_faults(number, faults),
            None => Step::number(number),
        };
        let result = bench.take(&step);
        if let Some(captures) = &captures {
            if result.is_ok() { captures.remove(&step) } else { captures.keep(&step) }
        }
        match &result {
            Ok(said) => println!("ok      {step}: {said}"),
            Err(error) => println!("FAILED  {step}\n{error}"),
        }
        if bench.is_over() {
            eprintln!("        booting the guest again");
            report.add_lost_guest(&step);
            bench = boot()?;
        } else {
            report.add(&step, &result.map_err(|error| error.to_string()));
        }
        number = step.number.wrapping_add(arguments.stride);
    }
    let warnings = bench.warnings()?;
    print!("{}", report.text(begun.elapsed(), &warnings));
    match report.is_good() && warnings.is_empty() {
        true => Ok(()),
        false => Err(Error::new("a step failed, or the guest's kernel warns or died: see above")),
    }
}
