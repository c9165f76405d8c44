//! The program that picks one of the sockets that share a port.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{sock_filter, sock_fprog};

/// Gives the program to the group of sockets that `socket` belongs to, in the place of an earlier one
/// (SO_ATTACH_REUSEPORT_CBPF, Linux 4.5). It returns the place of a socket in the group.
pub(crate) fn attach(socket: impl AsFd, program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let whole = sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let length = size_of::<sock_fprog>() as libc::socklen_t;
    let (fd, level) = (socket.as_fd().as_raw_fd(), libc::SOL_SOCKET);
    let (name, from) = (libc::SO_ATTACH_REUSEPORT_CBPF, (&raw const whole).cast());
    // SAFETY: the kernel reads `length` bytes of `whole`, and the `len` instructions it points to,
    // which are borrowed for the call.
    let result = unsafe { libc::setsockopt(fd, level, name, from, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
