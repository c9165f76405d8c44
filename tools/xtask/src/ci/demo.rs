//! Runs `uroce demo` the way a user without privileges would.

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::command;
use uroce_testbed::workspace;

use super::step::{Outcome, as_nobody, shown};

/// Builds the program and runs its demo as the user nobody (or as the present user when that is not root).
pub fn run() -> Outcome {
    match prepare() {
        Ok((program, _folder)) => {
            let mut words: Vec<String> =
                as_nobody().iter().map(|word| (*word).to_owned()).collect();
            words.extend([program, "demo".to_owned()]);
            shown(command(words).env("HOME", "/nonexistent"))
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Copies the program to a folder that all users may read: the build folder may lie in a private home.
fn prepare() -> Result<(String, Guard)> {
    let folder = std::env::temp_dir().join(format!("uroce-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    let guard = Guard::new(Leftover::Folder(folder.clone()));
    let program = workspace::install_uroce(&folder)?;
    Ok((program.display().to_string(), guard))
}
