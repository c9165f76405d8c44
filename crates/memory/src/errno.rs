//! The errno values of errors, as the kernel answers the same calls.

use libc::{EBUSY, EINVAL, ENOENT, ENOMEM, EOPNOTSUPP, EPERM};

use crate::access_error::AccessError;
use crate::mr::{DeregError, RegMrError, ReregError};
use crate::pd::PdError;
use crate::window::{AllocMwError, DeallocMwError};

/// Gives errors the method `errno`, with a value for every kind.
macro_rules! errno {
    ($($error:ident { $($kind:pat => $errno:expr,)* })*) => {$(
        impl $error {
            /// The errno value that stands for it in C.
            pub fn errno(&self) -> i32 {
                use $error::*;
                match self { $($kind => $errno,)* }
            }
        }
    )*};
}
errno! {
    PdError {
        TooMany { .. } => ENOMEM,
        Busy { .. } => EBUSY,
        Unknown => EINVAL,
    }
    RegMrError {
        TooMany { .. } => ENOMEM,
        UnknownPd | UnknownAccess { .. } | NeedsLocalWrite | NotPersistent => EINVAL,
        AddressWrap { .. } | TooLarge { .. } => EINVAL,
    }
    ReregError {
        Busy { .. } => EBUSY,
        Unknown | Reg(_) => EINVAL,
    }
    DeregError {
        Busy { .. } => EBUSY,
        Unknown => EINVAL,
    }
    AllocMwError {
        TooMany { .. } => ENOMEM,
        Unsupported => EOPNOTSUPP,
        UnknownPd => EINVAL,
    }
    AccessError {
        NoAccess { .. } => EPERM,
        UnknownKey { .. } | WrongPd | WrongQp | NotBound => ENOENT,
        OutOfRange { .. } | NotMapped { .. } | ListTooShort { .. } => ENOENT,
    }
    DeallocMwError {
        Unknown => EINVAL,
    }
}
