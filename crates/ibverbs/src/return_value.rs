//! The way back to C: results become return values, and a panic ends here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use libc::c_int;

use crate::errno::{Errno, set_errno};
use crate::not_cancelled::NotCancelled;

/// For functions that return 0 or an errno value. A panic counts as EIO.
pub fn status(f: impl FnOnce() -> Result<(), Errno>) -> c_int {
    status_of(guarded(f))
}

/// As [`status`], for the data path, which has no cancellation points: no thread has to be kept from being cancelled.
pub(crate) fn data_path_status(f: impl FnOnce() -> Result<(), Errno>) -> c_int {
    status_of(value(Err(Errno(libc::EIO)), f))
}

fn status_of(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            errno.0
        }
    }
}

/// For functions that return 0, or -1 with errno set.
pub fn minus_one(f: impl FnOnce() -> Result<(), Errno>) -> c_int {
    if status(f) == 0 { 0 } else { -1 }
}

/// As [`minus_one`], and users who want to see what the program does read which call failed, and why.
pub fn call(name: &str, f: impl FnOnce() -> Result<(), Errno>) -> c_int {
    minus_one(|| {
        f().inspect_err(|errno| {
            let why = std::io::Error::from_raw_os_error(errno.0);
            crate::log::tell(&format_args!("{name} fails: {why}"));
        })
    })
}

/// For functions that return a number, or -1 with errno set.
pub fn number<T: From<i8>>(f: impl FnOnce() -> Result<T, Errno>) -> T {
    guarded(f).unwrap_or_else(|errno| {
        set_errno(errno);
        T::from(-1)
    })
}

/// For functions that return an object, or null with errno set.
pub fn pointer<T>(f: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guarded(f).unwrap_or_else(|errno| {
        set_errno(errno);
        null_mut()
    })
}

/// For functions without a way to fail: what a panic leaves is `otherwise`.
pub fn value<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise)
}

/// The C library unwinds a thread that is cancelled in close(2), for example. That must not happen in frames of Rust.
fn guarded<T>(f: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _not_cancelled = NotCancelled::new();
    value(Err(Errno(libc::EIO)), f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::INVALID;

    #[test]
    fn results_become_return_values() {
        assert_eq!(status(|| Ok(())), 0);
        assert_eq!(status(|| Err(INVALID)), libc::EINVAL);
        assert_eq!(minus_one(|| Err(INVALID)), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn a_panic_ends_here() {
        assert_eq!(status(|| panic!("on purpose")), libc::EIO);
        assert!(pointer::<u8>(|| panic!("on purpose")).is_null());
        assert_eq!(value(7, || panic!("on purpose")), 7);
    }
}
