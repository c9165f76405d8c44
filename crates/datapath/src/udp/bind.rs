//! Opening sockets, and why that can fail.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use libc::c_int;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::control::DEFAULT_HOP_LIMIT;
use crate::sys::interface::{self, Owner};
use crate::sys::option;

/// Why a UDP datapath could not be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Somebody else has the port.
    #[error(
        "UDP port {} of {} is taken: another uroce process or the kernel's rdma_rxe has it; stop \
         that process, choose another --address, or unload the module with `rmmod rdma_rxe`",
        .0.port(), .0.ip()
    )]
    PortBusy(SocketAddr),
    /// The address is not one of this host.
    #[error("{} is not an address of this host: choose one of {here} with --address", .local.ip())]
    NotLocal {
        /// The address asked for.
        local: SocketAddr,
        /// The addresses that could be used, separated by commas.
        here: String,
    },
    /// `0.0.0.0`, `::`, or a multicast address.
    #[error(
        "{0} does not name one interface: choose one unicast address of this host with --address"
    )]
    NotUnicast(IpAddr),
    /// The kernel forbids it.
    #[error(
        "the kernel does not let this user bind UDP port {} of {}: ports below 1024 need \
         CAP_NET_BIND_SERVICE, and a container may forbid sockets; use port 4791 or allow it",
        .0.port(), .0.ip()
    )]
    Permission(SocketAddr),
    /// The IP version is switched off.
    #[error("this kernel has no {0}: use an address of the other IP version with --address")]
    NoIpVersion(&'static str),
    /// The process has too many files open.
    #[error("this process has no free file descriptor: raise the limit with `ulimit -n`")]
    Descriptors,
    /// Anything else.
    #[error("{what} failed for {local}: {source}; this kernel may be too old or restricted")]
    System {
        /// What was tried.
        what: &'static str,
        /// The address asked for.
        local: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl BindError {
    /// The sentence for a kernel's answer.
    pub(super) fn explain(what: &'static str, local: SocketAddr, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::ADDRINUSE) => Self::PortBusy(local),
            Some(Errno::ADDRNOTAVAIL) => Self::NotLocal { local, here: here(&local) },
            Some(Errno::ACCESS | Errno::PERM) => Self::Permission(local),
            Some(Errno::MFILE | Errno::NFILE) => Self::Descriptors,
            Some(Errno::AFNOSUPPORT) if local.is_ipv4() => Self::NoIpVersion("IPv4"),
            Some(Errno::AFNOSUPPORT) => Self::NoIpVersion("IPv6"),
            _ => Self::System { what, local, source },
        }
    }
}

/// The usable addresses of the same IP version, as a list for a person.
fn here(local: &SocketAddr) -> String {
    let owners = interface::addresses().unwrap_or_default();
    let same = owners.iter().filter(|owner| owner.address.is_ipv4() == local.is_ipv4());
    let texts: Vec<String> =
        same.map(|owner| format!("{} ({})", owner.address, owner.interface)).collect();
    if texts.is_empty() { "none (no interface is up)".to_owned() } else { texts.join(", ") }
}

/// The interface that a local address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// The kernel's number of the interface; 0 when unknown.
    pub(super) index: u32,
    /// In bytes.
    pub(super) mtu: usize,
}

impl Link {
    /// What is assumed of an interface that cannot be found.
    const UNKNOWN: Self = Self { index: 0, mtu: 1500 };

    /// The link of `address`; any socket serves to ask.
    pub(super) fn of(address: IpAddr, socket: &Socket) -> Self {
        let owners = interface::addresses().unwrap_or_default();
        let exact = owners.iter().find(|owner| owner.address == address);
        let near = || owners.iter().find(|owner| covers(owner, address));
        let Some(owner) = exact.or_else(near) else {
            return Self::UNKNOWN;
        };
        let name = owner.interface.as_str();
        let index = rustix::net::netdevice::name_to_index(socket, name).unwrap_or(0);
        Self { index, mtu: interface::mtu(socket, name).unwrap_or(Self::UNKNOWN.mtu) }
    }
}

/// Whether `address` is local without being listed: all of 127.0.0.0/8 belongs to `lo`.
fn covers(owner: &Owner, address: IpAddr) -> bool {
    let (IpAddr::V4(own), Some(IpAddr::V4(mask)), IpAddr::V4(address)) =
        (owner.address, owner.mask, address)
    else {
        return false;
    };
    let net = |ip: Ipv4Addr| ip.to_bits() & mask.to_bits();
    owner.loopback && net(own) == net(address)
}

/// Refuses addresses that do not name one interface.
pub(super) fn check_local(local: &SocketAddr) -> Result<(), BindError> {
    let ip = local.ip();
    if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(BindError::NotUnicast(ip));
    }
    Ok(())
}

