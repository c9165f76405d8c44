//! The UDP socket that holds our port.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockFilter, Socket, Type};

/// `BPF_RET | BPF_K` with 0: keep nothing of any packet.
const DROP_ALL: [SockFilter; 1] = [SockFilter::new(0x06, 0, 0, 0)];

/// A UDP socket on our port that never reads.
///
/// While the socket is open no other socket can bind the port, the kernel does not answer with an
/// ICMP message to packets that the redirect program passes on (fragments, say), and the host is a
/// member of our multicast groups.
#[derive(Debug)]
pub(crate) struct PortSocket {
    socket: Socket,
    interface: u32,
}

impl PortSocket {
    /// Takes the port; returns also the address with the port that it became.
    pub(crate) fn bind(local: SocketAddr, interface: u32) -> io::Result<(Self, SocketAddr)> {
        let kind = Type::DGRAM.cloexec().nonblocking();
        let socket = Socket::new(Domain::for_address(local), kind, Some(Protocol::UDP))?;
        uroce_host::fork::keep_from_children(&socket);
        socket.attach_filter(&DROP_ALL)?;
        socket.bind(&scoped(local, interface).into())?;
        let port = socket.local_addr()?.as_socket().map_or(local.port(), |bound| bound.port());
        Ok((Self { socket, interface }, SocketAddr::new(local.ip(), port)))
    }

    /// Makes the host a member of the group: the interface hears it, and switches are told.
    pub(crate) fn join(&self, group: IpAddr) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => self
                .socket
                .join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(self.interface)),
            IpAddr::V6(group) => self.socket.join_multicast_v6(&group, self.interface),
        }
    }

    /// Undoes [`join`](Self::join).
    pub(crate) fn leave(&self, group: IpAddr) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => self
                .socket
                .leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(self.interface)),
            IpAddr::V6(group) => self.socket.leave_multicast_v6(&group, self.interface),
        }
    }
}

/// The address with the scope that a link-local IPv6 address needs.
fn scoped(local: SocketAddr, interface: u32) -> SocketAddr {
    match local {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, interface).into()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_taken_and_nothing_is_kept() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (port_socket, local) = PortSocket::bind(any, 1).expect("bind");
        let second = PortSocket::bind(local, 1).expect_err("taken");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        let sender = std::net::UdpSocket::bind(any).expect("bind");
        sender.send_to(b"dropped", local).expect("send");
        let error = port_socket.socket.recv(&mut [std::mem::MaybeUninit::uninit(); 8]);
        assert_eq!(error.expect_err("nothing").kind(), io::ErrorKind::WouldBlock);
    }
}
