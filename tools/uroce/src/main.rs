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
mod unused;
mod usage;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => refuse(&error),
    };
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

/// Says what is wrong with the command line, or the help that it asks for, and ends.
fn refuse(error: &clap::Error) -> ! {
    // The line that would say so may be the wrong one: the word is looked for by itself.
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        let text = error.to_string();
        let what = text.lines().next().unwrap_or_default();
        let what = what.strip_prefix("error: ").unwrap_or(what);
        report::json::print_failure(&failure::Failure::usage(what));
    }
    error.exit()
}

fn run(cli: cli::Cli) -> Result<(), failure::Failure> {
    unused::refuse(&cli.command, &cli.global)?;
    let global = cli.global.with_environment()?;
    log::start(global.log.as_deref().unwrap_or(cli.command.log_level()))?;
    let done = cli.command.run(&global);
    faults::print();
    done?;
    report::lost()
}
