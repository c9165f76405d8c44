//! Network namespaces of this program: made under its own names, removed with every process inside.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cleanup::{Guard, Leftover};
use crate::error::{Error, Result};
use crate::process::{as_nobody_with, command, is_root, run, stdout_of};

const PREFIX: &str = "uroce-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A network namespace, removed on drop, ctrl-c and panic together with every process in it.
#[derive(Debug)]
pub struct NetNs {
    name: String,
    _guard: Guard,
}

impl NetNs {
    /// Makes one whose name starts with `uroce-PURPOSE-`, with its loopback interface up.
    ///
    /// # Errors
    /// Not root.
    pub fn create(purpose: &str) -> Result<Self> {
        if !is_root() {
            return Err(Error::new("a network namespace needs root: run this with sudo"));
        }
        remove_orphans();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{purpose}-{}-{number}", std::process::id());
        run(&mut command(["ip", "netns", "add", &name]))?;
        let namespace = Self { _guard: Guard::new(Leftover::Namespace(name.clone())), name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs inside, as root.
    pub fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut inside = command(["ip", "netns", "exec", &self.name]);
        inside.args(words);
        inside
    }

    /// A command that runs inside as the user nobody, with `capabilities` (such as `net_raw`) only.
    pub fn command_as_nobody<S: AsRef<OsStr>>(
        &self,
        capabilities: &[&str],
        words: &[S],
    ) -> Command {
        let mut inside = self.command(&as_nobody_with(capabilities));
        inside.args(words);
        inside
    }

    /// Runs `ip` with `words` on this namespace.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn ip(&self, words: &str) -> Result<()> {
        run(command(["ip", "-n", &self.name]).args(words.split_whitespace()))
    }

    /// Runs `tc` with `words` on this namespace.
    ///
    /// # Errors
    /// What `tc` says.
    pub fn tc(&self, words: &[&str]) -> Result<()> {
        run(command(["tc", "-n", &self.name]).args(words))
    }

    /// True when some program in here waits for TCP connections at `port`.
    pub fn listens(&self, port: u16) -> bool {
        let tables = stdout_of(&mut self.command(&["cat", "/proc/net/tcp", "/proc/net/tcp6"]));
        tables.is_ok_and(|tables| has_listener(&tables, port))
    }
}

/// Looks for a socket in state LISTEN (0A) with local port `port` in the kernel's tables.
pub fn has_listener(tables: &str, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    tables.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&wanted)) && words.nth(1) == Some("0A")
    })
}

/// Removes namespaces whose maker was killed before it could clean up.
fn remove_orphans() {
    let listing = stdout_of(&mut command(["ip", "netns", "list"])).unwrap_or_default();
    for name in listing.lines().filter_map(|line| line.split_whitespace().next()) {
        if let Some(maker) = maker_of(name)
            && !std::path::Path::new(&format!("/proc/{maker}")).exists()
        {
            drop(Guard::new(Leftover::Namespace(name.to_owned())));
        }
    }
}

/// The process that made the namespace `name`: `uroce-PURPOSE-PROCESS-NUMBER`.
fn maker_of(name: &str) -> Option<u32> {
    let mut words = name.strip_prefix(PREFIX)?.split('-').skip(1);
    let maker = words.next()?.parse().ok()?;
    words.next()?.parse::<u32>().ok()?;
    Some(maker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_this_program_have_a_maker() {
        assert_eq!(maker_of("uroce-rxe-123-0"), Some(123));
        assert_eq!(maker_of("uroce-bench-7-12"), Some(7));
        assert_eq!(maker_of("lab"), None);
        assert_eq!(maker_of("uroce-rxe-mine"), None);
        assert_eq!(maker_of("uroce-rxe-123"), None);
    }

    #[test]
    fn only_a_listening_socket_of_that_port_counts() {
        let tables = "  sl  local_address rem_address   st\n\
                      0: 00000000:4853 00000000:0000 0A 0:0\n\
                      1: 0100007F:4854 00000000:4853 01 0:0\n";
        assert!(has_listener(tables, 0x4853));
        assert!(!has_listener(tables, 0x4854) && !has_listener(tables, 0x4855));
    }
}
