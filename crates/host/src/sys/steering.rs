//! The program that picks one of several sockets: of those that share a port, or of a group of packet sockets.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, sock_filter, sock_fprog};

/// Gives the program to the group of sockets that `socket` belongs to, in the place of an earlier one
/// (SO_ATTACH_REUSEPORT_CBPF, Linux 4.5). It returns the place of a socket in the group.
pub fn attach_reuseport(socket: impl AsFd, program: &[sock_filter]) -> io::Result<()> {
    give(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// The same for packet sockets in a fanout group of kind PACKET_FANOUT_CBPF (Linux 4.3).
pub fn attach_fanout(socket: impl AsFd, program: &[sock_filter]) -> io::Result<()> {
    give(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, program)
}

/// Bytes that the compiler would leave between the two fields of a `sock_fprog`, with whatever they hold.
const GAP: usize = offset_of!(sock_fprog, filter) - size_of::<u16>();

/// A `sock_fprog` all of whose bytes are known: the kernel is shown the gap, too.
#[repr(C)]
struct Program {
    len: u16,
    gap: [u8; GAP],
    filter: *const sock_filter,
}

const _: () = assert!(
    size_of::<Program>() == size_of::<sock_fprog>()
        && offset_of!(Program, filter) == offset_of!(sock_fprog, filter)
);

fn give(socket: impl AsFd, level: c_int, name: c_int, program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let whole = Program { len, gap: [0; GAP], filter: program.as_ptr() };
    let length = size_of::<Program>() as libc::socklen_t;
    let (fd, from) = (socket.as_fd().as_raw_fd(), (&raw const whole).cast());
    // SAFETY: the kernel reads `length` bytes of `whole`, and the `len` instructions it points to,
    // which are borrowed for the call.
    let result = unsafe { libc::setsockopt(fd, level, name, from, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
