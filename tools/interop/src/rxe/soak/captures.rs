//! Captures of the steps that failed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Result};

use super::step::Step;

/// The folder that they are kept in.
#[derive(Debug, Clone)]
pub struct Captures(PathBuf);

impl Captures {
    /// Makes the folder, which our programs write to as `nobody`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(folder: &Path) -> Result<Self> {
        let what = || format!("could not make {} for captures", folder.display());
        fs::create_dir_all(folder).context(what)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).context(what)?;
        Ok(Self(folder.canonicalize().context(what)?))
    }

    /// The capture of a step.
    pub fn file(&self, step: &Step) -> PathBuf {
        self.0.join(format!("step-{}.pcapng", step.number))
    }

    /// The step went well: nobody will look at its capture.
    pub fn remove(&self, step: &Step) {
        drop(fs::remove_file(self.file(step)));
    }

    /// The step failed: its capture gets a name that no repetition of the step writes to.
    pub fn keep(&self, step: &Step) {
        let name = |count: u32| self.0.join(format!("step-{}-failed-{count}.pcapng", step.number));
        if let Some(free) = (1..).map(name).find(|file| !file.exists()) {
            drop(fs::rename(self.file(step), free));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_step_leaves_the_captures_of_its_failures_alone() {
        let folder = std::env::temp_dir().join(format!("uroce-captures-{}", std::process::id()));
        let captures = Captures::new(&folder).expect("a folder");
        let step = Step::number(7);
        let record = |text: &str| fs::write(captures.file(&step), text).expect("a file");
        record("first");
        captures.keep(&step);
        record("good");
        captures.remove(&step);
        record("second");
        captures.keep(&step);
        let kept = |name: &str| fs::read_to_string(folder.join(name)).expect("a capture");
        assert_eq!(kept("step-7-failed-1.pcapng"), "first");
        assert_eq!(kept("step-7-failed-2.pcapng"), "second");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
        fs::remove_dir_all(&folder).expect("it was made");
    }
}
