//! The listening socket that the init system hands over (LISTEN_FDS).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{SocketType, sockopt};
use uroce_host::option::refuse_descriptors;

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// The listening socket from the init system, once; `None` if the process was not started with one.
///
/// # Errors
///
/// When what was handed over is no socket of sequenced packets.
pub fn inherited_listener() -> io::Result<Option<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let ours = number("LISTEN_PID") == Some(std::process::id());
    if !ours || number("LISTEN_FDS").unwrap_or(0) == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(None);
    }
    // SAFETY: the init system has opened it for this process alone, as the environment says, and nothing else in
    // this process takes it: the flag above lets this line run once.
    let listener = unsafe { OwnedFd::from_raw_fd(FIRST) };
    if sockopt::socket_type(&listener)? != SocketType::SEQPACKET {
        return Err(io::Error::other("the socket unit needs ListenSequentialPacket="));
    }
    fcntl_setfd(&listener, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&listener, true)?;
    refuse_descriptors(&listener);
    Ok(Some(listener))
}
