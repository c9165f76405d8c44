//! Datagrams of UDP with the address that they were sent to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_void, cmsghdr, iovec, msghdr, sockaddr_in, sockaddr_in6, sockaddr_storage};

use crate::errno::{Errno, INVALID};
use crate::object::zeroed;

/// Room for what the kernel says of a datagram: one header and an `in6_pktinfo`, and some more. Aligned as headers are.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// A datagram that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpArrival {
    /// Bytes of it that are in the buffer.
    pub length: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address that it was sent to; `None`: the kernel did not say.
    pub to: Option<IpAddr>,
}

/// From now on [`receive`] knows where datagrams were sent to.
///
/// # Errors
/// What setsockopt(2) says.
pub fn show_destinations(fd: BorrowedFd<'_>, domain: c_int) -> Result<(), Errno> {
    let (level, name) = match domain {
        libc::AF_INET6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        _ => (libc::IPPROTO_IP, libc::IP_PKTINFO),
    };
    let on: c_int = 1;
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: a descriptor that lives, and a number of this length.
    let set = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const on).cast::<c_void>(), length)
    };
    if set < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// The next datagram, as recvmsg(2) has it. Addresses of IPv4 are not written as such of IPv6.
///
/// # Errors
/// What recvmsg(2) says, such as EAGAIN.
pub fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<UdpArrival, Errno> {
    let mut control = Control([0; 128]);
    let mut part = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: bytes, integers and null pointers.
    let (mut name, mut message): (sockaddr_storage, msghdr) = unsafe { (zeroed(), zeroed()) };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = size_of::<sockaddr_storage>() as libc::socklen_t;
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: all that the message points to are local variables and the caller's buffer, with their lengths.
    let length = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| Errno::last())?;
    let from = sender(&name).ok_or(INVALID)?;
    Ok(UdpArrival { length, from, to: destination(&message).map(|ip| ip.to_canonical()) })
}

fn sender(name: &sockaddr_storage) -> Option<SocketAddr> {
    let at = &raw const *name;
    let (ip, port) = match c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is; a storage has room and the alignment for it.
            let v4 = unsafe { &*at.cast::<sockaddr_in>() };
            (IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))), v4.sin_port)
        }
        libc::AF_INET6 => {
            // SAFETY: the same.
            let v6 = unsafe { &*at.cast::<sockaddr_in6>() };
            (IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)), v6.sin6_port)
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), u16::from_be(port)))
}

/// The address in IP_PKTINFO or IPV6_PKTINFO.
fn destination(message: &msghdr) -> Option<IpAddr> {
    // SAFETY: the kernel has written the control messages, and their length; the pointer is null behind the last one.
    unsafe {
        let mut at: *const cmsghdr = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = at.as_ref() {
            let data = libc::CMSG_DATA(at);
            match (header.cmsg_level, header.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    return Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => at = libc::CMSG_NXTHDR(message, at),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    use super::*;

    /// What a socket that is bound to any address gets by a way to this address.
    fn arrival(bound: &str, to: &str) -> UdpArrival {
        let socket = UdpSocket::bind(bound).expect("a free port");
        let domain = if bound.starts_with('[') { libc::AF_INET6 } else { libc::AF_INET };
        show_destinations(socket.as_fd(), domain).expect("it is on");
        let port = socket.local_addr().expect("it is bound").port();
        let peer = UdpSocket::bind("127.48.96.60:0").expect("a free port");
        peer.send_to(b"hello", format!("{to}:{port}")).expect("loopback takes it");
        let mut out = [0; 4];
        let arrival = receive(socket.as_fd(), &mut out).expect("it comes");
        assert_eq!((&out, arrival.from), (b"hell", peer.local_addr().expect("it is bound")));
        arrival
    }

    #[test]
    fn the_kernel_says_where_a_datagram_was_sent_to() {
        for bound in ["0.0.0.0:0", "[::]:0"] {
            let arrival = arrival(bound, "127.48.96.61");
            assert_eq!((arrival.length, arrival.to), (4, "127.48.96.61".parse().ok()), "{bound}");
        }
    }

    #[test]
    fn nothing_that_has_come_is_an_error() {
        let socket = UdpSocket::bind("127.48.96.62:0").expect("a free port");
        socket.set_nonblocking(true).expect("a flag");
        assert_eq!(receive(socket.as_fd(), &mut [0]), Err(Errno(libc::EAGAIN)));
    }
}
