//! Interop tests: unmodified programs on our devices, a kernel rxe at the other end of a wire, the conformance test, and
//! the page of a capture in a browser.
#![forbid(unsafe_code)]

mod conform;
mod document;
mod page;
mod programs;
mod releases;
mod rxe;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Interop tests of uroce.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    test: Test,
}

#[derive(Debug, Subcommand)]
enum Test {
    /// Run unmodified programs of libibverbs on our devices.
    Programs(programs::ProgramsArgs),
    /// Run the tests of rdma-core in roots of Debian 12, 13 and testing.
    Releases(releases::ReleasesArgs),
    /// Run `uroce conform` against ourselves, sound and broken on purpose.
    Conform(conform::ConformArgs),
    /// Look at the page of `uroce view` with a browser.
    Page(page::PageArgs),
    /// A Linux kernel with rxe in a virtual machine, to test against.
    #[command(subcommand)]
    Rxe(rxe::RxeCommand),
}

fn main() -> ExitCode {
    let result = match Cli::parse().test {
        Test::Programs(arguments) => programs::run(&arguments),
        Test::Releases(arguments) => releases::run(&arguments),
        Test::Conform(arguments) => conform::run(&arguments),
        Test::Page(arguments) => page::run(&arguments),
        Test::Rxe(command) => command.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
