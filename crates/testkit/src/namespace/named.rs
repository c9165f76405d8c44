//! Network namespaces with names, in which a test starts programs.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

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

    /// The name of one of them.
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

    /// Runs `job` in a thread that is in one of them.
    pub fn run<T: Send + 'static>(
        &self,
        index: usize,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        inside(&self.names[index], job)
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

/// Runs `job` in a thread that is in the namespace with that name.
pub fn inside<T: Send + 'static>(namespace: &str, job: impl FnOnce() -> T + Send + 'static) -> T {
    let path = format!("/run/netns/{namespace}");
    let thread = std::thread::spawn(move || {
        let file = File::open(path).expect("namespace");
        let net = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(file.as_fd(), net).expect("setns");
        job()
    });
    thread.join().expect("job")
}
