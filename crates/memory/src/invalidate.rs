//! Ending the binding of a window by its key (R41).
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::registration::{Kind, Registration};
use crate::{AccessError, MemTable, MwType, PdId, Rkey};

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

impl MemTable {
    /// Ends the binding of a type 2B window, for a LOCAL_INV work request or (`remote`) for a
    /// SEND_WITH_INVALIDATE. Type 1 windows and regions are refused either way, as are windows
    /// of another domain or queue pair (R41, B24).
    ///
    /// # Errors
    /// [`InvalidateError`], with nothing changed.
    pub fn invalidate(
        &mut self,
        rkey: Rkey,
        pd: PdId,
        qpn: u32,
        remote: bool,
    ) -> Result<(), InvalidateError> {
        let unknown = InvalidateError::UnknownKey { rkey };
        let (id, entry) = self.named(rkey.0).map_err(|_: AccessError| unknown)?;
        if entry.pd != pd {
            return Err(InvalidateError::WrongPd);
        }
        match entry.kind {
            Kind::Mr { .. } => return Err(InvalidateError::Region { remote }),
            Kind::Mw { mw_type: MwType::Type1, .. } => {
                return Err(InvalidateError::Type1 { remote });
            }
            Kind::Mw { .. } if entry.extent.is_none() => return Err(InvalidateError::NotBound),
            Kind::Mw { qpn: bound, .. } if bound != qpn => return Err(InvalidateError::WrongQp),
            Kind::Mw { .. } => {}
        }
        self.unbind(id);
        Ok(())
    }

    /// Unbinds the type 2B windows of a queue pair that is being destroyed, so that a later
    /// queue pair with the same number does not inherit them. Returns how many there were.
    pub fn unbind_windows_of(&mut self, qpn: u32) -> usize {
        if self.mws == 0 {
            return 0;
        }
        let owned = |r: &Registration| {
            r.extent.is_some()
                && matches!(r.kind, Kind::Mw { mw_type: MwType::Type2B, qpn: q, .. } if q == qpn)
        };
        let ids: Vec<u64> =
            self.registrations.iter().filter(|(_, r)| owned(r)).map(|(id, _)| id).collect();
        ids.iter().for_each(|&id| self.unbind(id));
        ids.len()
    }
}
