//! The network namespace of one wire: a tap device per guest, our address, and programs run inside.
//!
//! The taps are ports of a bridge, unless something else is to join them. Our own end is a veth, as in a container: AF_XDP works on it, and
//! since the bridge passes on whole frames, tcpdump sees on the tap what AF_XDP hides on the veth.

use std::ffi::OsStr;
use std::process::Command;

use uroce_testbed::error::Result;
use uroce_testbed::netns::NetNs;

use crate::addresses;

/// The tap of the first guest; all traffic of the wire passes it.
pub const TAP: &str = "tap0";

/// The tap of a second guest.
pub const SECOND_TAP: &str = "tap1";

/// The interface that has our addresses.
pub const VETH: &str = "near0";

/// Its other end, a port of the bridge.
const VETH_PORT: &str = "near1";

/// What joins them all.
const BRIDGE: &str = "br0";

/// Who is at our end of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NearEnd {
    /// Programs in the namespace: a veth has our IPv4 address, and with `ipv6` our IPv6 address.
    Programs {
        /// Add the IPv6 address.
        ipv6: bool,
    },
    /// A second guest.
    Guest,
    /// A second guest, and no bridge: a program in the namespace carries frames from tap to tap.
    GuestBehindProxy,
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
        if near == NearEnd::GuestBehindProxy {
            namespace.add_lone_tap(TAP, mtu)?;
            namespace.add_lone_tap(SECOND_TAP, mtu)?;
            return Ok(namespace);
        }
        namespace.0.ip(&format!("link add {BRIDGE} mtu {mtu} type bridge"))?;
        // Else the bridge, too, answers for our address, and a guest's rdma_cm gives its connections up when the Ethernet
        // address of a peer changes.
        namespace.0.ip(&format!("link set {BRIDGE} arp off up"))?;
        namespace.add_tap(TAP, mtu)?;
        match near {
            NearEnd::Programs { ipv6 } => namespace.add_veth(mtu, ipv6)?,
            NearEnd::Guest | NearEnd::GuestBehindProxy => namespace.add_tap(SECOND_TAP, mtu)?,
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

    /// A command that runs inside as the user nobody, with `capabilities` only.
    pub fn command_as_nobody<S: AsRef<OsStr>>(
        &self,
        capabilities: &[&str],
        words: &[S],
    ) -> Command {
        self.0.command_as_nobody(capabilities, words)
    }

    /// True when some program in here waits for TCP connections at `port`.
    pub fn listens(&self, port: u16) -> bool {
        self.0.listens(port)
    }

    /// A tap that is no port of the bridge. The host itself says nothing there.
    fn add_lone_tap(&self, tap: &str, mtu: u32) -> Result<()> {
        self.0.ip(&format!("tuntap add {tap} mode tap"))?;
        self.0.ip(&format!("link set {tap} mtu {mtu} addrgenmode none up"))
    }

    fn add_tap(&self, tap: &str, mtu: u32) -> Result<()> {
        self.0.ip(&format!("tuntap add {tap} mode tap"))?;
        self.add_port(tap, mtu)
    }

    fn add_port(&self, interface: &str, mtu: u32) -> Result<()> {
        self.0.ip(&format!("link set {interface} mtu {mtu} master {BRIDGE} up"))
    }

    fn add_veth(&self, mtu: u32, ipv6: bool) -> Result<()> {
        self.0.ip(&format!("link add {VETH} mtu {mtu} type veth peer name {VETH_PORT}"))?;
        self.add_port(VETH_PORT, mtu)?;
        self.0.ip(&format!("link set {VETH} up"))?;
        let ours = addresses::with_prefix(addresses::HOST_V4.into());
        self.0.ip(&format!("addr add {ours} dev {VETH}"))?;
        if ipv6 {
            let ours = addresses::with_prefix(addresses::HOST_V6.into());
            self.0.ip(&format!("addr add {ours} dev {VETH} nodad"))?;
        }
        Ok(())
    }
}
