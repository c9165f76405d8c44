//! Requests to the kernel to resolve a neighbour.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use socket2::{Domain, Protocol, Socket, Type};
use uroce_host::interface::scoped;

/// The discard service (RFC 863): there is no answer but perhaps an ICMP message, which is not
/// read.
const DISCARD: u16 = 9;

/// A UDP socket whose empty datagrams make the kernel ask for a hardware address (ARP, neighbour
/// discovery), or confirm one that is stale. Needs no privilege.
#[derive(Debug)]
pub(super) struct Solicitor {
    socket: Socket,
}

impl Solicitor {
    /// A socket on the address `local` of interface `index`.
    pub(super) fn open(local: IpAddr, index: u32) -> io::Result<Self> {
        let addr = scoped(SocketAddr::new(local, 0), index);
        let kind = Type::DGRAM.cloexec().nonblocking();
        let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::UDP))?;
        // The datagram is for a neighbour and shall go no further.
        if local.is_ipv4() {
            socket.set_ttl_v4(1)?;
        } else {
            socket.set_unicast_hops_v6(1)?;
        }
        socket.bind(&addr.into())?;
        Ok(Self { socket })
    }

    /// Asks the kernel to resolve or confirm `next_hop` on interface `index`.
    pub(super) fn send(&self, next_hop: IpAddr, index: u32) {
        let addr = match next_hop {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, DISCARD, 0, index).into()
            }
            ip => SocketAddr::new(ip, DISCARD),
        };
        if let Err(error) = self.socket.send_to(&[], &addr.into()) {
            tracing::debug!(%next_hop, %error, "the neighbour cannot be asked for");
        }
    }
}
