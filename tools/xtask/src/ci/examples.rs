//! Runs every example of the workspace.

use std::fs;

use uroce_testbed::process::command;
use uroce_testbed::workspace;

use super::step::{Outcome, shown};

/// Folders of packages.
const PACKAGES: [&str; 2] = ["crates", "tools"];

/// Builds all examples at once, then runs each; the first that fails ends the step.
pub fn run() -> Outcome {
    let examples = list();
    if examples.is_empty() {
        return Outcome::Failed("there are no examples".to_owned());
    }
    let build = || Outcome::from(workspace::build_all());
    let mut outcomes = std::iter::once_with(build).chain(examples.iter().map(|name| run_one(name)));
    outcomes.find(|outcome| *outcome != Outcome::Passed).unwrap_or(Outcome::Passed)
}

/// Runs the built program: `cargo run` would choose features for one package only, and compile again.
fn run_one(name: &str) -> Outcome {
    println!("--- {name}");
    let program = workspace::build_folder().join("examples").join(name);
    shown(command([program]).current_dir(workspace::root()))
}

/// The names of all examples: files in `PACKAGE/examples`, as cargo finds them.
fn list() -> Vec<String> {
    let entries = |folder: std::path::PathBuf| {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let packages = PACKAGES.iter().flat_map(|folder| entries(workspace::root().join(folder)));
    let files = packages.flat_map(|package| entries(package.join("examples")));
    let is_source = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "rs");
    let mut names: Vec<String> = files
        .filter(is_source)
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_by_their_files() {
        let names = list();
        assert!(names.iter().any(|name| name == "rc_pingpong"), "{names:?}");
    }
}
