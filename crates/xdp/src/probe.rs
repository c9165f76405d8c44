//! Whether this process may use AF_XDP sockets, for users who ask why something does not work.

use std::io;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Whether this process may open AF_XDP sockets.
///
/// # Errors
///
/// EPERM without CAP_NET_RAW, EAFNOSUPPORT where the kernel has none.
pub fn xdp_socket() -> io::Result<()> {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    Ok(())
}
