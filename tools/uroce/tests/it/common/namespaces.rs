//! Network namespaces of a test.

use std::process::Command;

/// Namespaces with their loopback interfaces up, removed at the end.
pub struct Namespaces {
    names: Vec<String>,
}

impl Namespaces {
    /// One for each of `parts`; `tag` tells tests apart that run at the same time. `None`, with a word about it,
    /// where that is not permitted.
    pub fn new(parts: &[&str], tag: &str) -> Option<Self> {
        let name = |part: &&str| format!("uroce-{part}-{tag}-{}", std::process::id());
        let made = Self { names: parts.iter().map(name).collect() };
        for name in &made.names {
            if !succeeds(&format!("netns add {name}")) {
                assert!(std::env::var_os("CI").is_none(), "needs root and iproute2");
                println!("skipped: needs root and iproute2, to make network namespaces");
                return None;
            }
            ip(&format!("-n {name} link set lo up"));
        }
        Some(made)
    }

    pub fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// `ip` on one of them.
    pub fn ip(&self, index: usize, words: &str) {
        ip(&format!("-n {} {words}", self.names[index]));
    }

    /// A command that runs in one of them.
    pub fn command(&self, index: usize, program: &str) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.names[index], program]);
        inside
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            succeeds(&format!("netns delete {name}"));
        }
    }
}

/// `ip` must succeed.
pub fn ip(words: &str) {
    assert!(succeeds(words), "ip {words}");
}

fn succeeds(words: &str) -> bool {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}
