//! `cargo xtask rxe matrix`: our programs against the stock ones, over a wire with a kernel rxe at its other end.

pub mod capture;
pub mod cell;
pub mod command;
mod datapath;
mod exclude;
pub mod near;
mod pairwise;
mod plan;
mod table;
pub mod trial;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use datapath::Datapath;
use near::Near;
use plan::{Plan, Share};
use table::Summary;
use trial::{Bench, Verdict};
use uroce_rxe_guest::faults::Fault;
use uroce_rxe_guest::{Guest, GuestConfig, Kernel};
use uroce_testbed::error::{Error, Result};
use uroce_testbed::workspace;

use crate::document;

/// Options of `rxe matrix`.
#[derive(Debug, Default, Args)]
pub struct MatrixArgs {
    /// Kernel of the guest, or several, one after the other [default: that of this host's Debian release].
    #[arg(long, value_enum, value_name = "KERNEL")]
    kernel: Vec<Kernel>,
    /// Every cell (hours), not only a selection that has every pair of values.
    #[arg(long)]
    full: bool,
    /// Only six cells, which together have RC and UD, both roles, both IP versions and every fault.
    #[arg(long, conflicts_with = "full")]
    smoke: bool,
    /// What CI tries: the selection, and a few cells again with every other datapath.
    #[arg(long, conflicts_with_all = ["full", "smoke", "share", "cell", "datapath", "stock", "repeat"])]
    ci: bool,
    /// Of every cell only each N-th, beginning with number K: 1/4 to 4/4 together are --full.
    #[arg(long, value_name = "K/N", conflicts_with = "smoke")]
    share: Option<Share>,
    /// Only cells whose name (see --list) contains this text; may be given several times, all must fit.
    #[arg(long, value_name = "TEXT")]
    cell: Vec<String>,
    /// How our programs reach the wire; may be given several times, then the cells are tried with each [default: udp].
    #[arg(long, value_enum, conflicts_with = "stock")]
    datapath: Vec<Datapath>,
    /// Try each cell so many times [default: 1].
    #[arg(long, value_name = "TIMES")]
    repeat: Option<usize>,
    /// Name the cells and do nothing.
    #[arg(long)]
    list: bool,
    /// Put a second guest with the stock programs in our place: what the kernel alone can do.
    #[arg(long)]
    stock: bool,
    /// Keep the captures of failed cells in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Print one JSON document instead of the table.
    #[arg(long, conflicts_with = "write")]
    json: bool,
    /// Write what came out, a line for each kernel, into docs/interop.md.
    #[arg(long, requires = "kernel", conflicts_with_all = ["cell", "share", "repeat", "stock"])]
    write: bool,
}

/// Where the lines for each kernel stand in the document.
const TABLE: &str = "matrix";

/// How often a guest is booted for one matrix. rxe of Linux 6.1 works out the length of what its ICRC covers from a header before the
/// ICRC was checked; a damaged one makes it negative, and the kernel reads until it panics (`rxe_icrc_check`).
const BOOTS: u32 = 8;

/// Tries the cells and prints what came out.
///
/// # Errors
/// A cell failed, or the guest did not boot.
pub fn matrix(arguments: &MatrixArgs) -> Result<()> {
    let plan = if arguments.ci { Plan::for_ci() } else { Plan::new(arguments) };
    if arguments.list {
        let cells = plan.parts.first().map_or(&[][..], |(_, cells)| cells);
        cells.iter().for_each(|cell| println!("{cell}"));
        eprintln!("{} cells", cells.len());
        return Ok(());
    }
    carry_out(&plan, arguments)
}

fn carry_out(plan: &Plan, arguments: &MatrixArgs) -> Result<()> {
    if plan.len() == 0 {
        return Err(Error::new(
            "no cell has such a name; `cargo xtask rxe matrix --full --list` names them",
        ));
    }
    let kernels = match arguments.kernel.as_slice() {
        [] => vec![Kernel::Host],
        named => named.to_vec(),
    };
    let mut runs = Vec::new();
    for kernel in kernels {
        eprintln!("kernel of the guest: {kernel}");
        let verdicts = try_all(plan, kernel, arguments)?;
        let summary = Summary { verdicts, excluded: plan.excluded.clone() };
        match arguments.json {
            true => println!("{}", summary.json()?),
            false => summary.print(),
        }
        runs.push((kernel, summary));
    }
    if arguments.write {
        document::replace(TABLE, &table::by_kernel(&runs))?;
    }
    let sum = |count: fn(&Summary) -> usize| runs.iter().map(|(_, run)| count(run)).sum::<usize>();
    match sum(Summary::failed) {
        0 => Ok(()),
        failed => {
            let tried = sum(|run| run.verdicts.len());
            Err(Error::new(format!("{failed} of {tried} cells failed")))
        }
    }
}

fn try_all(plan: &Plan, kernel: Kernel, arguments: &MatrixArgs) -> Result<Vec<Verdict>> {
    let config = GuestConfig { kernel, ..GuestConfig::default() };
    let (mut verdicts, started) = (Vec::with_capacity(plan.len()), Instant::now());
    for _ in 0..BOOTS {
        try_rest(plan, &config, arguments, started, &mut verdicts)?;
        if verdicts.len() == plan.len() {
            return Ok(verdicts);
        }
        eprintln!("          booting the guest again, and trying that cell again");
    }
    Err(Error::new(format!("the guest's kernel died {BOOTS} times of damaged packets")))
}

/// Tries the cells that have no verdict yet, in a guest of their own. There may be a rest again: where the guest did not outlive
/// the damaged packets of a cell.
fn try_rest(
    plan: &Plan,
    config: &GuestConfig,
    arguments: &MatrixArgs,
    started: Instant,
    verdicts: &mut Vec<Verdict>,
) -> Result<()> {
    if arguments.stock {
        let (far, near) = Guest::boot_pair(config)?;
        let mut bench = Bench::new(&far, Near::Stock(near), arguments.keep.clone());
        return run(&mut bench, plan, started, verdicts);
    }
    let far = Guest::boot(config)?;
    let program = workspace::install_uroce(far.folder())?;
    let near = Near::Ours { guest: &far, program, datapath: Datapath::Udp };
    run(&mut Bench::new(&far, near, arguments.keep.clone()), plan, started, verdicts)
}

fn run(
    bench: &mut Bench<'_>,
    plan: &Plan,
    started: Instant,
    verdicts: &mut Vec<Verdict>,
) -> Result<()> {
    let cells = plan.parts.iter().flat_map(|(on, cells)| cells.iter().map(move |cell| (on, cell)));
    for (datapath, cell) in cells.skip(verdicts.len()) {
        bench.use_datapath(*datapath);
        let verdict = bench.try_cell(cell)?;
        let now = started.elapsed().as_secs_f64();
        eprintln!("{:4}/{} {now:6.1} s  {verdict}", verdicts.len() + 1, plan.len());
        let died = cell.fault == Fault::Corrupt && bench.is_over();
        if verdict.passed || !died {
            verdicts.push(verdict);
        }
        if died {
            return Ok(());
        }
    }
    Ok(())
}
