//! The UDP socket that reserves our port and keeps the kernel's own stack from answering.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use uroce_host::fork::keep_from_children;
use uroce_host::interface::scoped;
use uroce_host::{BindError, option};

use super::filter;

/// A UDP socket on our port that accepts no packet.
///
/// A packet socket receives copies: the kernel's stack handles every packet too. With this socket
/// the stack finds an owner of the port, so it sends no ICMP message, and a filter drops the
/// packet. UDP_GRO keeps a super-packet whole up to there; without it the kernel would segment it
/// first, which costs more than all the rest. The socket also is the member of multicast groups.
#[derive(Debug)]
pub(super) struct PortSocket {
    socket: Socket,
    index: u32,
}

impl PortSocket {
    /// Reserves the port of `local`, an address of interface `index`; returns the port, which the
    /// kernel chose if it was 0.
    pub(super) fn open(local: SocketAddr, index: u32) -> Result<(Self, u16), BindError> {
        let failed = |what| move |error| BindError::explain(what, local, error);
        let kind = Type::DGRAM.cloexec().nonblocking();
        let socket = Socket::new(Domain::for_address(local), kind, Some(Protocol::UDP))
            .map_err(failed("opening a UDP socket"))?;
        keep_from_children(&socket);
        socket.attach_filter(&filter::nothing()).map_err(failed("a socket filter"))?;
        for &(level, name) in if local.is_ipv4() { OPTIONS_V4 } else { OPTIONS_V6 } {
            if let Err(error) = option::set(&socket, level, name, 1) {
                tracing::debug!(level, name, %error, "socket option not available");
            }
        }
        let bound = scoped(local, index);
        socket.bind(&bound.into()).map_err(failed("binding a UDP socket"))?;
        let name = socket.local_addr().map_err(failed("reading the bound port"))?;
        let port = name.as_socket().map_or(local.port(), |name| name.port());
        Ok((Self { socket, index }, port))
    }

    pub(super) fn join(&self, group: IpAddr) -> io::Result<()> {
        let joined = match group {
            IpAddr::V4(group) => {
                let interface = InterfaceIndexOrAddress::Index(self.index);
                self.socket.join_multicast_v4_n(&group, &interface)
            }
            IpAddr::V6(group) => self.socket.join_multicast_v6(&group, self.index),
        };
        joined.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOBUFS) => io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("{group} not joined: raise `sysctl net.ipv4.igmp_max_memberships`"),
            ),
            _ => error,
        })
    }

    pub(super) fn leave(&self, group: IpAddr) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => {
                let interface = InterfaceIndexOrAddress::Index(self.index);
                self.socket.leave_multicast_v4_n(&group, &interface)
            }
            IpAddr::V6(group) => self.socket.leave_multicast_v6(&group, self.index),
        }
    }
}

const OPTIONS_V4: &[(libc::c_int, libc::c_int)] = &[(libc::SOL_UDP, libc::UDP_GRO)];

/// Without the last one the kernel logs and drops packets with UDP checksum 0 before it looks for a
/// socket.
const OPTIONS_V6: &[(libc::c_int, libc::c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (libc::SOL_UDP, libc::UDP_GRO),
    (libc::SOL_UDP, libc::UDP_NO_CHECK6_RX),
];
