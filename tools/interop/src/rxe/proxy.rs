//! `cargo xtask rxe proxy`: `uroce fault proxy` between two guests with a kernel rxe, which know nothing of it.

mod bench;
mod case;
mod cases;
mod witness;

use std::path::PathBuf;
use std::time::Instant;

use bench::Bench;
use case::Case;
use cases::CASES;
use clap::Args;
use uroce_rxe_guest::{Guest, GuestConfig};
use uroce_testbed::error::{Error, Result};
use uroce_testbed::workspace;

use crate::document;

/// Options of `rxe proxy`.
#[derive(Debug, Args)]
pub struct ProxyArgs {
    /// Only cases whose name (see --list) contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Name the cases and do nothing.
    #[arg(long)]
    list: bool,
    /// Try each case so many times.
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    repeat: usize,
    /// Keep the captures of both taps in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Take this `uroce` instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write the table into docs/interop.md.
    #[arg(long, conflicts_with_all = ["only", "repeat"])]
    write: bool,
}

/// Where the table stands in the document.
const TABLE: &str = "proxy";

/// Memory of each guest in MiB.
const MEMORY_MIB: u32 = 512;

/// The port of the first case; each has its own, which also tells its captures apart.
const FIRST_PORT: u16 = 22_000;

/// Runs the cases and prints a table.
///
/// # Errors
/// A case failed, or a guest did not boot.
pub fn proxy(arguments: &ProxyArgs) -> Result<()> {
    let wanted = |case: &&Case| arguments.only.as_ref().is_none_or(|text| case.name.contains(text));
    let wanted: Vec<&Case> = CASES.iter().filter(wanted).collect();
    if arguments.list {
        wanted.iter().for_each(|case| println!("{:15} {}", case.name, case.rules.join("; ")));
        return Ok(());
    }
    let started = Instant::now();
    let rounds: Vec<_> =
        (0..arguments.repeat.max(1)).flat_map(|_| wanted.iter().copied()).collect();
    let mut next_port = FIRST_PORT;
    let mut lines = in_new_guests(arguments, &mut next_port, &rounds)?;
    try_again(arguments, &mut next_port, &mut lines)?;
    println!("{} cases in {:.1} s", lines.len(), started.elapsed().as_secs_f64());
    if arguments.write {
        document::replace(TABLE, &table(&lines))?;
    }
    match lines.iter().filter(|(_, result)| result.is_err()).count() {
        0 => Ok(()),
        failed => Err(Error::new(format!("{failed} of {} cases failed: see above", lines.len()))),
    }
}

/// A case, and what was seen in it, or why it failed.
type CaseOutcome<'a> = (&'a Case, Result<String>);

fn in_new_guests<'a>(
    arguments: &ProxyArgs,
    next_port: &mut u16,
    cases: &[&'a Case],
) -> Result<Vec<CaseOutcome<'a>>> {
    let started = Instant::now();
    let config =
        GuestConfig { ipv6: false, cores: 1, memory_mib: MEMORY_MIB, ..GuestConfig::default() };
    let (far, near) = Guest::boot_apart(&config)?;
    println!("two guests after {:.1} s", started.elapsed().as_secs_f64());
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => workspace::install_uroce(far.folder())?,
    };
    let keep = arguments.keep.clone();
    let mut bench = Bench { near: &near, far: &far, program, keep, next_port: *next_port };
    let lines = cases.iter().map(|case| (*case, try_one(&mut bench, case))).collect();
    *next_port = bench.next_port;
    Ok(lines)
}

/// The card of a guest sometimes stops in the middle of a message, and nothing leaves that guest any more, TCP included: seen in one of ten
/// runs of the case that loses packets at random, on a busy machine without KVM. Such cases have a second attempt.
/// Its port is another one, so that the captures of the first attempt are kept, too.
fn try_again(
    arguments: &ProxyArgs,
    next_port: &mut u16,
    lines: &mut [CaseOutcome<'_>],
) -> Result<()> {
    for (case, result) in lines.iter_mut() {
        if result.is_err() && case.loses_at_random() {
            println!("{} once more, in new guests", case.name);
            if let Some((_, second)) = in_new_guests(arguments, next_port, &[case])?.pop() {
                *result = second;
            }
        }
    }
    Ok(())
}

fn try_one(bench: &mut Bench<'_>, case: &Case) -> Result<String> {
    let started = Instant::now();
    let result = bench.try_case(case);
    let (name, seconds) = (case.name, started.elapsed().as_secs_f64());
    match &result {
        Ok(seen) => println!("ok      {name:15} {seconds:4.1} s  {seen}"),
        Err(error) => println!("FAILED  {name:15} {seconds:4.1} s\n{error}"),
    }
    result
}

fn table(lines: &[CaseOutcome<'_>]) -> String {
    let mut text =
        "| case | programs | rules | the client ends | seen |\n|---|---|---|---|---|\n".to_owned();
    for (case, result) in lines {
        let program = case.client.split(' ').next().unwrap_or_default();
        let rules = match case.rules {
            [] => "none".to_owned(),
            rules => format!("`{}`", rules.join("; ").replace('|', "\\|")),
        };
        let seen = result.as_ref().map_or("**fails**", String::as_str);
        text += &format!("| {} | {program} | {rules} | {} | {seen} |\n", case.name, case.ending);
    }
    text
}
