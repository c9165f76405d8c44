//! `cargo xtask bench`: figures, always beside those of a baseline on the same machine at the same time.
#![forbid(unsafe_code)]

mod analyze;
mod bandwidth;
mod bare;
mod baseline;
mod best;
mod changes;
mod charts;
mod connections;
mod counted;
mod idle;
mod instructions;
mod interleave;
mod iperf;
mod latency;
mod link;
mod loopback;
mod loss;
mod machine;
mod perftest;
mod placement;
mod plot;
mod programs;
mod qps;
mod rate;
mod record;
mod results;
mod rxe;
mod summary;
mod table;
mod targets;
mod uroce;

use std::path::PathBuf;
use std::process::ExitCode;

use baseline::BaselineCommand;
use best::Best;
use clap::{Args, Parser, Subcommand, ValueEnum};
use record::Record;
use uroce_testbed::error::Result;

/// Measurements, each beside a baseline.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    arguments: BenchArgs,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// A socket program that measurements compare with.
    #[command(subcommand, hide = true)]
    Baseline(BaselineCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.part {
        Some(Part::Baseline(command)) => command.run(),
        None => run(&cli.arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Instructions per 1 KiB packet of a WRITE or READ, of requester and responder (needs valgrind).
    Instructions,
    /// WRITE, READ and SEND of all sizes against one TCP stream.
    Bandwidth,
    /// Small WRITE, SEND, READ and atomics against a TCP ping-pong.
    Latency,
    /// 64-byte messages a second against plain UDP.
    Rate,
    /// 1 MiB WRITEs while packets are lost, against TCP.
    Loss,
    /// 1 to 10,000 queue pairs: throughput, memory and time for each.
    Qps,
    /// Both ends in one process against TCP over the loopback interface.
    Loopback,
    /// Against the kernel's rxe in one virtual machine.
    Rxe,
    /// Connections of rdma_cm in a second, also against the kernel's rxe in one virtual machine.
    Connections,
    /// Stock programs on our libibverbs against `uroce perf` with the same settings.
    Programs,
    /// Processor time of an open device without traffic.
    Idle,
    /// Packets a second of `uroce analyze` against tshark (needs tshark and time).
    Analyze,
}

/// Options of `bench`.
#[derive(Debug, Args)]
struct BenchArgs {
    /// What to measure; without a name everything
    #[arg(value_enum)]
    names: Vec<Group>,
    /// Fewer sizes, two rounds: to see that it works
    #[arg(long)]
    quick: bool,
    /// Rounds; in each one, everything runs once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Datapaths to measure, as in `uroce perf --datapath` [default: udp,packet,xdp,uring for bandwidth, latency
    /// and rate, udp for the others]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    datapath: Vec<String>,
    /// Measure this program instead of building uroce
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Also write what was measured to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also put what was measured into the folder of this machine's processor in docs/performance, and generate its
    /// results.md again
    #[arg(long)]
    save: bool,
    /// With --save: keep the saved runs and add these to them
    #[arg(long, requires = "save")]
    append: bool,
    /// Forget what the baselines have shown before on this machine
    #[arg(long)]
    relearn: bool,
    /// Only instructions: fail when a figure has grown by more than 3 %, as CI does
    #[arg(long, conflicts_with_all = ["names", "save", "json"])]
    check: bool,
}

/// What every group needs to know.
#[derive(Debug)]
struct Setup {
    /// The measured program.
    program: PathBuf,
    quick: bool,
    rounds: u32,
    datapaths: Vec<String>,
    /// What baselines have shown before.
    best: Best,
}

impl BenchArgs {
    fn names(&self) -> Vec<Group> {
        let all = Group::value_variants();
        if self.names.is_empty() { all.to_vec() } else { self.names.clone() }
    }

    fn datapaths(&self, group: Group) -> Vec<String> {
        let usual: &[&str] = match group {
            Group::Bandwidth | Group::Latency | Group::Rate => &["udp", "packet", "xdp", "uring"],
            _ => &["udp"],
        };
        match self.datapath.as_slice() {
            [] => usual.iter().map(|&name| name.to_owned()).collect(),
            named => named.to_vec(),
        }
    }
}

/// Measures, prints and writes. What is saved is saved group by group: the whole takes long.
///
/// # Errors
/// Not root, a program is missing, or nothing could be measured.
fn run(arguments: &BenchArgs) -> Result<()> {
    if arguments.check {
        return instructions::check();
    }
    if arguments.relearn {
        results::forget_best()?;
    }
    let names = arguments.names();
    let mut record = Record::new();
    if names.iter().any(|name| *name != Group::Instructions) {
        let saved = results::saved()?;
        let mut setup = Setup {
            program: match &arguments.program {
                Some(program) => program.clone(),
                None => uroce::build()?,
            },
            quick: arguments.quick,
            rounds: arguments.rounds.unwrap_or(if arguments.quick { 2 } else { 5 }),
            datapaths: Vec::new(),
            best: saved.best.clone(),
        };
        for name in &names {
            setup.datapaths = arguments.datapaths(*name);
            let series = measure(*name, &setup)?;
            if arguments.save && !series.is_empty() {
                let mut part = Record::new();
                part.series = series.clone();
                results::save(part, arguments.append)?;
            }
            record.series.extend(series);
        }
        record.best.clone_from(&saved.best);
        record.learn();
        print!("{}{}", table::text(&record), changes::text(&saved, &record));
    }
    if names.contains(&Group::Instructions) {
        instructions::run(arguments.save)?;
    }
    match &arguments.json {
        Some(path) => record.write(path),
        None => Ok(()),
    }
}

fn measure(name: Group, setup: &Setup) -> Result<Vec<record::Series>> {
    match name {
        Group::Instructions => Ok(Vec::new()),
        Group::Bandwidth => bandwidth::run(setup),
        Group::Latency => latency::run(setup),
        Group::Rate => rate::run(setup),
        Group::Loss => loss::run(setup),
        Group::Qps => qps::run(setup),
        Group::Rxe => rxe::run(setup),
        Group::Connections => connections::run(setup),
        Group::Programs => programs::run(setup),
        Group::Loopback => loopback::run(setup),
        Group::Idle => idle::run(setup),
        Group::Analyze => analyze::run(setup),
    }
}
