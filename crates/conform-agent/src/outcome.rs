//! How calls of libibverbs and librdmacm end.

use std::io;

/// What failed, and how.
pub(crate) type Tried<T> = Result<T, String>;

pub(crate) fn failed<T>(call: &str) -> Tried<T> {
    Err(format!("{call}: {}", io::Error::last_os_error()))
}

/// The result of a function that returns 0 or an error number.
pub(crate) fn done(call: &str, status: i32) -> Tried<()> {
    match status {
        0 => Ok(()),
        -1 => failed(call),
        number => Err(format!("{call}: {}", io::Error::from_raw_os_error(number))),
    }
}
