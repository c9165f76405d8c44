//! `cargo xtask rxe matrix`: our programs against the stock ones, over a wire with a kernel rxe at its other end.

mod capture;
mod cell;
mod command;
mod exclude;
mod near;
mod pairwise;
mod table;
mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use super::guest::{Guest, GuestConfig};
use crate::error::{Error, Result};
use crate::workspace;
use cell::Cell;
use near::Near;
use table::Summary;
use trial::{Bench, Verdict};

/// Options of `rxe matrix`.
#[derive(Debug, Default, Args)]
pub struct MatrixArgs {
    /// Every cell (hours), not only a selection that has every pair of values.
    #[arg(long)]
    full: bool,
    /// Only cells whose name (see --list) contains this text; may be given several times, all must fit.
    #[arg(long, value_name = "TEXT")]
    cell: Vec<String>,
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
    #[arg(long)]
    json: bool,
}

/// Tries the cells and prints what came out.
///
/// # Errors
/// A cell failed, or the guest did not boot.
pub fn matrix(arguments: &MatrixArgs) -> Result<()> {
    let (cells, excluded) = choose(arguments);
    if arguments.list {
        cells.iter().for_each(|cell| println!("{cell}"));
        eprintln!("{} cells", cells.len());
        return Ok(());
    }
    if cells.is_empty() {
        return Err(Error::new(
            "no cell has such a name; `cargo xtask rxe matrix --full --list` names them",
        ));
    }
    let verdicts = try_all(&cells, arguments)?;
    let summary = Summary { verdicts: &verdicts, excluded };
    match arguments.json {
        true => println!("{}", summary.json()?),
        false => summary.print(),
    }
    match summary.failed() {
        0 => Ok(()),
        failed => Err(Error::new(format!("{failed} of {} cells failed", verdicts.len()))),
    }
}

/// The cells to try, those of one fault behind each other, and how many were left out for which reason.
fn choose(arguments: &MatrixArgs) -> (Vec<Cell>, BTreeMap<&'static str, usize>) {
    let mut excluded = BTreeMap::new();
    let mut cells = Cell::all();
    cells.retain(|cell| match exclude::reason(cell) {
        None => true,
        Some(reason) => {
            *excluded.entry(reason).or_default() += 1;
            false
        }
    });
    if !arguments.full && arguments.cell.is_empty() {
        cells = pairwise::select(&cells);
    }
    cells.retain(|cell| arguments.cell.iter().all(|text| cell.to_string().contains(text)));
    cells.sort_by_key(|cell| cell.fault);
    (cells, excluded)
}

fn try_all(cells: &[Cell], arguments: &MatrixArgs) -> Result<Vec<Verdict>> {
    let config = GuestConfig::default();
    if arguments.stock {
        let (far, near) = Guest::boot_pair(&config)?;
        return run(&mut Bench::new(&far, Near::Stock(near), arguments.keep.clone()), cells);
    }
    let far = Guest::boot(&config)?;
    let program = workspace::install_uroce(far.folder())?;
    run(&mut Bench::new(&far, Near::Ours { guest: &far, program }, arguments.keep.clone()), cells)
}

fn run(bench: &mut Bench<'_>, cells: &[Cell]) -> Result<Vec<Verdict>> {
    let started = Instant::now();
    let mut verdicts = Vec::with_capacity(cells.len());
    for (index, cell) in cells.iter().enumerate() {
        let verdict = bench.try_cell(cell)?;
        let now = started.elapsed().as_secs_f64();
        eprintln!("{:4}/{} {now:6.1} s  {verdict}", index + 1, cells.len());
        verdicts.push(verdict);
    }
    Ok(verdicts)
}
