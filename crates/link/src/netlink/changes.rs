//! To hear of it when an interface or an address of this network namespace changes (rtnetlink(7)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use uroce_host::fork;

/// Groups of messages: interfaces, IPv4 addresses, IPv6 addresses.
const GROUPS: u32 =
    (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR).cast_unsigned();

/// Messages that are taken at a time; more than the socket's buffer has room for.
const MOST: usize = 4096;

/// A netlink socket that is readable when an interface or an address has changed. What has changed is not read from
/// the messages: they may be lost, and many may say the same. Ask for the present state instead.
#[derive(Debug)]
pub struct LinkChanges(OwnedFd);

impl LinkChanges {
    /// Hears of all changes from now on, in the network namespace of the calling thread. A child process gets something
    /// dead in its place.
    ///
    /// # Errors
    ///
    /// When the system gives no socket.
    pub fn open() -> io::Result<LinkChanges> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        fork::keep_from_children(&socket);
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(LinkChanges(socket))
    }

    /// Takes all messages that wait. True: there were some, or some were lost.
    ///
    /// # Errors
    ///
    /// When the socket is of no more use.
    pub fn take(&self) -> io::Result<bool> {
        let mut heard = false;
        for _ in 0..MOST {
            // The rest of a longer message is thrown away.
            match rustix::net::recv(&self.0, &mut [0u8; 16][..], RecvFlags::DONTWAIT) {
                // No room: messages were lost.
                Ok(_) | Err(Errno::NOBUFS) => heard = true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(heard)
    }
}

impl AsFd for LinkChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_wait_is_not_heard() {
        // Another program may change something meanwhile, but not every time.
        let changes = LinkChanges::open().expect("netlink");
        assert!((0..100).any(|_| !changes.take().expect("a socket")));
    }
}
