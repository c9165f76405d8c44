//! Why a device could not be opened.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use thiserror::Error;
use uroce_datapath::{AttachError, PcapError};
use uroce_host::BindError;
use uroce_packet::PacketError;
use uroce_service::AttachRefused;
use uroce_udp::UringError;
use uroce_xdp::XdpError;

use super::{io_errno, raw};
use crate::limits::MAX_ENGINES;

/// Why `address` is none that a device can have.
fn not_local(address: IpAddr) -> String {
    let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if link_local {
        return format!(
            "{address} is a link-local address, and a GID cannot name the link that it is of: \
             use another address of the interface, such as one of fd00::/8"
        );
    }
    if address.is_loopback() {
        return format!(
            "the loopback interface, which has {address}, is down or without an address: set it up with `ip link set lo up`"
        );
    }
    match std::fs::File::open("/proc/self/net/if_inet6") {
        Err(error) if error.raw_os_error() == Some(raw(Errno::MFILE)) => {
            "the network interfaces of this machine cannot be seen, since the process has as many open files as it \
             may: raise the limit with `ulimit -n`"
                .to_owned()
        }
        _ => format!(
            "no network interface of this machine has the address {address}: \
             pick one that `uroce devices` shows, or any 127.x.y.z"
        ),
    }
}

/// Why no interface is seen.
fn hidden(source: &io::Error) -> String {
    format!(
        "the network interfaces of this machine cannot be seen ({source}): a sandbox forbids AF_NETLINK sockets; allow them in \
         the seccomp or AppArmor profile, or with `RestrictAddressFamilies=` of systemd"
    )
}

/// Why a device could not be opened. The text (`Display`, and `Debug`) says what to do.
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address is a multicast, broadcast or unspecified one: give the address of a network interface.
    #[error("{0} is not the address of one host: give the address of a network interface")]
    NotUnicast(IpAddr),
    /// No network interface of this machine has the address; `device_list` shows those there are, and any of
    /// 127.0.0.0/8 can be opened.
    #[error("{}", not_local(*.0))]
    NotLocal(IpAddr),
    /// The system does not show its network interfaces.
    #[error("{}", hidden(.0))]
    InterfacesHidden(io::Error),
    /// The smallest path MTU of IBTA, 256 bytes, does not fit the MTU of the interface: raise it.
    #[error(
        "the MTU of {netdev} is {mtu} bytes, but RoCE needs at least 336: \
         raise it with `ip link set {netdev} mtu 1500`"
    )]
    LinkTooSmall {
        /// The interface.
        netdev: String,
        /// Its MTU.
        mtu: usize,
    },
    /// Faults on a switch in the process whose packets carry no ICRC: damage would not be noticed.
    #[error(
        "faults need packets with an ICRC: make the switch in the process with `LoopbackFabric::new()`"
    )]
    FaultsWithoutIcrc,
    /// The UDP sockets could not be opened; another program may have the port.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The io_uring or its sockets could not be opened.
    #[error(transparent)]
    Uring(#[from] UringError),
    /// The AF_PACKET sockets could not be opened.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The AF_XDP sockets could not be opened, or the XDP hook of the interface is taken.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// No service gave the process a share of the address.
    #[error(transparent)]
    Served(#[from] AttachRefused),
    /// A service cannot share this datapath.
    #[error("a service cannot share the datapath {0}: choose udp, uring, packet or xdp")]
    NotForService(&'static str),
    /// The in-process switch refused the address.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The capture file could not be written.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// The process ran out of descriptors or threads.
    #[error(
        "the system gave no {what}: {source} (raise the limits with `ulimit -n` and `ulimit -u`)"
    )]
    Resources {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// More engines than a device may have.
    #[error("{0} engines are too many for one device: ask for 1 to {MAX_ENGINES}")]
    TooManyEngines(u8),
    /// Several engines on port 0: they find each other by the port, so it must be a fixed one.
    #[error("several engines need a port that is known before they are opened: give one, not 0")]
    EnginesWithoutPort,
    /// Several engines on a datapath that carries the packets of one engine only.
    #[error(
        "the datapath {0} carries the packets of one engine only: \
         use `udp`, `uring`, `packet` or `xdp` for several, or open the device with one"
    )]
    OneEngineOnly(&'static str),
    /// The operating system gave no random numbers, without which keys would be predictable.
    #[error("the system gave no random numbers: {0} (is getrandom(2) blocked by a sandbox?)")]
    Random(getrandom::Error),
}

impl OpenError {
    /// The `errno` for the C interface.
    pub fn errno(&self) -> i32 {
        match self {
            OpenError::NotUnicast(_) => raw(Errno::INVAL),
            OpenError::NotLocal(_) => raw(Errno::ADDRNOTAVAIL),
            OpenError::LinkTooSmall { .. } => raw(Errno::MSGSIZE),
            OpenError::TooManyEngines(_)
            | OpenError::EnginesWithoutPort
            | OpenError::FaultsWithoutIcrc => raw(Errno::INVAL),
            OpenError::Served(refused) => refused.raw_os_error().unwrap_or(raw(Errno::ACCESS)),
            OpenError::NotForService(_) => raw(Errno::OPNOTSUPP),
            OpenError::OneEngineOnly(_) => raw(Errno::OPNOTSUPP),
            OpenError::InterfacesHidden(source) => io_errno(source),
            OpenError::Bind(error) => error.errno(),
            OpenError::Attach(_) => raw(Errno::ADDRINUSE),
            OpenError::Packet(PacketError::NotPermitted) => raw(Errno::PERM),
            OpenError::Packet(PacketError::NotEthernet(_)) => raw(Errno::OPNOTSUPP),
            OpenError::Packet(_) => raw(Errno::ADDRINUSE),
            OpenError::Uring(error) => error.raw_os_error().unwrap_or(raw(Errno::ADDRINUSE)),
            OpenError::Xdp(error) => error.errno(),
            OpenError::Pcap(_) | OpenError::Random(_) => raw(Errno::IO),
            OpenError::Resources { source, .. } => io_errno(source),
        }
    }
}
