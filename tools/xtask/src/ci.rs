//! `cargo xtask ci`: everything that must hold before a change is taken, in one command.

mod arguments;
mod demo;
mod examples;
mod failed_tests;
mod report;
mod sources;
mod step;
mod tools;

use std::time::Instant;

pub use arguments::CiArgs;
use report::{Line, Report};
use step::{Outcome, Step};
use uroce_testbed::error::{Error, Result};

/// Every step in its order: the cheap ones first.
const STEPS: &[Step] = &[
    Step {
        name: "packages",
        about: "Debian packages that the other steps need are installed",
        run: tools::packages,
    },
    Step { name: "fmt", about: "the code is formatted", run: sources::fmt },
    Step {
        name: "clippy",
        about: "clippy has nothing to say about any target",
        run: sources::clippy,
    },
    Step { name: "doc", about: "the documentation builds without a warning", run: sources::doc },
    Step {
        name: "msrv",
        about: "what users compile is compiled by the oldest Rust that Cargo.toml promises",
        run: sources::msrv,
    },
    Step {
        name: "crates",
        about: "every crate that is published packs, with a page of its own",
        run: sources::crates,
    },
    Step {
        name: "no-std",
        about: "uroce-wire is compiled without the standard library",
        run: sources::no_std,
    },
    Step {
        name: "test",
        about: "unit, integration and documentation tests pass",
        run: sources::test,
    },
    Step {
        name: "mutations",
        about: "the simulator finds out NICs that are broken on purpose",
        run: sources::mutations,
    },
    Step {
        name: "fuzz",
        about: "each fuzz target holds for 20 s on inputs made from its corpus",
        run: sources::fuzz,
    },
    Step {
        name: "loom",
        about: "models of the lock-free code hold in every order of their threads",
        run: sources::loom,
    },
    Step {
        name: "instructions",
        about: "the work per packet did not grow by more than 3 % unnoticed",
        run: tools::instructions,
    },
    Step { name: "examples", about: "every example runs to its end", run: examples::run },
    Step {
        name: "demo",
        about: "`uroce demo` works as a user without any privilege",
        run: demo::run,
    },
    Step {
        name: "page",
        about: "the page of `uroce view` draws, answers keys and makes no request",
        run: tools::page,
    },
    Step {
        name: "programs",
        about: "unmodified programs of libibverbs run on our devices",
        run: tools::programs,
    },
    Step {
        name: "package",
        about: "the tarball, the .deb and the .rpm install, run as an ordinary user and go away",
        run: tools::package,
    },
    Step {
        name: "conform",
        about: "uroce passes its own conformance test, and faults on purpose fail it",
        run: tools::conform,
    },
    Step {
        name: "rxe",
        about: "our programs and the stock ones understand each other over a kernel rxe",
        run: tools::rxe,
    },
    Step {
        name: "calls",
        about: "unmodified programs understand a kernel rxe, those of rdma_cm also through loss",
        run: tools::calls,
    },
];

/// Runs the steps and prints the closing line `N passed, N failed, N skipped`.
///
/// With `CI=true` in the environment a skipped step counts as failed: CI must not turn green by leaving things out.
///
/// # Errors
/// A step failed, or a step of that name does not exist.
pub fn run(arguments: &CiArgs) -> Result<()> {
    if arguments.help {
        print!("{}", arguments::HELP);
        return Ok(());
    }
    check_names(arguments.skip.iter().chain(&arguments.only))?;
    if arguments.list {
        STEPS.iter().for_each(|step| println!("{:10} {}", step.name, step.about));
        return Ok(());
    }
    let mut report = Report::new(std::env::var("CI").is_ok_and(|value| value == "true"));
    for step in STEPS {
        report.add(run_one(step, arguments));
    }
    report.print();
    if report.failed() == 0 {
        Ok(())
    } else {
        Err(Error::new("not everything passed: see the table, and what is above it"))
    }
}

fn check_names<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<()> {
    match names.find(|name| STEPS.iter().all(|step| step.name != name.as_str())) {
        None => Ok(()),
        Some(name) => {
            Err(Error::new(format!("there is no step {name}; `cargo xtask ci --list` names them")))
        }
    }
}

fn run_one(step: &Step, arguments: &CiArgs) -> Line {
    let started = Instant::now();
    let left_out = arguments.skip.iter().any(|name| name == step.name)
        || !(arguments.only.is_empty() || arguments.only.iter().any(|name| name == step.name));
    let outcome = if left_out {
        Outcome::Skipped("left out on the command line".to_owned())
    } else {
        println!("\n==> {}: {}", step.name, step.about);
        (step.run)()
    };
    let line = Line { name: step.name, outcome, seconds: started.elapsed().as_secs_f64() };
    println!("<== {line}");
    if let Some(details) = line.details() {
        println!("{details}");
    }
    line
}
