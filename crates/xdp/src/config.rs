//! How to open an AF_XDP datapath.

use std::net::SocketAddr;

use crate::mode::XdpMode;

/// How to open an [`XdpDatapath`](crate::XdpDatapath). Start from [`XdpConfig::new`] and change what
/// differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpConfig {
    /// A unicast address of this host, and the RoCE port (4791; 0 lets the kernel choose one).
    pub local: SocketAddr,
    /// The interface that the packets pass; `None`: the one that has the address.
    ///
    /// Another one is useful for a VLAN: `Some("eth0")` with [`vlan`](Self::vlan) 100 instead of
    /// the interface `eth0.100`, which can only do [`XdpMode::Generic`].
    pub interface: Option<String>,
    /// VLAN id that every frame on the interface carries, in its bytes (so the interface must not
    /// strip tags: `ethtool -K eth0 rxvlan off`). `None`: frames have no tag, or the kernel adds and
    /// removes it because the interface is that of the VLAN.
    pub vlan: Option<u16>,
    /// How the kernel runs the program and where packets lie.
    pub mode: XdpMode,
    /// Receive calls work the driver's queue themselves for up to so many microseconds instead of
    /// waiting for interrupts. For drivers, not for veth, where it only costs.
    pub busy_poll: Option<u32>,
    /// Received chunks of 4 KiB for all queues together; each queue gets a power of two, at least
    /// 1024. A packet of path MTU 4096 takes two.
    pub receive_chunks: u32,
    /// Packets on their way out, a power of two.
    pub transmit_slots: u32,
    /// Packets between two flushes, 1 to half of [`transmit_slots`](Self::transmit_slots).
    pub batch: usize,
}

impl XdpConfig {
    /// The interface of the address, the fastest mode of its driver, interrupts, 8 MiB to receive
    /// into, 256 packets on their way out, 64 at a time.
    #[must_use]
    pub fn new(local: SocketAddr) -> Self {
        Self {
            local,
            interface: None,
            vlan: None,
            mode: XdpMode::Auto,
            busy_poll: None,
            receive_chunks: 2048,
            transmit_slots: 256,
            batch: 64,
        }
    }
}