/// The address with the scope that a link-local IPv6 address needs.
pub(super) fn scoped(addr: SocketAddr, index: u32) -> SocketAddr {
    match addr {
        SocketAddr::V6(mut v6) if v6.scope_id() == 0 && needs_scope(&v6) => {
            v6.set_scope_id(index);
            v6.into()
        }
        other => other,
    }
}

/// Whether the address means something only together with an interface.
fn needs_scope(addr: &SocketAddrV6) -> bool {
    let [first, second, ..] = addr.ip().octets();
    addr.ip().is_unicast_link_local() || (first == 0xff && matches!(second & 0x0f, 1 | 2))
}

/// A UDP socket for the IP version of `local`, set up for sending, not yet bound.
///
/// Unconnected and with path MTU discovery on, so that the IPv4 identification is 0 (checked by
/// `tests/udp_wire.rs`); with UDP checksum 0, as RoCEv2 hardware sends.
pub(super) fn open(local: &SocketAddr) -> io::Result<Socket> {
    let kind = Type::DGRAM.cloexec().nonblocking();
    let socket = Socket::new(Domain::for_address(*local), kind, Some(Protocol::UDP))?;
    let (must, may) = if local.is_ipv4() { (MUST_V4, MAY_V4) } else { (MUST_V6, MAY_V6) };
    for &(level, name, value) in must {
        option::set(&socket, level, name, value)?;
    }
    for &(level, name, value) in may {
        if let Err(error) = option::set(&socket, level, name, value) {
            tracing::debug!(level, name, value, %error, "socket option not available");
        }
    }
    Ok(socket)
}

/// Asks for the header fields of every received packet.
pub(super) fn show_headers(socket: &Socket, local: &SocketAddr) -> io::Result<()> {
    let options = if local.is_ipv4() { SHOW_V4 } else { SHOW_V6 };
    options.iter().try_for_each(|&(level, name)| option::set(socket, level, name, 1))
}

/// Sends multicast through the interface of `local`; a link without multicast only loses multicast.
pub(super) fn aim_multicast(socket: &Socket, local: &SocketAddr, link: Link) {
    let result = match local {
        SocketAddr::V4(v4) => socket.set_multicast_if_v4(v4.ip()),
        SocketAddr::V6(_) => socket.set_multicast_if_v6(link.index),
    };
    if let Err(error) = result {
        tracing::debug!(%local, %error, "multicast will not be sent");
    }
}

/// Asks for a large buffer, past the system's limit where that is permitted; returns what was
/// granted (the kernel reserves twice that, for its own bookkeeping).
pub(super) fn enlarge(socket: &Socket, buffer: Buffer, bytes: usize) -> usize {
    let wanted = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    let (force, plain) = match buffer {
        Buffer::Receive => (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        Buffer::Send => (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    };
    let forced = option::set(socket, libc::SOL_SOCKET, force, wanted);
    if let Err(error) = forced.or_else(|_| option::set(socket, libc::SOL_SOCKET, plain, wanted)) {
        tracing::debug!(wanted, %error, "socket buffer stays as it is");
    }
    let granted = match buffer {
        Buffer::Receive => socket.recv_buffer_size(),
        Buffer::Send => socket.send_buffer_size(),
    };
    granted.unwrap_or(0) / 2
}

/// The two buffers of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffer {
    Receive,
    Send,
}

/// Options without which the packets would be wrong: level, name, value.
const MUST_V4: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
    (libc::IPPROTO_IP, libc::IP_TTL, DEFAULT_HOP_LIMIT as c_int),
];

/// Options that improve matters where the kernel has them.
const MAY_V4: &[(c_int, c_int, c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_NO_CHECK, 1),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, DEFAULT_HOP_LIMIT as c_int),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0),
];

/// As [`MUST_V4`].
const MUST_V6: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, DEFAULT_HOP_LIMIT as c_int),
];

/// As [`MAY_V4`]; without the last two the kernel drops packets with UDP checksum 0 and cannot
/// send them.
const MAY_V6: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, DEFAULT_HOP_LIMIT as c_int),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL, 0),
    (libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_TX, 1),
    (libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, 1),
];

/// Options that make a header field visible.
const SHOW_V4: &[(c_int, c_int)] = &[
    (libc::IPPROTO_IP, libc::IP_PKTINFO),
    (libc::IPPROTO_IP, libc::IP_RECVTOS),
    (libc::IPPROTO_IP, libc::IP_RECVTTL),
];

/// As [`SHOW_V4`].
const SHOW_V6: &[(c_int, c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
];
