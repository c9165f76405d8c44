//! `uroce fault`: rules that make faults, checked, and applied between two other hosts.

mod check;
mod proxy;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::global::Global;

/// Arguments of `uroce fault`.
#[derive(Debug, Args)]
pub struct FaultArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Read rules and show how they are understood; what is wrong is told with line and column
    Check(check::CheckArgs),
    /// Apply rules to RoCE between two other hosts: as a bridge of two interfaces, or as their gateway
    Proxy(proxy::ProxyArgs),
}

/// Runs the command.
///
/// # Errors
/// What the command says.
pub fn run(args: &FaultArgs, global: &Global) -> Result<(), Failure> {
    match &args.what {
        What::Check(args) => check::run(args, global),
        What::Proxy(args) => proxy::run(args, global),
    }
}
