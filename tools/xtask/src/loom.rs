//! `cargo xtask loom`: the models of the lock-free code.

use std::ffi::OsString;
use std::process::Command;

use uroce_testbed::error::{Error, Result};
use uroce_testbed::{process, workspace};

/// Packages with models.
const PACKAGES: [&str; 1] = ["uroce-datapath"];
/// What the paths of models contain. Other tests cannot run on the atomics of a model.
const MODELS: &str = "loom_models";
/// What `--help` prints.
const HELP: &str = "\
Explore the models of the lock-free code in every order of their threads

Usage: cargo xtask loom

Environment:
  LOOM_MAX_PREEMPTIONS   How often threads are interrupted between two operations, at most (3)
";

/// Builds the models in a folder of their own, since `--cfg loom` compiles everything anew, explores
/// them, and prints how many orders there were.
///
/// # Errors
/// They do not build, there is an order in which one fails, or the command line has more words.
pub fn run(mut words: impl Iterator<Item = OsString>) -> Result<()> {
    match words.next() {
        None => {}
        Some(word) if word == "-h" || word == "--help" => {
            print!("{HELP}");
            return Ok(());
        }
        Some(word) => {
            let word = word.to_string_lossy();
            return Err(Error::new(format!("there is no option {word}\n\n{HELP}")));
        }
    }
    print!("{}", process::stdout_of(&mut test())?);
    Ok(())
}

fn test() -> Command {
    let mut test = workspace::cargo_build(&["test", "--lib"]);
    test.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    test.arg("--target-dir").arg(workspace::target_folder().join("loom"));
    test.args(["--", MODELS, "--show-output"]).env("RUSTFLAGS", "--cfg loom");
    test
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_models_are_run_and_further_words_are_refused() {
        let test = test();
        let words: Vec<_> = test.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(
            words.ends_with(&["--".into(), MODELS.into(), "--show-output".into()]),
            "{words:?}"
        );
        let error = run(["--fast".into()].into_iter()).expect_err("no such option").to_string();
        assert!(error.contains("--fast") && error.contains("Usage:"), "{error}");
    }
}
