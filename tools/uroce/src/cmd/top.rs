//! `uroce top`: devices, queue pairs and counters of all processes of the user, as they change.

mod app;
mod cells;
mod sample;
mod sampler;
mod terminal;
mod text;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use sampler::Sampler;

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;

const EXAMPLES: &str = "\
Examples:
  uroce top                  the screen; ? lists the keys, q ends it
  uroce top --once           the rates of one second as text
  uroce top --json | head    one JSON object a second, a line each
Processes of other users are shown to root only: `sudo uroce top`. More: docs/top.md";

/// Options of `uroce top`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print the rates of one interval as text, and end
    #[arg(long)]
    once: bool,
    /// Only the devices of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds".to_owned())?;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("it is from 0.1 to 3600".to_owned()),
    }
}

/// Shows what happens until the user ends it.
///
/// # Errors
/// Exit 2 without a terminal, exit 3 when the system does not tell who is there.
pub fn run(args: &TopArgs, global: &Global) -> Result<(), Failure> {
    let stdout = std::io::stdout();
    if !args.once && !global.json && !stdout.is_terminal() {
        return Err(Failure::usage("stdout is no terminal")
            .help("add --once for one sample as text, or --json for one object a second"));
    }
    let interrupt = Interrupt::install();
    let sampler = Sampler::start(global, args.pid, args.interval)?;
    match (global.json, args.once) {
        (true, once) => text::print_json(&sampler, once, &interrupt),
        (false, true) => text::print_once(&sampler, &interrupt),
        (false, false) => terminal::show(&sampler, &interrupt),
    }
}
