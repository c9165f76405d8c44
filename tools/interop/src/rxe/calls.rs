//! `cargo xtask rxe calls`: unmodified programs on our libraries, with the same programs on a kernel rxe at the
//! other end of the wire.

mod call;
mod trial;

use std::path::Path;

use call::{CALLS, Call};
use clap::Args;
use trial::Bench;
use uroce_rxe_guest::faults::Fault;
use uroce_rxe_guest::{Guest, GuestConfig, Kernel};
use uroce_testbed::error::{Error, Result};

use super::matrix::capture::Tally;
use super::matrix::cell::Role;
use crate::document;
use crate::programs::install;

/// Options of `rxe calls`.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// Kernel of the guest, or several, one after the other [default: that of this host's Debian release].
    #[arg(long, value_enum, value_name = "KERNEL")]
    kernel: Vec<Kernel>,
    /// Only command lines that contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the table into docs/interop.md.
    #[arg(long, conflicts_with = "only", requires = "kernel")]
    write: bool,
}

/// Where the table stands in the document.
const TABLE: &str = "calls";
const WIRES: [Fault; 2] = [Fault::None, Fault::HeavyLoss];

/// One call, and what came of it.
struct Line {
    call: Call,
    role: Role,
    fault: Fault,
    /// Attempts and packets; `None`: it failed.
    result: Option<(usize, Tally)>,
}

/// Runs every call in both roles, on a clean wire and on one that loses packets.
///
/// # Errors
/// One of them failed, or the guest did not boot.
pub fn calls(arguments: &CallsArgs) -> Result<()> {
    let (folder, _guard) = install::install()?;
    let kernels = match arguments.kernel.as_slice() {
        [] => vec![Kernel::Host],
        named => named.to_vec(),
    };
    let mut columns = Vec::new();
    for kernel in kernels {
        columns.push((kernel, against(kernel, &folder, arguments.only.as_deref())?));
    }
    if arguments.write {
        document::replace(TABLE, &table(&columns))?;
    }
    let lines = || columns.iter().flat_map(|(_, lines)| lines);
    match lines().filter(|line| line.result.is_none()).count() {
        0 => Ok(()),
        failed => {
            Err(Error::new(format!("{failed} of {} calls failed: see above", lines().count())))
        }
    }
}

/// Runs the calls whose command line contains `only` against one kernel.
fn against(kernel: Kernel, folder: &Path, only: Option<&str>) -> Result<Vec<Line>> {
    let far = Guest::boot(&GuestConfig { kernel, ipv6: false, ..GuestConfig::default() })?;
    let mut bench = Bench::new(&far, folder);
    let wanted = |call: &&Call| only.is_none_or(|text| call.client().contains(text));
    let mut lines = Vec::new();
    for fault in WIRES {
        far.netem(fault)?;
        for call in CALLS.iter().filter(|call| call.is_for(fault)).filter(wanted) {
            for role in call.roles {
                lines.push(try_one(&mut bench, *call, *role, fault));
            }
        }
    }
    Ok(lines)
}

fn try_one(bench: &mut Bench<'_>, call: Call, role: Role, fault: Fault) -> Line {
    let result = bench.try_call(&call, role, fault);
    let (program, options) = (call.program(), call.options());
    match &result {
        Ok((attempts, _)) => println!("ok {attempts}    {program} {options} ({role}, {fault})"),
        Err(error) => println!("FAILED  {program} {options} ({role}, {fault})\n{error}"),
    }
    Line { call, role, fault, result: result.ok() }
}

/// A column for each kernel.
fn table(columns: &[(Kernel, Vec<Line>)]) -> String {
    let mut text = "| program | options | we are | wire |".to_owned();
    text.extend(columns.iter().map(|(kernel, _)| format!(" Linux {kernel} |")));
    text += &format!("\n|---|---|---|---|{}\n", "---|".repeat(columns.len()));
    let rows = columns.first().map_or(&[][..], |(_, lines)| lines);
    for (row, Line { call, role, fault, .. }) in rows.iter().enumerate() {
        let (program, options) = (call.program(), call.options());
        let options = if options.is_empty() { options } else { format!("`{options}`") };
        text += &format!("| {program} | {options} | {role} | {fault} |");
        text.extend(columns.iter().map(|(_, lines)| format!(" {} |", outcome(&lines[row]))));
        text.push('\n');
    }
    text
}

fn outcome(line: &Line) -> String {
    match &line.result {
        None => "**fails**".to_owned(),
        Some((attempts, Tally { near_packets, far_packets, .. })) => {
            let times = if *attempts == 1 { "" } else { ", not at once" };
            format!("ok{times}: {near_packets}, {far_packets}")
        }
    }
}
