//! `cargo xtask rxe operations`: what rxe has learnt since 6.1 and no stock program uses: FLUSH, ATOMIC WRITE, and memory
//! registered on demand. A program of our own runs at both ends, here on our libibverbs and there on that of Debian 13,
//! since that of Debian 12 has no FLUSH.

mod case;
mod trial;

use case::{CASES, Case, known_defect};
use clap::Args;
use trial::Bench;
use uroce_rxe_guest::Kernel;
use uroce_testbed::error::{Error, Result};

use super::matrix::cell::Role;
use crate::document;
use crate::programs::install;

/// Options of `rxe operations`.
#[derive(Debug, Args)]
pub struct OperationsArgs {
    /// Kernel of the guest, or several, one after the other [default: that of this host's Debian release].
    #[arg(long, value_enum, value_name = "KERNEL")]
    kernel: Vec<Kernel>,
    /// Write the table into docs/interop.md.
    #[arg(long, requires = "kernel")]
    write: bool,
}

/// Where the table stands in the document.
const TABLE: &str = "operations";
const ROLES: [Role; 2] = [Role::Server, Role::Client];

/// What came of a case: `None` is success.
struct Line {
    case: Case,
    role: Role,
    failure: Option<String>,
}

/// Tries every case in both roles.
///
/// # Errors
/// One failed in a way that is no known defect of that kernel, or a defect is gone.
pub fn operations(arguments: &OperationsArgs) -> Result<()> {
    let (folder, _guard) = install::install()?;
    let program = trial::compile(&folder)?;
    let kernels = match arguments.kernel.as_slice() {
        [] => vec![Kernel::Host],
        named => named.to_vec(),
    };
    let (mut columns, mut unexpected) = (Vec::new(), 0);
    for kernel in kernels {
        let bench = Bench::boot(kernel, &folder, &program)?;
        let version = bench.version()?;
        let mut lines = Vec::new();
        for case in CASES {
            for role in ROLES {
                let failure = bench.try_case(case, role)?;
                unexpected += usize::from(!report(&version, case, role, failure.as_deref()));
                lines.push(Line { case, role, failure });
            }
        }
        columns.push((version, lines));
    }
    if arguments.write {
        document::replace(TABLE, &table(&columns))?;
    }
    match unexpected {
        0 => Ok(()),
        count => {
            Err(Error::new(format!("{count} operations did not end as this kernel lets them")))
        }
    }
}

/// Prints how a case ended; true if so it must.
fn report(version: &str, case: Case, role: Role, failure: Option<&str>) -> bool {
    let wanted = known_defect(version, case, role);
    let fits = match (failure, wanted) {
        (None, None) => true,
        (Some(failure), Some(wanted)) => failure.contains(wanted),
        _ => false,
    };
    let word = if fits { "ok" } else { "FAILED" };
    let failure = failure.unwrap_or("every byte is right");
    println!("{word:6}  Linux {version}, {case}, we are {role}: {failure}");
    fits
}

fn table(columns: &[(String, Vec<Line>)]) -> String {
    let mut text = "| operation | path MTU | we are |".to_owned();
    text.extend(columns.iter().map(|(version, _)| format!(" Linux {version} |")));
    text += &format!("\n|---|---|---|{}\n", "---|".repeat(columns.len()));
    let rows = columns.first().map_or(&[][..], |(_, lines)| lines);
    for (row, Line { case, role, .. }) in rows.iter().enumerate() {
        text += &format!("| {} | {} | {role} |", case.operation, case.mtu);
        for (_, lines) in columns {
            text += &format!(" {} |", lines[row].failure.as_deref().unwrap_or("ok"));
        }
        text.push('\n');
    }
    text
}
