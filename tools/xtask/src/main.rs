//! Project tasks: the rxe guest, the interop matrix, and everything that CI runs.
#![forbid(unsafe_code)]

mod bench;
mod ci;
mod cleanup;
mod conform;
mod dist;
mod document;
mod error;
mod netns;
mod notices;
mod packages;
mod page;
mod process;
mod programs;
mod rxe;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Project tasks of uroce.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Everything that must hold before a change is taken.
    Ci(ci::CiArgs),
    /// Build what users install: the program and both forms of libibverbs, in one folder.
    Dist(dist::DistArgs),
    /// Measurements, each beside a rival.
    Bench(bench::BenchArgs),
    /// A socket program that measurements compare with.
    #[command(subcommand, hide = true)]
    Rival(bench::RivalCommand),
    /// Run unmodified programs of libibverbs on our devices.
    Programs(programs::ProgramsArgs),
    /// Run `uroce conform` against ourselves, sound and broken on purpose.
    Conform(conform::ConformArgs),
    /// Look at the page of `uroce view` with a browser.
    Page(page::PageArgs),
    /// A Linux kernel with rxe in a virtual machine, to test against.
    #[command(subcommand)]
    Rxe(rxe::RxeCommand),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Ci(arguments) => ci::run(&arguments),
        Task::Dist(arguments) => dist::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Rival(command) => command.run(),
        Task::Programs(arguments) => programs::run(&arguments),
        Task::Conform(arguments) => conform::run(&arguments),
        Task::Page(arguments) => page::run(&arguments),
        Task::Rxe(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
