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
        report::json::print_failure(&usage_failure(&error.to_string()));
    }
    error.exit()
}

/// What clap says, as one sentence: its first paragraph, which names what is missing or wrong in lines of their own. Tips
/// are in one behind it.
fn usage_failure(text: &str) -> failure::Failure {
    let paragraph = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n").map(paragraph);
    let what = paragraphs.next().unwrap_or_default();
    let failure = failure::Failure::usage(what.strip_prefix("error: ").unwrap_or(&what));
    let tip = paragraphs.find_map(|next| next.strip_prefix("tip: ").map(str::to_owned));
    match tip {
        Some(tip) => failure.help(tip),
        None => failure,
    }
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
