//! Runs every example of the workspace.

use serde::Deserialize;

use super::step::{Outcome, shown};
use crate::error::{Context, Result};
use crate::process::{command, stdout_of};
use crate::workspace;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds all examples at once, then runs each; the first that fails ends the step.
pub fn run() -> Outcome {
    let examples = match list() {
        Ok(examples) if examples.is_empty() => {
            return Outcome::Skipped("there are no examples".to_owned());
        }
        Ok(examples) => examples,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
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

fn list() -> Result<Vec<String>> {
    let text = stdout_of(&mut workspace::cargo(&[
        "metadata",
        "--no-deps",
        "--locked",
        "--format-version",
        "1",
    ]))?;
    let metadata: Metadata =
        serde_json::from_str(&text).context(|| "cargo metadata is not what it was")?;
    let targets = metadata.packages.into_iter().flat_map(|package| package.targets);
    let is_example = |target: &Target| target.kind.iter().any(|kind| kind == "example");
    Ok(targets.filter(is_example).map(|target| target.name).collect())
}
