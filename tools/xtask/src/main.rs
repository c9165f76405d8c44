//! `cargo xtask`: what CI checks, and a name for each of the tools.
//!
//! It is compiled before anything else, so it has next to no dependencies, and reads its command line itself.
#![forbid(unsafe_code)]

mod ci;
mod tool;

use std::ffi::OsString;
use std::process::ExitCode;

use tool::TOOLS;
use uroce_testbed::error::{Error, Result};

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut words: impl Iterator<Item = OsString>) -> Result<()> {
    let name = words.next().unwrap_or_default();
    let name = name.to_string_lossy();
    match &*name {
        "ci" => ci::run(&ci::CiArgs::parse(words)?),
        "" | "help" | "-h" | "--help" => {
            print!("{}", help());
            Ok(())
        }
        name => match TOOLS.iter().find(|tool| tool.name == name) {
            Some(tool) => tool.replace_this_program(words),
            None => Err(Error::new(format!("there is no command {name}\n\n{}", help()))),
        },
    }
}

fn help() -> String {
    let mut text = "Project tasks of uroce\n\nUsage: cargo xtask <COMMAND> [OPTIONS]; each has --help\n\nCommands:\n\
                    \x20 ci        Everything that must hold before a change is taken\n"
        .to_owned();
    for tool in TOOLS {
        text += &format!("  {:9} {}\n", tool.name, tool.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command_and_a_wrong_one_is_an_error_with_help() {
        let help = help();
        let names = ["ci", "bench", "dist", "programs", "conform", "page", "rxe"];
        assert!(names.iter().all(|name| help.contains(&format!("\n  {name} "))), "{help}");
        let error = run(["bnech".into()].into_iter()).expect_err("no such command").to_string();
        assert!(error.contains("no command bnech") && error.contains("Commands:"), "{error}");
    }
}
