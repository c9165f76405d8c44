//! `uroce`: the software NIC on the command line.
#![forbid(unsafe_code)]

mod cli;
mod cmd;
mod exchange;
mod failure;
mod interrupt;
mod latency;
mod log;
mod nic;
mod peak;
mod report;
mod stop;
mod usage;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit.into()
        }
    }
}

fn run(cli: cli::Cli) -> Result<(), failure::Failure> {
    let global = cli.global.with_environment()?;
    log::start(global.log.as_deref())?;
    cmd::run(cli.command, &global)
}
