//! Arguments of functions that C calls.

use crate::errno::{Errno, INVALID};

/// The pointer.
///
/// # Errors
/// EINVAL: it is null.
pub fn not_null<T>(pointer: *mut T) -> Result<*mut T, Errno> {
    if pointer.is_null() { Err(INVALID) } else { Ok(pointer) }
}

/// There is one port, number 1.
pub fn check_port(port: u8) -> Result<(), Errno> {
    if port == 1 { Ok(()) } else { Err(INVALID) }
}
