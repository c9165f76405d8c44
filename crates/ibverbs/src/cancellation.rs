//! Calls that sleep for an event, and that `pthread_cancel` ends, as it ends those of rdma-core.
//!
//! The C library ends a cancelled thread by unwinding its stack from within the system call that it sleeps in. That must not
//! meet anything of Rust that has to be dropped, nor a `catch_unwind`: so the sleep is in a frame of its own, directly below
//! the one of the program.

use libc::{c_int, c_void};

use crate::errno::Errno;
use crate::return_value::minus_one;

unsafe extern "C-unwind" {
    /// That of the C library, which is where a thread can be cancelled.
    #[link_name = "read"]
    fn cancellable_read(fd: c_int, to: *mut c_void, length: usize) -> isize;
}

/// What is there at once, or the descriptor to sleep on.
pub enum Found {
    /// The result is written.
    Event,
    /// Nothing yet.
    Sleep(c_int),
}

/// Calls `look` until it has found an event, and sleeps meanwhile: 0, or -1 with errno set. It looks on `call`, which needs
/// nothing to be dropped.
///
/// # Safety
/// `look` may be called with `call`, and the descriptor that it names is an eventfd.
#[inline]
pub unsafe fn until_found<T: Copy>(call: T, look: fn(T) -> Result<Found, Errno>) -> c_int {
    let mut count = 0u64;
    loop {
        let (answer, fd) = attempt(call, look);
        if fd < 0 {
            return answer;
        }
        // SAFETY: eight bytes of this frame; a descriptor by the caller's promise.
        if unsafe { cancellable_read(fd, (&raw mut count).cast(), 8) } < 0 {
            return -1;
        }
    }
}

/// The result of a call, and -1; or the descriptor to sleep on.
#[inline(never)]
fn attempt<T: Copy>(call: T, look: fn(T) -> Result<Found, Errno>) -> (c_int, c_int) {
    let mut fd = -1;
    let answer = minus_one(|| {
        if let Found::Sleep(on) = look(call)? {
            fd = on;
        }
        Ok(())
    });
    (answer, fd)
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};
    use std::time::Duration;

    use crate::abi::{ibv_async_event, ibv_comp_channel, ibv_context};
    use crate::async_event::ibv_get_async_event;
    use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
    use crate::contract_tests::opened;
    use crate::cq_event::ibv_get_cq_event;
    use crate::device_list::{ibv_free_device_list, ibv_get_device_list};
    use crate::object::zeroed;
    use crate::open::ibv_close_device;

    use super::*;

    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    }

    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    type Unwinds = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

    extern "C-unwind" fn fetches_of_queues(channel: *mut c_void) -> *mut c_void {
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: a channel.
        unsafe {
            ibv_get_cq_event(channel.cast::<ibv_comp_channel>(), &raw mut cq, &raw mut context);
        }
        null_mut()
    }

    extern "C-unwind" fn fetches_of_objects(context: *mut c_void) -> *mut c_void {
        // SAFETY: numbers and a pointer; a context.
        unsafe {
            let mut event: ibv_async_event = zeroed();
            ibv_get_async_event(context.cast::<ibv_context>(), &raw mut event);
        }
        null_mut()
    }

    /// Starts a thread of a C program, in which nothing has to be dropped, and cancels it while it sleeps.
    fn assert_cancelled(start: Unwinds, argument: *mut c_void) {
        // SAFETY: a thread with its argument, which is joined; the two types of functions are called alike.
        unsafe {
            let (mut thread, mut result) = (0, null_mut());
            let start = std::mem::transmute::<Unwinds, Start>(start);
            assert_eq!(libc::pthread_create(&raw mut thread, null(), start, argument), 0);
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(pthread_cancel(thread), 0);
            assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
            assert_eq!(result.addr(), usize::MAX, "PTHREAD_CANCELED");
        }
    }

    #[test]
    fn a_thread_that_waits_for_events_can_be_cancelled() {
        let context = opened(209);
        // SAFETY: as the manual pages want it.
        unsafe {
            let channel = ibv_create_comp_channel(context);
            assert_cancelled(fetches_of_queues, channel.cast());
            assert_cancelled(fetches_of_objects, context.cast());
            assert_eq!((ibv_destroy_comp_channel(channel), ibv_close_device(context)), (0, 0));
        }
    }

    /// What a thread gives back that went to its end.
    const WENT_ON: usize = 7;

    extern "C" fn is_cancelled_and_goes_on(context: *mut c_void) -> *mut c_void {
        // SAFETY: as the manual pages want it.
        unsafe {
            assert_eq!(pthread_cancel(libc::pthread_self()), 0);
            let channel = ibv_create_comp_channel(context.cast());
            assert_eq!(ibv_destroy_comp_channel(channel), 0);
            ibv_free_device_list(ibv_get_device_list(null_mut()));
        }
        std::ptr::without_provenance_mut(WENT_ON)
    }

    #[test]
    fn a_thread_is_not_cancelled_in_the_middle_of_a_call() {
        let context = opened(208);
        // SAFETY: a thread with its argument, which is joined; the calls as the manual pages want it.
        unsafe {
            let (mut thread, mut result) = (0, null_mut());
            let start: Start = is_cancelled_and_goes_on;
            assert_eq!(libc::pthread_create(&raw mut thread, null(), start, context.cast()), 0);
            assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
            assert_eq!((result.addr(), ibv_close_device(context)), (WENT_ON, 0));
        }
    }
}
