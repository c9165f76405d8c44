//! The tools: programs of the workspace that `cargo xtask` builds and runs under one name.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use uroce_testbed::error::{Error, Result};
use uroce_testbed::process::{command, find_program};
use uroce_testbed::workspace;

/// A command of `cargo xtask` that is another program.
#[derive(Debug)]
pub struct Tool {
    /// The command.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its package, and the program.
    package: &'static str,
    /// The program has several commands, of which this is one.
    is_command: bool,
    /// What it runs itself it takes from the build of the whole workspace.
    needs_workspace: bool,
}

/// All of them.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "dist",
        about: "Build what users install: the program and both forms of libibverbs, in one folder",
        package: "uroce-dist",
        is_command: true,
        needs_workspace: false,
    },
    Tool {
        name: "package",
        about: "Make the tarball, the .deb and the .rpm of it, and try them",
        package: "uroce-dist",
        is_command: true,
        needs_workspace: false,
    },
    Tool {
        name: "bench",
        about: "Measurements, each beside a baseline",
        package: "uroce-bench",
        is_command: false,
        needs_workspace: true,
    },
    interop("programs", "Run unmodified programs of libibverbs on our devices"),
    interop("releases", "Run the tests of rdma-core in roots of Debian 12, 13 and testing"),
    interop("conform", "Run `uroce conform` against ourselves, sound and broken on purpose"),
    interop("page", "Look at the page of `uroce view` with a browser"),
    interop("rxe", "A Linux kernel with rxe in a virtual machine, to test against"),
];

const fn interop(name: &'static str, about: &'static str) -> Tool {
    Tool { name, about, package: "uroce-interop", is_command: true, needs_workspace: true }
}

impl Tool {
    /// Goes on as this tool: a signal then reaches the program that has something to remove.
    ///
    /// # Errors
    /// It does not build, or cannot be started.
    pub fn replace_this_program(&self, words: impl Iterator<Item = OsString>) -> Result<()> {
        let error = self.built()?.args(words).exec();
        Err(Error::new(format!("could not start {}: {error}", self.package)))
    }

    /// The tool's command line so far, once it is built.
    ///
    /// A tool is built together with the whole workspace where it needs that anyway: cargo chooses the features of
    /// third-party crates by the packages that it builds, and would compile them again for one package.
    fn built(&self) -> Result<Command> {
        let mut program = if self.needs_workspace {
            let file = workspace::build_folder().join(self.package);
            if !file.is_file() {
                eprintln!("building the workspace");
            }
            workspace::build_all()?;
            Command::new(file)
        } else {
            let mut cargo = workspace::cargo_build(&["run", "--quiet", "--package", self.package]);
            // Paths on the command line are those of the user's folder.
            cargo.arg("--").current_dir(".");
            cargo
        };
        if self.is_command {
            program.arg(self.name);
        }
        Ok(program)
    }
}

/// A command of a tool as a step of CI; it is told to end when this program ends before it.
///
/// # Errors
/// The workspace does not build.
pub fn step(name: &str, words: &[&str]) -> Result<Command> {
    let tool = TOOLS.iter().find(|tool| tool.name == name).expect("CI names tools that exist");
    let mut built = tool.built()?;
    built.args(words);
    if find_program("setpriv").is_none() {
        return Ok(built);
    }
    let mut ended = command(["setpriv", "--pdeathsig", "TERM", "--"]);
    ended.arg(built.get_program()).args(built.get_args());
    Ok(ended)
}
