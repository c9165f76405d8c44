//! Sockets as RoCEv2 needs them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use libc::c_int;
use rustix::io::Errno;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use uroce_host::fork::keep_from_children;
use uroce_host::interface::{Link, scoped};
use uroce_host::{Buffer, enlarge, option};

use crate::sys::udp::DEFAULT_HOP_LIMIT;

/// A UDP socket for the IP version of `local`, set up for sending, not yet bound.
///
/// With don't-fragment set, so that the IPv4 identification is the index of the packet in its GSO batch as long as the socket is
/// not connected (checked by `tests/it/udp_wire.rs`). Without `offload` the UDP checksum is
/// 0, as RoCEv2 hardware sends; the kernel's segmentation insists on a checksum.
pub(crate) fn open(local: &SocketAddr, offload: bool) -> io::Result<Socket> {
    let kind = Type::DGRAM.cloexec().nonblocking();
    let socket = Socket::new(Domain::for_address(*local), kind, Some(Protocol::UDP))?;
    keep_from_children(&socket);
    let (must, may, unchecked) = match local.is_ipv4() {
        true => (MUST_V4, MAY_V4, UNCHECKED_V4),
        false => (MUST_V6, MAY_V6, UNCHECKED_V6),
    };
    for &(level, name, value) in must {
        option::set(&socket, level, name, value)?;
    }
    let unchecked = if offload { &[] } else { unchecked };
    for &(level, name, value) in may.iter().chain(unchecked) {
        if let Err(error) = option::set(&socket, level, name, value) {
            tracing::debug!(level, name, value, %error, "socket option not available");
        }
    }
    Ok(socket)
}

/// Asks for the header fields of every received packet.
pub(crate) fn show_headers(socket: &Socket, local: &SocketAddr) -> io::Result<()> {
    let options = if local.is_ipv4() { SHOW_V4 } else { SHOW_V6 };
    options.iter().try_for_each(|&(level, name)| option::set(socket, level, name, 1))
}

/// Whether this kernel cuts a large send into packets (UDP_SEGMENT, Linux 4.18).
pub(crate) fn can_segment(socket: &Socket) -> bool {
    option::set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// Lets packets that follow each other arrive as one (UDP_GRO, Linux 5.0); true if the kernel can.
pub(crate) fn merge_received(socket: &Socket) -> bool {
    option::set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok()
}

/// Sends multicast through the interface of `local`; a link without multicast only loses multicast.
pub(crate) fn aim_multicast(socket: &Socket, local: &SocketAddr, link: Link) {
    let result = match local {
        SocketAddr::V4(v4) => socket.set_multicast_if_v4(v4.ip()),
        SocketAddr::V6(_) => socket.set_multicast_if_v6(link.index),
    };
    if let Err(error) = result {
        tracing::debug!(%local, %error, "multicast will not be sent");
    }
}

/// A receive socket for the multicast group `group`, which it joins on the interface of `local`: a
/// socket bound to a unicast address hears none.
pub(crate) fn open_group(
    local: &SocketAddr,
    link: Link,
    group: IpAddr,
    recv_buffer: usize,
    offload: bool,
) -> io::Result<Socket> {
    let socket = open(local, offload)?;
    show_headers(&socket, local)?;
    enlarge(&socket, Buffer::Receive, recv_buffer);
    if offload {
        merge_received(&socket);
    }
    // Other devices of this host may join the same group.
    socket.set_reuse_address(true)?;
    let addr = scoped(SocketAddr::new(group, local.port()), link.index);
    socket.bind(&addr.into())?;
    match (group, local) {
        (IpAddr::V4(group), SocketAddr::V4(local)) => {
            socket.join_multicast_v4_n(&group, &interface_v4(*local.ip(), link))?;
        }
        (IpAddr::V6(group), _) => socket.join_multicast_v6(&group, link.index)?,
        (IpAddr::V4(_), SocketAddr::V6(_)) => return Err(Errno::AFNOSUPPORT.into()),
    }
    Ok(socket)
}

/// Undoes [`open_group`] on a socket that another process may still have open.
pub(crate) fn leave_group(
    socket: &Socket,
    local: &SocketAddr,
    link: Link,
    group: IpAddr,
) -> io::Result<()> {
    match (group, local) {
        (IpAddr::V4(group), SocketAddr::V4(local)) => {
            socket.leave_multicast_v4_n(&group, &interface_v4(*local.ip(), link))
        }
        (IpAddr::V6(group), _) => socket.leave_multicast_v6(&group, link.index),
        (IpAddr::V4(_), SocketAddr::V6(_)) => Err(Errno::AFNOSUPPORT.into()),
    }
}

/// The interface of our address, as calls about IPv4 groups want it.
fn interface_v4(local: Ipv4Addr, link: Link) -> InterfaceIndexOrAddress {
    match link.index {
        0 => InterfaceIndexOrAddress::Address(local),
        index => InterfaceIndexOrAddress::Index(index),
    }
}

/// Options without which the packets would be wrong: level, name, value.
///
/// PROBE sets don't-fragment as DO does, but does not believe what ICMP messages say of the path. Anybody can forge
/// such a message, and for ten minutes no full packet to the peer would leave.
const MUST_V4: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
    (libc::IPPROTO_IP, libc::IP_TTL, DEFAULT_HOP_LIMIT as c_int),
];

/// Options that improve matters where the kernel has them.
const MAY_V4: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, DEFAULT_HOP_LIMIT as c_int),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0),
];

/// As [`MUST_V4`].
const MUST_V6: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, DEFAULT_HOP_LIMIT as c_int),
];

/// As [`MAY_V4`]; without the last one the kernel drops packets with UDP checksum 0.
const MAY_V6: &[(c_int, c_int, c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, DEFAULT_HOP_LIMIT as c_int),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL, 0),
    (libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, 1),
];

/// Options for a UDP checksum of 0.
const UNCHECKED_V4: &[(c_int, c_int, c_int)] = &[(libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)];

/// As [`UNCHECKED_V4`].
const UNCHECKED_V6: &[(c_int, c_int, c_int)] = &[(libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_TX, 1)];

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
