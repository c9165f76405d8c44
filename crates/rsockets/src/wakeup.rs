//! Ending the sleep of another thread.

use std::cell::OnceCell;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use libc::c_int;

/// Makes a descriptor readable that one thread sleeps on, beside those of its sockets: another thread may have read what
/// made these readable.
#[derive(Debug)]
pub(crate) struct ThreadWakeup {
    reader: UnixStream,
    writer: UnixStream,
}

thread_local! {
    /// One for each thread that sleeps, and not for each socket: a program may wait for hundreds of them.
    static OF_THIS_THREAD: OnceCell<Arc<ThreadWakeup>> = const { OnceCell::new() };
}

impl ThreadWakeup {
    /// That of the calling thread; `None`: the process has no descriptors for it, or the thread ends.
    pub fn of_this_thread() -> Option<Arc<ThreadWakeup>> {
        let get_or_make = |own: &OnceCell<Arc<ThreadWakeup>>| match own.get() {
            Some(wakeup) => Some(Arc::clone(wakeup)),
            None => ThreadWakeup::new().map(|made| Arc::clone(own.get_or_init(|| Arc::new(made)))),
        };
        OF_THIS_THREAD.try_with(get_or_make).ok().flatten()
    }

    fn new() -> Option<ThreadWakeup> {
        let (reader, writer) = UnixStream::pair().ok()?;
        reader.set_nonblocking(true).ok()?;
        writer.set_nonblocking(true).ok()?;
        Some(ThreadWakeup { reader, writer })
    }

    /// The thread looks again. If there is no room for another byte, it has not yet read those before.
    pub fn wake(&self) {
        let _ = (&self.writer).write(&[0]);
    }

    /// The thread is awake.
    pub fn clear(&self) {
        while (&self.reader).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
    }

    pub fn fd(&self) -> c_int {
        self.reader.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use libc::pollfd;
    use uroce_ibverbs::descriptor::poll;

    use super::*;

    #[test]
    fn a_thread_is_woken_until_it_is_awake() {
        let wakeup = ThreadWakeup::of_this_thread().expect("two descriptors");
        let is_due = || {
            let mut set = [pollfd { fd: wakeup.fd(), events: libc::POLLIN, revents: 0 }];
            poll(&mut set, 0).expect("no signal") > 0
        };
        assert!(!is_due());
        let again = ThreadWakeup::of_this_thread().expect("it has one");
        // More than there is room for.
        (0..1_000_000).for_each(|_| again.wake());
        assert!(is_due());
        wakeup.clear();
        assert!(!is_due());
    }
}
