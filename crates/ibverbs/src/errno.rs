//! Errors as C wants them.

use std::io;

use libc::c_int;
use uroce_device::cm::CmError;
use uroce_device::memory::{
    AccessError, AllocMwError, DeallocMwError, DeregError, PdError, RegMrError, ReregError,
};
use uroce_device::transport::PostError;
use uroce_device::{
    ConnectionError, CounterError, CreateError, DestroyError, McastError, ModifyError,
    NoSuchObject, OpenError,
};

/// An errno value, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// EINVAL.
pub const INVALID: Errno = Errno(libc::EINVAL);
/// EOPNOTSUPP.
pub const NOT_SUPPORTED: Errno = Errno(libc::EOPNOTSUPP);
/// EBUSY.
pub const BUSY: Errno = Errno(libc::EBUSY);

/// What the last failed call of this thread is asked for.
pub fn set_errno(errno: Errno) {
    // SAFETY: glibc gives a valid pointer to the calling thread's errno.
    unsafe { *libc::__errno_location() = errno.0 }
}

impl Errno {
    /// Why a system call, or a call that C makes of us, has just failed.
    pub fn last() -> Errno {
        io::Error::last_os_error().into()
    }
}

/// What a call has made that returns null when it fails, and sets errno.
pub fn made<T>(object: *mut T) -> Result<*mut T, Errno> {
    if object.is_null() { Err(Errno::last()) } else { Ok(object) }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Errors that know their number.
macro_rules! by_method {
    ($($error:ty),*) => {$(
        impl From<$error> for Errno {
            fn from(error: $error) -> Errno {
                crate::log::explain(&error);
                Errno(error.errno())
            }
        }
    )*};
}
by_method!(
    AccessError,
    AllocMwError,
    ConnectionError,
    CounterError,
    CreateError,
    DeallocMwError,
    DeregError,
    DestroyError,
    ModifyError,
    McastError,
    NoSuchObject,
    OpenError,
    PdError,
    PostError,
    RegMrError,
    ReregError
);

impl From<CmError> for Errno {
    fn from(error: CmError) -> Errno {
        ConnectionError::from(error).into()
    }
}
