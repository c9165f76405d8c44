//! `uroce sim run --seed N`.

use clap::Args;
use uroce_sim::{Scenario, run_caught};

use super::failed::Failed;
use super::{counts, counts_json};
use crate::failure::Failure;
use crate::global::Global;
use crate::report::{json, out};

const EXAMPLES: &str = "\
Examples:
  uroce sim run --seed 7
  uroce sim run --seed 7 --json";

/// Arguments of `uroce sim run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// What the network, its faults and its applications are drawn from
    #[arg(long, value_name = "N")]
    seed: u64,
}

/// Runs one simulation and tells what happened in it.
///
/// # Errors
/// Exit 1 if an invariant does not hold.
pub fn run(args: &RunArgs, global: &Global) -> Result<(), Failure> {
    let scenario = Scenario::new(args.seed);
    let report = match run_caught(&scenario, |_| ()) {
        Ok(report) => report,
        Err(violation) => {
            let failed = Failed::new(&scenario, violation);
            let failure = failed.failure();
            match global.json {
                true => json::print_with(&failed.report(), Some(&failure)),
                false => failed.print(),
            }
            return Err(failure);
        }
    };
    if global.json {
        json::print(&serde_json::json!({
            "version": json::VERSION,
            "seed": args.seed,
            "scenario": scenario.to_string(),
            "packets": report.packets,
            "end_ns": report.end_ns,
            "counts": counts_json(&report.coverage),
        }));
        return Ok(());
    }
    let seconds = report.end_ns as f64 / 1e9;
    out(&format!("{scenario}{}", counts(&report.coverage)));
    out(&format!(
        "{} packets in {seconds:.6} simulated seconds: every invariant holds\n",
        report.packets
    ));
    Ok(())
}
