//! The threads of the library, which live in a process of another program.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::descriptor_table::make_room_for_descriptors;
use crate::sys::fork::{generation, watch};
use crate::sys::signals::Blocked;

/// A thread that takes no signal of the program: it may wait for signals with sigwait(3) or signalfd(2), which
/// only works if they are blocked in all threads.
#[derive(Debug)]
pub struct Thread {
    handle: JoinHandle<()>,
    generation: u32,
}

impl Thread {
    /// Starts a thread.
    ///
    /// # Errors
    ///
    /// When the system has none left.
    pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        watch();
        make_room_for_descriptors();
        let generation = generation();
        let _blocked = Blocked::new();
        let handle = Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Thread { handle, generation })
    }

    /// `None` in a process that was forked from that of the thread: there is no thread to stop and
    /// to wait for.
    pub fn if_here(self) -> Option<Thread> {
        if self.generation == generation() {
            return Some(self);
        }
        // The handle's destructor would detach a thread that does not exist.
        std::mem::forget(self);
        None
    }

    /// Waits for its end.
    pub fn join(self) {
        if let Some(thread) = self.if_here() {
            let ended = thread.handle.join();
            debug_assert!(ended.is_ok(), "a thread of the library panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signals that are blocked in this thread, as /proc shows them.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("/proc");
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
        u64::from_str_radix(line.trim(), 16).expect("a mask")
    }

    #[test]
    fn v5_a_thread_takes_no_signal_of_the_program() {
        let before = blocked();
        let thread = Thread::spawn("uroce-test", || {
            let taken = !blocked();
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD, libc::SIGALRM, libc::SIGUSR1]
            {
                assert_eq!(taken & 1 << (signal - 1), 0, "signal {signal}");
            }
            assert_ne!(taken & 1 << (libc::SIGSEGV - 1), 0, "a fault is reported");
        });
        thread.expect("a thread").join();
        assert_eq!(blocked(), before, "the program's own thread is as it was");
    }
}
