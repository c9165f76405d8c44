//! `uroce completions SHELL`.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::global::Global;
use crate::report::out;

/// Arguments of `uroce completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`.
///
/// # Errors
/// Exit 2 with `--json`.
pub fn run(args: &CompletionsArgs, global: &Global, mut command: Command) -> Result<(), Failure> {
    if global.json {
        return Err(Failure::usage("a completion script is no JSON").help("leave out --json"));
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "uroce", &mut script);
    out(&String::from_utf8_lossy(&script));
    Ok(())
}
