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
}
