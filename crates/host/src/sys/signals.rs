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
