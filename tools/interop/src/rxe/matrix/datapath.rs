//! By which datapath our programs reach the wire, and what they must be allowed for it.

use clap::ValueEnum;
use serde::Serialize;

/// What `uroce --datapath` is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// UDP sockets.
    Udp,
    /// UDP sockets by io_uring.
    Uring,
    /// AF_PACKET sockets.
    Packet,
    /// AF_XDP, in generic mode on the veth.
    Xdp,
    /// AF_XDP in the veth's driver.
    #[serde(rename = "xdp-native")]
    XdpNative,
}

impl Datapath {
    /// Its name, as `uroce --datapath` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Uring => "uring",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
            Self::XdpNative => "xdp-native",
        }
    }

    /// The capabilities that it needs, as capabilities(7) names them in small letters; the user is nobody all the same.
    pub fn capabilities(self) -> &'static [&'static str] {
        match self {
            Self::Udp | Self::Uring => &[],
            Self::Packet => &["net_raw"],
            // The last one because the memory that this user may lock is not enough for the packets.
            Self::Xdp | Self::XdpNative => &["net_raw", "net_admin", "bpf", "ipc_lock"],
        }
    }
}
