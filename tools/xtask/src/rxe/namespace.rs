//! The network namespace of one wire: a tap device per guest, our address, and programs run inside.

use std::ffi::OsStr;
use std::process::Command;

use super::addresses;
use crate::error::Result;
use crate::netns::NetNs;

/// The tap of the first guest; all traffic of the wire passes it.
pub const TAP: &str = "tap0";

/// The tap of a second guest.
pub const SECOND_TAP: &str = "tap1";

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
pub struct Namespace(NetNs);

impl Namespace {
    /// Makes a namespace of its own with the wire up at `mtu` bytes.
    ///
    /// # Errors
    /// Not root, or the kernel has no tap devices.
    pub fn create(mtu: u32, near: NearEnd) -> Result<Self> {
        let namespace = Self(NetNs::create("rxe")?);
        namespace.add_tap(TAP, mtu)?;
        match near {
            NearEnd::Programs { ipv6 } => namespace.add_addresses(ipv6)?,
            NearEnd::Guest => namespace.add_bridge(mtu)?,
        }
        Ok(namespace)
    }

    /// The namespace's name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// A command that runs inside, as root.
    pub fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.0.command(words)
    }

    /// A command that runs inside as the user nobody, without any capability.
    pub fn command_as_nobody<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.0.command_as_nobody(words)
    }

    /// True when some program in here waits for TCP connections at `port`.
    pub fn listens(&self, port: u16) -> bool {
        self.0.listens(port)
    }

    fn add_tap(&self, tap: &str, mtu: u32) -> Result<()> {
        self.0.ip(&format!("tuntap add {tap} mode tap"))?;
        self.0.ip(&format!("link set {tap} mtu {mtu} up"))
    }

    fn add_addresses(&self, ipv6: bool) -> Result<()> {
        let ours = addresses::with_prefix(addresses::HOST_V4.into());
        self.0.ip(&format!("addr add {ours} dev {TAP}"))?;
        if ipv6 {
            let ours = addresses::with_prefix(addresses::HOST_V6.into());
            self.0.ip(&format!("addr add {ours} dev {TAP} nodad"))?;
        }
        Ok(())
    }

    fn add_bridge(&self, mtu: u32) -> Result<()> {
        self.add_tap(SECOND_TAP, mtu)?;
        self.0.ip("link add br0 type bridge")?;
        self.0.ip(&format!("link set br0 mtu {mtu} up"))?;
        [TAP, SECOND_TAP]
            .into_iter()
            .try_for_each(|tap| self.0.ip(&format!("link set {tap} master br0")))
    }
}
