//! `cargo xtask rxe calls`: unmodified programs on our libraries, with the same programs on a kernel rxe at the
//! other end of the wire.

mod call;
mod trial;

use call::{CALLS, Call};
use clap::Args;
use trial::Bench;
use uroce_rxe_guest::faults::Fault;
use uroce_rxe_guest::{Guest, GuestConfig};
use uroce_testbed::error::{Error, Result};

use super::matrix::capture::Tally;
use super::matrix::cell::Role;
use crate::document;
use crate::programs::install;

/// Options of `rxe calls`.
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// Only command lines that contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the table into docs/interop.md.
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// Where the table stands in the document.
const TABLE: &str = "calls";
const WIRES: [Fault; 2] = [Fault::None, Fault::HeavyLoss];

/// One line of the table.
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
    let far = Guest::boot(&GuestConfig { ipv6: false, ..GuestConfig::default() })?;
    let mut bench = Bench::new(&far, &folder);
    let wanted =
        |call: &&Call| arguments.only.as_ref().is_none_or(|text| call.client().contains(text));
    let mut lines = Vec::new();
    for fault in WIRES {
        far.netem(fault)?;
        for call in CALLS.iter().filter(|call| call.is_for(fault)).filter(wanted) {
            for role in call.roles {
                lines.push(try_one(&mut bench, *call, *role, fault));
            }
        }
    }
    if arguments.write {
        document::replace(TABLE, &table(&lines))?;
    }
    match lines.iter().filter(|line| line.result.is_none()).count() {
        0 => Ok(()),
        failed => Err(Error::new(format!("{failed} of {} calls failed: see above", lines.len()))),
    }
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

fn table(lines: &[Line]) -> String {
    let mut text = "| program | options | we are | wire | result | packets of ours, of rxe |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for Line { call, role, fault, result } in lines {
        let (program, options) = (call.program(), call.options());
        let options = if options.is_empty() { options } else { format!("`{options}`") };
        let outcome = match result {
            None => "**fails** | ".to_owned(),
            Some((attempts, Tally { near_packets, far_packets, .. })) => {
                let times = if *attempts == 1 { "" } else { ", not at once" };
                format!("ok{times} | {near_packets}, {far_packets}")
            }
        };
        text += &format!("| {program} | {options} | {role} | {fault} | {outcome} |\n");
    }
    text
}
