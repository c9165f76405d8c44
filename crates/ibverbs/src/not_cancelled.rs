//! Calls that `pthread_cancel` does not end.

use std::ptr::null_mut;

use libc::c_int;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// pthread.h
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// While this lives, `pthread_cancel` of the calling thread waits.
#[derive(Debug)]
pub(crate) struct NotCancelled {
    before: c_int,
}

impl NotCancelled {
    pub(crate) fn new() -> NotCancelled {
        let mut before = 0;
        // SAFETY: an int of this frame.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        NotCancelled { before }
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        // SAFETY: null is allowed; the state is one that the thread had.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}
