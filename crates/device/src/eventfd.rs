//! A Linux eventfd: the file descriptor by which one thread wakes another that sleeps in poll(2).

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, ReadWriteFlags};
use uroce_host::fork;

/// An eventfd, non-blocking unless a C program changes that. Readable from [`signal`](EventFd::signal) until [`clear`](EventFd::clear).
///
/// A child process gets one of its own: what it does with it is nothing to the threads that sleep here.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        fork::part_event_from_children(event.as_fd());
        Ok(EventFd(event))
    }

    /// Makes the descriptor readable. It cannot fail in a way that loses the signal: EAGAIN would
    /// mean that the counter is already huge, hence readable.
    pub(crate) fn signal(&self) {
        let _already_readable = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable again. Never sleeps, whatever flags a C program has set and
    /// whether or not another thread reads the descriptor.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        let mut room = [IoSliceMut::new(&mut count)];
        match rustix::io::preadv2(&self.0, &mut room, u64::MAX, ReadWriteFlags::NOWAIT) {
            // Linux before 5.8, or a filter of system calls.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => self.clear_if_readable(),
            _was_clear => {}
        }
    }

    #[cold]
    fn clear_if_readable(&self) {
        let mut set = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut set, Some(&Timespec::default())) == Ok(1) {
            let _count = rustix::io::read(&self.0, &mut [0u8; 8]);
        }
    }

    /// Sleeps until [`signal`](EventFd::signal), and makes the descriptor unreadable again, as read(2) does it: a
    /// signal handler without `SA_RESTART` ends it with EINTR, a descriptor that the program made non-blocking with
    /// EAGAIN.
    pub(crate) fn read(&self) -> io::Result<()> {
        rustix::io::read(&self.0, &mut [0u8; 8])?;
        Ok(())
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        fork::forget(self.0.as_fd());
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of `fds` is readable or `timeout` has passed (`None`: no limit). A signal
/// (EINTR) ends the sleep early; callers check their condition again.
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

    fn is_readable(fd: &EventFd) -> bool {
        let mut set = [PollFd::new(fd, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut set, Some(&at_once)).expect("poll") > 0
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

    /// As C programs get it.
    fn blocking() -> EventFd {
        let fd = EventFd::new().expect("eventfd");
        rustix::io::ioctl_fionbio(&fd, false).expect("FIONBIO");
        fd
    }

    #[test]
    fn v1_what_is_not_readable_is_not_waited_for() {
        let fd = blocking();
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            fd.clear();
            fd.clear_if_readable();
            fd.signal();
            fd.clear();
            fd.clear_if_readable();
            done.send(is_readable(&fd))
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(false));
    }

    #[test]
    fn v1_a_read_sleeps_as_long_as_the_descriptor_says() {
        let fd = EventFd::new().expect("eventfd");
        assert_eq!(fd.read().expect_err("empty").kind(), io::ErrorKind::WouldBlock);
        let fd = blocking();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| fd.read().expect("signalled"));
            fd.signal();
            reader.join().expect("no panic");
        });
        assert!(!is_readable(&fd));
    }
}
