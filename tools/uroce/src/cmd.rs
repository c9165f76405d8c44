//! The commands, one module each.

pub mod analyze;
pub mod capture;
pub mod completions;
pub mod conform;
pub mod demo;
pub mod devices;
pub mod devinfo;
pub mod dissect;
pub mod doctor;
pub mod fault;
pub mod gids;
pub mod ladder;
pub mod man;
pub mod perf;
pub mod pingpong;
pub mod replay;
pub mod res;
pub mod rping;
pub mod run;
pub mod stat;
mod survey;
pub mod top;
pub mod view;

use crate::cli::{Command, Global};
use crate::failure::Failure;

/// Runs a command.
///
/// # Errors
/// What the command says.
pub fn run(command: Command, global: &Global) -> Result<(), Failure> {
    match command {
        Command::Capture(args) => capture::run(&args, global),
        Command::Conform(args) => conform::run(&args, global),
        Command::Demo(args) => demo::run(&args, global),
        Command::Devices => devices::run(global),
        Command::Devinfo(args) => devinfo::run(&args, global),
        Command::Dissect(args) => dissect::run(&args, global),
        Command::Doctor(args) => doctor::run(&args, global),
        Command::Gids => gids::run(global),
        Command::Pingpong(args) => pingpong::run(&args, global),
        Command::Rping(args) => rping::run(&args, global),
        Command::Perf(args) => perf::run(&args, global),
        Command::Run(args) => run::run(&args, global),
        Command::Res(args) => res::run(&args, global),
        Command::Stat(args) => stat::run(&args, global),
        Command::Analyze(args) => analyze::run(&args, global),
        Command::Ladder(args) => ladder::run(&args, global),
        Command::Replay(args) => replay::run(&args, global),
        Command::View(args) => view::run(&args, global),
        Command::Top(args) => top::run(&args, global),
        Command::Fault(args) => fault::run(&args, global),
        Command::Man(args) => man::run(&args, global),
        Command::Completions(args) => completions::run(&args, global),
    }
}
