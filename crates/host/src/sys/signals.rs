//! Signals, which are the program's.

use std::mem::MaybeUninit;

/// What says that the thread itself has done something impossible: crash reporters want to hear of it.
const OWN_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// While this lives, the calling thread takes no signal that is sent to the process; nor do threads that it starts,
/// ever.
pub struct Blocked(libc::sigset_t);

impl Blocked {
    pub fn new() -> Blocked {
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset initialises `all`, and pthread_sigmask, which cannot fail with these arguments, `before`.
        unsafe {
            let mut all = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigfillset(all.as_mut_ptr());
            OWN_FAULTS.iter().for_each(|&signal| _ = libc::sigdelset(all.as_mut_ptr(), signal));
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Blocked(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: a mask that the thread had.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}

/// While this lives, a write of the calling thread to a pipe that nobody reads gives EPIPE and no SIGPIPE, which would end a program that
/// has not asked for anything else.
pub struct NoSigpipe {
    before: libc::sigset_t,
    sigpipe: libc::sigset_t,
    was_pending: bool,
}

impl NoSigpipe {
    /// From now on, in this thread.
    #[expect(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> NoSigpipe {
        let mut sets = [const { MaybeUninit::<libc::sigset_t>::uninit() }; 3];
        let [before, sigpipe, pending] = &mut sets;
        // SAFETY: sigemptyset and sigpending initialise their sets, and pthread_sigmask, which cannot fail with these arguments, `before`.
        unsafe {
            libc::sigemptyset(sigpipe.as_mut_ptr());
            libc::sigaddset(sigpipe.as_mut_ptr(), libc::SIGPIPE);
            libc::sigpending(pending.as_mut_ptr());
            let was_pending = libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1;
            libc::pthread_sigmask(libc::SIG_BLOCK, sigpipe.as_ptr(), before.as_mut_ptr());
            NoSigpipe { before: before.assume_init(), sigpipe: sigpipe.assume_init(), was_pending }
        }
    }
}

impl Drop for NoSigpipe {
    fn drop(&mut self) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: sets of this value, and a mask that the thread had.
        unsafe {
            if !self.was_pending {
                // One that came of a write meanwhile is taken. It is of this thread, and waits already.
                libc::sigtimedwait(&raw const self.sigpipe, std::ptr::null_mut(), &raw const now);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};

    use super::*;

    #[test]
    fn a_write_that_nobody_reads_is_an_error_and_no_signal() {
        let (reader, mut writer) = std::io::pipe().expect("descriptors");
        drop(reader);
        // SAFETY: the action of a signal that nothing else of this program meets; it is what it was afterwards.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let guard = NoSigpipe::new();
        let written = writer.write(b"x");
        drop(guard);
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, before) };
        assert_eq!(written.map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe));
    }
}
