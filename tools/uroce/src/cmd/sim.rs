//! `uroce sim`: networks of simulated NICs, each drawn from one seed.

mod failed;
mod last_packets;
mod replay;
mod run;
mod sweep;

use clap::{Args, Subcommand};
use uroce_sim::Coverage;

use crate::failure::Failure;
use crate::global::Global;
use crate::report::json;

const AFTER: &str = "\
Exit codes: 0 every invariant holds, 1 one does not, or interrupted, 2 wrong usage, 3 a file cannot be written.
Examples:
  uroce sim run --seed 7
  uroce sim sweep --seeds 0..100000 --jobs 2
  uroce sim replay 7 --pcap seed7.pcapng";

/// Arguments of `uroce sim`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct SimArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run the simulation of one seed, and tell what happened in it
    Run(run::RunArgs),
    /// Run the simulations of many seeds, until an invariant does not hold
    Sweep(sweep::SweepArgs),
    /// Run the simulation of one seed, and record its packets with `--pcap FILE`
    Replay(replay::ReplayArgs),
}

impl SimArgs {
    /// It writes packets to the file of `--pcap`.
    pub fn records(&self) -> bool {
        matches!(self.what, What::Replay(_))
    }
}

/// Runs the command.
///
/// # Errors
/// Exit 1 if an invariant does not hold; else what the command says.
pub fn run(args: &SimArgs, global: &Global) -> Result<(), Failure> {
    match &args.what {
        What::Run(args) => run::run(args, global),
        What::Sweep(args) => sweep::run(args, global),
        What::Replay(args) => replay::run(args, global),
    }
}

/// What happened how often, a line each.
fn counts(coverage: &Coverage) -> String {
    let happened = coverage.iter().filter(|(_, count)| *count > 0);
    happened.map(|(what, count)| format!("{count:>12}  {what}\n")).collect()
}

/// What never happened, in one line; empty if there is no such thing.
fn never(coverage: &Coverage) -> String {
    let zero = coverage.iter().filter(|(_, count)| *count == 0);
    let names: Vec<_> = zero.map(|(what, _)| what).collect();
    if names.is_empty() { String::new() } else { format!("never: {}\n", names.join(", ")) }
}

/// The same as a JSON object.
fn counts_json(coverage: &Coverage) -> serde_json::Value {
    json::object(coverage.iter()).into()
}
