//! `cargo xtask dist` and `cargo xtask package`: what users install, as a folder and as packages.
#![forbid(unsafe_code)]

mod dist;
mod notices;
mod package;

use std::process::ExitCode;

use clap::Parser;

/// What users install.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum Cli {
    /// Build what users install: the program and both forms of libibverbs, in one folder
    Dist(dist::DistArgs),
    /// Make the tarball, the .deb and the .rpm of it, and try them
    Package(package::PackageArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse() {
        Cli::Dist(args) => dist::run(&args),
        Cli::Package(args) => package::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
