//! Whether a call goes on after a signal: SA_RESTART, for calls that sleep in poll(2), which no handler restarts.

use std::ptr::null;

use libc::{
    SA_RESETHAND, SA_RESTART, SIG_DFL, SIG_IGN, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP,
    c_int,
};

use crate::object::zeroed;

/// Of a fault in the thread's own instructions: they come during no sleep.
const FAULTS: [c_int; 6] = [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS];

/// Every handler of the process has SA_RESTART. Who was interrupted does not learn by which one, so if one of them has not,
/// it may have been that one.
pub fn all_handlers_restart() -> bool {
    (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal)).all(restarts)
}

/// There is no handler for this signal that ends calls.
fn restarts(signal: c_int) -> bool {
    // SAFETY: numbers and a set of bits; the call only reads what is installed.
    let action = unsafe {
        let mut action: libc::sigaction = zeroed();
        if libc::sigaction(signal, null(), &raw mut action) != 0 {
            // One of the C library's own.
            return true;
        }
        action
    };
    // A handler that runs once is gone by now; its flags stay.
    let is_handled =
        !matches!(action.sa_sigaction, SIG_DFL | SIG_IGN) || action.sa_flags & SA_RESETHAND != 0;
    !is_handled || action.sa_flags & SA_RESTART != 0
}
