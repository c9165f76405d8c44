//! `cargo xtask`: what CI checks, and a name for each of the tools.
//!
//! It is compiled before anything else, so it has next to no dependencies, and reads its command line itself.
#![forbid(unsafe_code)]

mod ci;
mod fuzz;
mod loom;
mod sanitizer;
mod tool;

use std::ffi::OsString;
use std::process::ExitCode;

use tool::TOOLS;
use uroce_testbed::error::Error;

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
        Err(Failure::Work(error)) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why the command failed.
#[derive(Debug)]
enum Failure {
    /// There is no such command or option: exit code 2.
    Usage(Error),
    /// What was asked for did not succeed: exit code 1.
    Work(Error),
}

fn run(mut words: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let name = words.next().unwrap_or_default();
    let name = name.to_string_lossy();
    match &*name {
        "ci" => {
            let arguments = ci::CiArgs::parse(words).map_err(Failure::Usage)?;
            ci::run(&arguments).map_err(Failure::Work)
        }
        "fuzz" => fuzz::run(words).map_err(Failure::Work),
        "loom" => loom::run(words).map_err(Failure::Work),
        "sanitizer" => sanitizer::run(words).map_err(Failure::Work),
        "help" | "-h" | "--help" => {
            print!("{}", help());
            Ok(())
        }
        "" => Err(Failure::Usage(Error::new(format!("which command?\n\n{}", help())))),
        name => match TOOLS.iter().find(|tool| tool.name == name) {
            Some(tool) => tool.replace_this_program(words).map_err(Failure::Work),
            None => {
                let what = format!("there is no command {name}\n\n{}", help());
                Err(Failure::Usage(Error::new(what)))
            }
        },
    }
}

fn help() -> String {
    let mut text = "Project tasks of uroce\n\nUsage: cargo xtask <COMMAND> [OPTIONS]; each has --help\n\nCommands:\n\
                    \x20 ci        Everything that must hold before a change is taken\n\
                    \x20 fuzz      The fuzz targets under libFuzzer\n\
                    \x20 loom      Models of the lock-free code, in every order of its threads\n\
                    \x20 sanitizer The tests under AddressSanitizer or ThreadSanitizer\n"
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
        let names = [
            "ci",
            "fuzz",
            "loom",
            "sanitizer",
            "bench",
            "dist",
            "package",
            "programs",
            "releases",
            "conform",
            "page",
            "rxe",
        ];
        assert!(names.iter().all(|name| help.contains(&format!("\n  {name} "))), "{help}");
        let Err(Failure::Usage(error)) = run(["bnech".into()].into_iter()) else {
            panic!("there is no such command")
        };
        let error = error.to_string();
        assert!(error.contains("no command bnech") && error.contains("Commands:"), "{error}");
        assert!(matches!(run(std::iter::empty()), Err(Failure::Usage(_))));
    }
}
