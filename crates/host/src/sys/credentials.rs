//! Whose rights processes have: the peer of a unix socket, and this one.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The process at the other end of a unix socket, as it was when it connected or began to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its number; 0 if it is in another PID namespace, which ours does not see.
    pub pid: u32,
    /// Its effective user.
    pub user: u32,
}

/// The peer of a unix socket, as the kernel has it (SO_PEERCRED).
///
/// # Errors
///
/// When it is no socket.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::SOL_SOCKET);
    let to = (&raw mut peer).cast();
    // SAFETY: the kernel writes up to `length` bytes to `peer`, which is that long and holds integers.
    let result = unsafe { libc::getsockopt(fd, level, libc::SO_PEERCRED, to, &raw mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: u32::try_from(peer.pid).unwrap_or(0), user: peer.uid })
}

/// This program has more rights than whoever started it (AT_SECURE of getauxval(3)).
pub(crate) fn is_secure() -> bool {
    // SAFETY: it reads what the kernel gave to the process when it started.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
