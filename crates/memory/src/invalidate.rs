//! Ending the binding of a window by its key (R41).
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::key::Rkey;
use crate::registration::{Registration, RegistrationKind, Requirer};
use crate::window::MwType;

/// Why nothing was invalidated (R41). Remote: NAK remote access. Local: LOC_QP_OP / MW_BIND_ERR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidateError {
    /// Nothing has this key; the variant byte counts too (B24).
    #[error("no memory window has rkey {rkey}; it was never valid or is gone")]
    UnknownKey {
        /// The key asked for.
        rkey: Rkey,
    },
    /// The key of a region made by the registration call, with or without windows.
    #[error("{} may not invalidate a registered region; deregister it instead", who(*remote))]
    Region {
        /// Whether a peer asked.
        remote: bool,
    },
    /// A type 1 window.
    #[error("{} may not invalidate a type 1 window; bind it to 0 bytes instead", who(*remote))]
    Type1 {
        /// Whether a peer asked.
        remote: bool,
    },
    /// The window is of another protection domain.
    #[error("the window is of another protection domain than the queue pair; create both in one")]
    WrongPd,
    /// The window is bound to another queue pair.
    #[error("the window is bound to another queue pair; invalidate it through that one")]
    WrongQp,
    /// The window is not bound.
    #[error("the window is not bound, so there is nothing to invalidate; bind it first")]
    NotBound,
}

fn who(remote: bool) -> &'static str {
    if remote { "a peer's SEND_WITH_INVALIDATE" } else { "a local invalidate" }
}

/// Whether `by` may end the binding behind `entry`, at the wish of a peer or not.
pub(crate) fn check_invalidate(
    entry: &Registration,
    by: Requirer,
    remote: bool,
) -> Result<(), InvalidateError> {
    if entry.pd != by.pd {
        return Err(InvalidateError::WrongPd);
    }
    match entry.kind {
        RegistrationKind::Mr { .. } => Err(InvalidateError::Region { remote }),
        RegistrationKind::Mw { mw_type: MwType::Type1, .. } => {
            Err(InvalidateError::Type1 { remote })
        }
        RegistrationKind::Mw { .. } if entry.extent.is_none() => Err(InvalidateError::NotBound),
        RegistrationKind::Mw { qpn, .. } if qpn != by.qpn => Err(InvalidateError::WrongQp),
        RegistrationKind::Mw { .. } => Ok(()),
    }
}
