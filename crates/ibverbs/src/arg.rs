//! Arguments of functions that C calls.
//!
//! The macros here are the places where a pointer from C is believed: each relies on what the manual pages of rdma-core ask
//! of a program, in one way. What they take is an argument of an exported function, or a field of a struct that such an
//! argument points to; it is evaluated outside of their `unsafe`.

use crate::errno::{Errno, INVALID};

/// What we keep about the object that an argument names: `object_of!(pd_of(pd))`.
#[macro_export]
macro_rules! object_of {
    ($($look_up:ident)::+ ($pointer:expr)) => {{
        let pointer = $pointer;
        // SAFETY: null, or what the matching create function has returned. The manual pages forbid to destroy an object
        // while a call with it runs; the look-up finds out whether it was destroyed before.
        unsafe { $($look_up)::+(pointer) }
    }};
}

/// The struct that an argument points to, to be read. EINVAL: null.
#[macro_export]
macro_rules! input {
    ($pointer:expr) => {{
        let pointer = $pointer;
        // SAFETY: null, or a struct of the program's that it does not change while the call runs.
        unsafe { pointer.as_ref() }.ok_or($crate::errno::INVALID)
    }};
}

/// The struct that an argument points to, to be read and changed. EINVAL: null.
#[macro_export]
macro_rules! in_out {
    ($pointer:expr) => {{
        let pointer = $pointer;
        // SAFETY: null, or a struct of the program's that it does not use while the call runs.
        unsafe { pointer.as_mut() }.ok_or($crate::errno::INVALID)
    }};
}

/// Writes the result to where an argument points. EINVAL: null.
#[macro_export]
macro_rules! output {
    ($pointer:expr, $value:expr) => {{
        let value = $value;
        $crate::arg::not_null($pointer).map(|to| {
            // SAFETY: not null, and so room that the program has for a value of this type. What was there is not dropped.
            unsafe { to.write(value) }
        })
    }};
}

/// The pointer.
///
/// # Errors
/// EINVAL: it is null.
pub fn not_null<T>(pointer: *mut T) -> Result<*mut T, Errno> {
    if pointer.is_null() { Err(INVALID) } else { Ok(pointer) }
}

/// There is one port, number 1.
///
/// # Errors
/// EINVAL: another one.
pub fn check_port(port: u8) -> Result<(), Errno> {
    if port == 1 { Ok(()) } else { Err(INVALID) }
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;

    #[test]
    fn null_is_refused_and_anything_else_is_read_and_written() {
        assert_eq!(input!(null::<u32>()), Err(INVALID));
        assert_eq!(in_out!(null_mut::<u32>()).err(), Some(INVALID));
        assert_eq!(output!(null_mut::<u32>(), 1), Err(INVALID));
        let mut number = 7u32;
        let at = &raw mut number;
        assert_eq!(input!(at), Ok(&7));
        assert_eq!(output!(at, 8), Ok(()));
        *in_out!(at).expect("not null") += 1;
        assert_eq!(number, 9);
    }

    #[test]
    fn there_is_one_port() {
        assert_eq!(
            [0, 1, 2, u8::MAX].map(|port| check_port(port).is_ok()),
            [false, true, false, false]
        );
    }
}
