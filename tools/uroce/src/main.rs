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

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let global = cli.global.with_environment();
    let done = log::start(global.log.as_deref()).and_then(|()| cmd::run(cli.command, &global));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit.into()
        }
    }
}
