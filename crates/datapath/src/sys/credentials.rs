//! Who is at the other end of a unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The effective user of the process that connected, or that listened (SO_PEERCRED).
pub(crate) fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::SOL_SOCKET);
    let to = (&raw mut peer).cast();
    // SAFETY: the kernel writes up to `length` bytes to `peer`, which is that long and holds integers.
    let result = unsafe { libc::getsockopt(fd, level, libc::SO_PEERCRED, to, &raw mut length) };
    if result == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}
