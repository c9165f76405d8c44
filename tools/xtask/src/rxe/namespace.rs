//! The network namespace of one guest: one tap device, its addresses, and programs run inside.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::addresses;
use crate::cleanup::{Guard, Leftover};
use crate::error::{Error, Result};
use crate::process::{AS_NOBODY, command, run, stdout_of};

/// Name of the tap device in every namespace.
pub const TAP: &str = "tap0";

const PREFIX: &str = "uroce-rxe-";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A network namespace with a tap device, removed on drop together with every process in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    _guard: Guard,
}

impl Namespace {
    /// Makes a namespace of its own with the tap up at `mtu` bytes.
    ///
    /// # Errors
    /// Not root, or the kernel has no tap devices.
    pub fn create(mtu: u32, ipv6: bool) -> Result<Self> {
        if !crate::process::is_root() {
            return Err(Error::new("a network namespace needs root: run this with sudo"));
        }
        remove_orphans();
        let name =
            format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&mut command(["ip", "netns", "add", &name]))?;
        let namespace = Self { _guard: Guard::new(Leftover::Namespace(name.clone())), name };
        namespace.ip(&["link", "set", "lo", "up"])?;
        namespace.ip(&["tuntap", "add", TAP, "mode", "tap"])?;
        namespace.ip(&["link", "set", TAP, "mtu", &mtu.to_string(), "up"])?;
        namespace.ip(&[
            "addr",
            "add",
            &addresses::with_prefix(addresses::HOST_V4.into()),
            "dev",
            TAP,
        ])?;
        if ipv6 {
            let address = addresses::with_prefix(addresses::HOST_V6.into());
            namespace.ip(&["addr", "add", &address, "dev", TAP, "nodad"])?;
        }
        Ok(namespace)
    }

    /// The namespace's name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Our address in it, of the same family as `peer`.
    pub fn address_towards(&self, peer: IpAddr) -> IpAddr {
        if peer.is_ipv4() { addresses::HOST_V4.into() } else { addresses::HOST_V6.into() }
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

    fn ip(&self, words: &[&str]) -> Result<()> {
        run(command(["ip", "-n", &self.name]).args(words))
    }
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
}
