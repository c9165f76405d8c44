//! The network namespace of one wire: a tap device per guest, our address, and programs run inside.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::addresses;
use crate::cleanup::{Guard, Leftover};
use crate::error::{Error, Result};
use crate::process::{AS_NOBODY, command, run, stdout_of};

/// The tap of the first guest; all traffic of the wire passes it.
pub const TAP: &str = "tap0";

/// The tap of a second guest.
pub const SECOND_TAP: &str = "tap1";

const PREFIX: &str = "uroce-rxe-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Who is at our end of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NearEnd {
    /// Programs in the namespace: the tap has our IPv4 address, and with `ipv6` our IPv6 address.
    Programs {
        /// Add the IPv6 address.
        ipv6: bool,
    },
    /// A second guest, over a bridge.
    Guest,
}

/// A network namespace with its tap devices, removed on drop together with every process in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    _guard: Guard,
}

impl Namespace {
    /// Makes a namespace of its own with the wire up at `mtu` bytes.
    ///
    /// # Errors
    /// Not root, or the kernel has no tap devices.
    pub fn create(mtu: u32, near: NearEnd) -> Result<Self> {
        if !crate::process::is_root() {
            return Err(Error::new("a network namespace needs root: run this with sudo"));
        }
        remove_orphans();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        run(&mut command(["ip", "netns", "add", &name]))?;
        let namespace = Self { _guard: Guard::new(Leftover::Namespace(name.clone())), name };
        namespace.ip("link set lo up")?;
        namespace.add_tap(TAP, mtu)?;
        match near {
            NearEnd::Programs { ipv6 } => namespace.add_addresses(ipv6)?,
            NearEnd::Guest => namespace.add_bridge(mtu)?,
        }
        Ok(namespace)
    }

    /// The namespace's name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs inside, as root.
    pub fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut inside = command(["ip", "netns", "exec", &self.name]);
        inside.args(words);
        inside
    }

    /// A command that runs inside as the user nobody, without any capability.
    pub fn command_as_nobody<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut inside = self.command(AS_NOBODY);
        inside.args(words);
        inside
    }

    /// True when some program in here waits for TCP connections at `port`.
    pub fn listens(&self, port: u16) -> bool {
        let tables = stdout_of(&mut self.command(&["cat", "/proc/net/tcp", "/proc/net/tcp6"]));
        tables.is_ok_and(|tables| has_listener(&tables, port))
    }

    fn add_tap(&self, tap: &str, mtu: u32) -> Result<()> {
        self.ip(&format!("tuntap add {tap} mode tap"))?;
        self.ip(&format!("link set {tap} mtu {mtu} up"))
    }

    fn add_addresses(&self, ipv6: bool) -> Result<()> {
        self.ip(&format!(
            "addr add {} dev {TAP}",
            addresses::with_prefix(addresses::HOST_V4.into())
        ))?;
        if ipv6 {
            let address = addresses::with_prefix(addresses::HOST_V6.into());
            self.ip(&format!("addr add {address} dev {TAP} nodad"))?;
        }
        Ok(())
    }

    fn add_bridge(&self, mtu: u32) -> Result<()> {
        self.add_tap(SECOND_TAP, mtu)?;
        self.ip("link add br0 type bridge")?;
        self.ip(&format!("link set br0 mtu {mtu} up"))?;
        [TAP, SECOND_TAP]
            .into_iter()
            .try_for_each(|tap| self.ip(&format!("link set {tap} master br0")))
    }

    fn ip(&self, words: &str) -> Result<()> {
        run(command(["ip", "-n", &self.name]).args(words.split_whitespace()))
    }
}

/// Looks for a socket in state LISTEN (0A) with local port `port` in the kernel's tables.
fn has_listener(tables: &str, port: u16) -> bool {
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

fn maker_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_this_program_have_a_maker() {
        assert_eq!(maker_of("uroce-rxe-123-0"), Some(123));
        assert_eq!(maker_of("lab"), None);
        assert_eq!(maker_of("uroce-rxe-mine"), None);
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
