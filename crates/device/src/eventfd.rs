//! A Linux eventfd: the file descriptor by which one thread wakes another that sleeps in poll(2).

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Non-blocking eventfd. Readable from [`signal`](EventFd::signal) until [`clear`](EventFd::clear).
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(EventFd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable. It cannot fail in a way that loses the signal: EAGAIN would
    /// mean that the counter is already huge, hence readable.
    pub(crate) fn signal(&self) {
        let _already_readable = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable again.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        let _was_clear = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of `fds` is readable or `timeout` has passed (`None`: no limit). A signal
/// (EINTR) ends the sleep early; callers look again at what they wait for.
pub(crate) fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let mut set: [PollFd<'_>; 2] = match fds {
        [one] => return poll_set(&mut [PollFd::new(one, PollFlags::IN)], timeout),
        [first, second, ..] => {
            [PollFd::new(first, PollFlags::IN), PollFd::new(second, PollFlags::IN)]
        }
        [] => return Err(io::ErrorKind::InvalidInput.into()),
    };
    poll_set(&mut set, timeout)
}

fn poll_set(set: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let limit = timeout.and_then(|t| Timespec::try_from(t).ok());
    match poll(set, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn is_readable(fd: &EventFd) -> bool {
        let start = Instant::now();
        wait_readable(&[fd.as_fd()], Some(Duration::from_millis(20))).expect("poll");
        start.elapsed() < Duration::from_millis(15)
    }

    #[test]
    fn readable_between_signal_and_clear() {
        let fd = EventFd::new().expect("eventfd");
        assert!(!is_readable(&fd));
        fd.signal();
        fd.signal();
        assert!(is_readable(&fd));
        fd.clear();
        assert!(!is_readable(&fd));
    }

    #[test]
    fn clear_without_signal_does_not_block() {
        let fd = EventFd::new().expect("eventfd");
        fd.clear();
        assert!(!is_readable(&fd));
    }
}
