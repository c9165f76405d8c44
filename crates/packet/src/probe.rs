//! Whether this process may use packet sockets, for users who ask why something does not work.

use std::io;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Whether this process may open AF_PACKET sockets.
///
/// # Errors
///
/// EPERM without CAP_NET_RAW, EAFNOSUPPORT where the kernel has none.
pub fn packet_socket() -> io::Result<()> {
    socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    Ok(())
}
