//! `uroce`: the software NIC on the command line.
#![forbid(unsafe_code)]

mod channel;
mod cli;
mod cmd;
mod examples;
mod failure;
mod faults;
mod filter_args;
mod global;
mod interrupt;
mod latency;
mod live;
mod log;
mod nic;
mod packet_line;
mod peak;
mod progress;
mod report;
mod source;
mod stop;
mod terminal;
mod usage;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let json = cli.global.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if json {
                report::json::print_failure(&failure);
            }
            failure.print();
            failure.exit.into()
        }
    }
}

fn run(cli: cli::Cli) -> Result<(), failure::Failure> {
    let global = cli.global.with_environment()?;
    log::start(global.log.as_deref())?;
    let done = cli.command.run(&global);
    faults::print();
    done?;
    report::lost()
}
