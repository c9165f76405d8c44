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

    /// Name of the folder for its results, from that of its processor: `intel-xeon-2-50ghz`.
    pub fn folder(&self) -> String {
        let name = self.processor.to_lowercase();
        let words = name.split(|c: char| !c.is_ascii_alphanumeric());
        let filler = ["", "r", "tm", "processor", "cpu"];
        words.filter(|word| !filler.contains(word)).collect::<Vec<_>>().join("-")
    }

    /// Whether figures of both can be compared: the same processors and kernel. Builds of one kernel differ in what a system call costs.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.processor, self.processors, &self.kernel)
            == (&other.processor, other.processors, &other.kernel)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kernel_makes_another_machine() {
        let here = Machine::here();
        let later = Machine { commit: "later".into(), ..here.clone() };
        let updated = Machine { kernel: "updated".into(), ..here.clone() };
        assert!(here.is_same(&later) && !here.is_same(&updated));
    }

    #[test]
    fn a_folder_is_named_like_the_processor() {
        let named = |processor: &str| {
            let (kernel, commit) = (String::new(), String::new());
            Machine { kernel, processor: processor.to_owned(), processors: 2, commit }.folder()
        };
        assert_eq!(named("AMD EPYC"), "amd-epyc");
        assert_eq!(named("Intel(R) Xeon(R) Processor @ 2.50GHz"), "intel-xeon-2-50ghz");
        assert_eq!(named("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz"), "intel-core-i7-8700-3-20ghz");
    }
}
