//! Runs every example of the workspace.

use serde::Deserialize;

use super::step::{Outcome, shown};
use crate::error::{Context, Result};
use crate::process::stdout_of;
use crate::workspace;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
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
    let build =
        shown(&mut workspace::cargo_build(&["build", "--workspace", "--examples", "--quiet"]));
    let run_one = |(package, example): &(String, String)| {
        println!("--- {package}: {example}");
        shown(&mut workspace::cargo_build(&["run", "--quiet", "-p", package, "--example", example]))
    };
    let outcomes = std::iter::once(build).chain(examples.iter().map(run_one));
    outcomes.into_iter().find(|outcome| *outcome != Outcome::Passed).unwrap_or(Outcome::Passed)
}

fn list() -> Result<Vec<(String, String)>> {
    let text = stdout_of(&mut workspace::cargo(&[
        "metadata",
        "--no-deps",
        "--locked",
        "--format-version",
        "1",
    ]))?;
    let metadata: Metadata =
        serde_json::from_str(&text).context(|| "cargo metadata is not what it was")?;
    let of_package = |package: Package| {
        let is_example = |target: &Target| target.kind.iter().any(|kind| kind == "example");
        let names: Vec<_> = package
            .targets
            .iter()
            .filter(|target| is_example(target))
            .map(|target| target.name.clone())
            .collect();
        names.into_iter().map(move |name| (package.name.clone(), name))
    };
    Ok(metadata.packages.into_iter().flat_map(of_package).collect())
}
