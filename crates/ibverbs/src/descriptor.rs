//! Descriptors that programs wait on.

use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, pollfd};

use crate::errno::Errno;

/// Programs decide by O_NONBLOCK whether `ibv_get_cq_event` and `ibv_get_async_event` wait, and expect
/// a new descriptor to block. The device itself never waits for it.
///
/// # Errors
/// What fcntl(2) says.
pub fn make_blocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = flags_of(fd)?;
    // SAFETY: a descriptor that lives, and a command without pointers.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) } < 0 {
        return Err(Errno::last());
    }
    Ok(())
}

fn flags_of(fd: BorrowedFd<'_>) -> Result<c_int, Errno> {
    // SAFETY: a descriptor that lives, and a command without arguments.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) } {
        flags if flags < 0 => Err(Errno::last()),
        flags => Ok(flags),
    }
}

/// poll(2). A descriptor that is not open is told in its entry.
///
/// # Errors
/// What it says, such as EINTR.
pub fn poll(set: &mut [pollfd], timeout_ms: c_int) -> Result<usize, Errno> {
    // SAFETY: the kernel writes to as many entries as are counted.
    let found = unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout_ms) };
    usize::try_from(found).map_err(|_| Errno::last())
}
