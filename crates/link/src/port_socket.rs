//! The UDP socket that holds our port, and keeps the kernel's own stack from answering.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use uroce_host::fork::keep_from_children;
use uroce_host::interface::scoped;
use uroce_host::{bpf, option};

/// A UDP socket on our port that accepts no packet.
///
/// While it is open no other socket can bind the port, the kernel's stack finds an owner of the port and sends no ICMP
/// message for what it gets, and the host is a member of our multicast groups.
#[derive(Debug)]
pub struct PortSocket {
    socket: Socket,
    interface: u32,
}

/// What the kernel's stack gets of our packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackTraffic {
    /// A copy of each, super-packets among them: a packet socket receives copies.
    Copies,
    /// What the datapath leaves to it, which is little.
    Rest,
}

/// What failed, and the kernel's answer.
#[derive(Debug)]
pub struct PortSocketError {
    /// What was tried.
    pub what: &'static str,
    /// The kernel's answer.
    pub source: io::Error,
}

impl PortSocket {
    /// Takes the port of `local`, an address of that interface; returns the port, which the kernel chose if it was 0.
    ///
    /// # Errors
    ///
    /// EADDRINUSE when another socket has the port, and what else the kernel says.
    pub fn open(
        local: SocketAddr,
        interface: u32,
        traffic: StackTraffic,
    ) -> Result<(Self, u16), PortSocketError> {
        let failed = |what| move |source| PortSocketError { what, source };
        let kind = Type::DGRAM.cloexec().nonblocking();
        let socket = Socket::new(Domain::for_address(local), kind, Some(Protocol::UDP))
            .map_err(failed("opening a UDP socket"))?;
        keep_from_children(&socket);
        bpf::drop_everything(&socket).map_err(failed("a socket filter"))?;
        believe_no_path_mtu(&socket, local.is_ipv4()).map_err(failed("a socket option"))?;
        if traffic == StackTraffic::Copies {
            make_copies_cheap(&socket, local.is_ipv4());
        }
        let bound = scoped(local, interface);
        socket.bind(&bound.into()).map_err(failed("binding a UDP socket"))?;
        let name = socket.local_addr().map_err(failed("reading the bound port"))?;
        let port = name.as_socket().map_or(local.port(), |name| name.port());
        Ok((Self { socket, interface }, port))
    }

    /// Makes the host a member of the group: the interface hears it, and switches are told.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn join(&self, group: IpAddr) -> io::Result<()> {
        let joined = match group {
            IpAddr::V4(group) => self.socket.join_multicast_v4_n(&group, &self.index()),
            IpAddr::V6(group) => self.socket.join_multicast_v6(&group, self.interface),
        };
        joined.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOBUFS) => io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("{group} not joined: raise `sysctl net.ipv4.igmp_max_memberships`"),
            ),
            _ => error,
        })
    }

    /// Undoes [`join`](Self::join).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn leave(&self, group: IpAddr) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => self.socket.leave_multicast_v4_n(&group, &self.index()),
            IpAddr::V6(group) => self.socket.leave_multicast_v6(&group, self.interface),
        }
    }

    fn index(&self) -> InterfaceIndexOrAddress {
        InterfaceIndexOrAddress::Index(self.interface)
    }
}

/// UDP_GRO keeps a super-packet whole up to the filter that drops it; without it the kernel would segment it first,
/// which costs more than all the rest.
fn make_copies_cheap(socket: &Socket, ipv4: bool) {
    for &(level, name) in if ipv4 { OPTIONS_V4 } else { OPTIONS_V6 } {
        if let Err(error) = option::set(socket, level, name, 1) {
            tracing::debug!(level, name, %error, "socket option not available");
        }
    }
}

const OPTIONS_V4: &[(libc::c_int, libc::c_int)] = &[(libc::SOL_UDP, libc::UDP_GRO)];

/// The kernel believes no ICMP message about the path MTU that names our port: anybody can forge one, and routes would
/// have that MTU for ten minutes.
fn believe_no_path_mtu(socket: &Socket, ipv4: bool) -> io::Result<()> {
    let (level, name, value) = match ipv4 {
        true => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_INTERFACE),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_INTERFACE),
    };
    option::set(socket, level, name, value)
}

/// Without the last one the kernel logs and drops packets with UDP checksum 0 before it looks for a
/// socket.
const OPTIONS_V6: &[(libc::c_int, libc::c_int)] = &[
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (libc::SOL_UDP, libc::UDP_GRO),
    (libc::SOL_UDP, libc::UDP_NO_CHECK6_RX),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_taken_and_nothing_is_kept() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        for traffic in [StackTraffic::Copies, StackTraffic::Rest] {
            let (port_socket, port) = PortSocket::open(any, 1, traffic).expect("open");
            let local = SocketAddr::new(any.ip(), port);
            let second = PortSocket::open(local, 1, traffic).expect_err("taken");
            assert_eq!(second.source.kind(), io::ErrorKind::AddrInUse);
            assert_eq!(second.what, "binding a UDP socket");
            let sender = std::net::UdpSocket::bind(any).expect("bind");
            sender.send_to(b"dropped", local).expect("send");
            let error = port_socket.socket.recv(&mut [std::mem::MaybeUninit::uninit(); 8]);
            assert_eq!(error.expect_err("nothing").kind(), io::ErrorKind::WouldBlock);
        }
    }
}
