//! `uroce conform`: a RoCEv2 implementation put to the test, rule by rule.

mod agent;
mod drawing;
mod frames;
mod link;
mod list;
mod programs;
mod recording;
mod tester;
mod wire;

use std::path::PathBuf;

use clap::{Args, Subcommand};
pub(super) use link::AgentSession;
pub(super) use wire::UdpWire;

use crate::failure::Failure;
use crate::global::Global;
use crate::report;

/// The TCP port of the agent, unless another is asked for.
const PORT: u16 = 18_520;

const AFTER: &str = "\
On the machine under test: `uroce conform agent`. It prints the command for the other machine. Exit code 1: a rule that \
must be kept is broken, or could not be judged. docs/conform tells how to read the report, and how to add a case.

Examples:
  uroce conform 192.0.2.1 --token 8d0f63e1a2b45c77
  uroce conform 192.0.2.1 --token 8d0f63e1a2b45c77 --pcap packets/ --junit report.xml
  uroce conform 192.0.2.1 --token 8d0f63e1a2b45c77 --performance --only performance
  uroce conform 192.0.2.1 --no-agent ib_write_bw --no-agent ib_send_bw:18516
  uroce conform --list --only duplicate";

/// Options of `uroce conform`.
#[derive(Debug, Args)]
#[command(after_help = AFTER, args_conflicts_with_subcommands = true)]
pub struct ConformArgs {
    #[command(subcommand)]
    agent: Option<ConformCommand>,
    /// The machine under test: name or address of its agent, with :PORT if it is not 18520
    #[arg(value_name = "PEER", required_unless_present_any = ["list", "explain"])]
    peer: Option<String>,
    /// Without an agent: use this server of perftest on the machine under test, ib_write_bw, ib_read_bw, ib_atomic_bw or
    /// ib_send_bw, in a loop; may be repeated
    #[arg(long, value_name = "PROGRAM[:PORT]", conflicts_with = "token")]
    no_agent: Vec<programs::Program>,
    /// The token that the agent printed [default: UROCE_CONFORM_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Only cases whose name contains this: `rc.responder`, `duplicate`; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Run each case so often
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Run the robustness cases as well: scans, floods, forged packets. A defective driver may hang or crash its machine
    #[arg(long)]
    robustness: bool,
    /// Measure message rates and latencies as well, with the counters of the machine under test: some seconds
    #[arg(long, conflicts_with = "no_agent")]
    performance: bool,
    /// List the cases, with rule, role, class and one sentence
    #[arg(long)]
    list: bool,
    /// Tell what a case is about; with PEER, run it and draw its packets as a ladder
    #[arg(long, value_name = "CASE", conflicts_with = "only")]
    explain: Option<String>,
    /// Write the report as text, for a run that prints JSON
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Write the report as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the report as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// How many milliseconds without an answer are silence; more for a slow peer or a long way
    #[arg(long, value_name = "MS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    silence: u64,
}

#[derive(Debug, Subcommand)]
enum ConformCommand {
    /// Run beside the NIC under test and do through its libibverbs what the tester asks
    Agent(agent::AgentArgs),
}

/// Runs the agent or the tester, or says what there is.
///
/// # Errors
/// Exit 1: a rule is broken; 2: no such case; 3: this machine lacks something; 4: the agent is missing or refuses.
pub fn run(args: &ConformArgs, global: &Global) -> Result<(), Failure> {
    match (&args.agent, &args.explain) {
        (Some(ConformCommand::Agent(agent)), _) => agent::run(agent, global),
        (None, _) if args.list => list::print(&args.only, global.json),
        (None, Some(case)) if args.peer.is_none() => list::explain(case, global.json),
        (None, _) => tester::run(args, global),
    }
}

/// The token of the command line, or of the environment. An empty one is none: everybody knows it.
pub(super) fn token(named: Option<&String>) -> Option<String> {
    let set = std::env::var("UROCE_CONFORM_TOKEN").ok();
    named.cloned().or(set).filter(|token| !token.is_empty())
}

/// One line of output.
fn say(line: &str) {
    report::out(&format!("{line}\n"));
}
