//! What the figures belong to: machine, kernel, commit.

use std::fs;

use serde::{Deserialize, Serialize};
use uroce_testbed::process::stdout_of;
use uroce_testbed::workspace;

/// A description for those who compare figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Name of the processor.
    pub processor: String,
    /// How many of them.
    pub processors: usize,
    /// Commit of this repository; with `+` when files were changed.
    pub commit: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        Self {
            kernel: first_line("/proc/sys/kernel/osrelease"),
            processor: processor(),
            processors: std::thread::available_parallelism().map_or(1, Into::into),
            commit: commit(),
        }
    }

    /// Whether figures of both can be compared: the same processors.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.processor, self.processors) == (&other.processor, other.processors)
    }
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or("unknown").to_owned()
}

fn commit() -> String {
    let git = |words: &[&str]| {
        let mut git = uroce_testbed::process::command(["git", "-C"]);
        stdout_of(git.arg(workspace::root()).args(words)).unwrap_or_default()
    };
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"]).trim().is_empty();
    let name = git(&["rev-parse", "--short=10", "HEAD"]);
    match name.trim() {
        "" => "unknown".to_owned(),
        name => format!("{name}{}", if changed { "+" } else { "" }),
    }
}
