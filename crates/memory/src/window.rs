//! Memory windows.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::registration::{Kind, Registration};
use crate::{MemTable, MwId, PdError, PdId, Rkey};

/// The kind of a window. Type 2A is not offered (o10-37.2.31 allows only one of 2A and 2B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MwType {
    /// Usable through every queue pair of its domain; every bind makes a new key.
    Type1,
    /// Usable only through the queue pair it was bound on; the caller owns the variant byte.
    Type2B,
}

/// A window: its name and its key, which is of use once the window is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mw {
    /// Name for bind and dealloc.
    pub id: MwId,
    /// Its key for now.
    pub rkey: Rkey,
}

/// Why no window was made.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocMwError {
    /// No such protection domain.
    #[error("the protection domain does not exist (any more); use one that alloc_pd returned")]
    UnknownPd,
    /// The device has no room for another window (`ENOMEM`).
    #[error("the device holds its limit of {limit} memory windows; free one or raise the limit")]
    TooMany {
        /// [`crate::MemLimits::max_mw`].
        limit: u32,
    },
    /// The device has several copies of its table, and a bind would change one of them only
    /// (`EOPNOTSUPP`). A table never says so by itself.
    #[error("a device with several engines has no memory windows; open it with one engine")]
    Unsupported,
}

/// Why a window was not freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeallocMwError {
    /// No such window.
    #[error("this memory window does not exist (any more); it was freed before")]
    Unknown,
}

impl MemTable {
    /// Makes an unbound window.
    ///
    /// # Errors
    /// [`AllocMwError`].
    pub fn alloc_mw(&mut self, pd: PdId, mw_type: MwType) -> Result<Mw, AllocMwError> {
        let limit = self.limits.max_mw;
        if self.mws >= limit {
            return Err(AllocMwError::TooMany { limit });
        }
        self.retain_pd(pd).map_err(|_: PdError| AllocMwError::UnknownPd)?;
        self.mws += 1;
        let kind = Kind::Mw { mw_type, mr: 0, qpn: 0 };
        let (id, key) = self.register(Registration { key: 0, pd, kind, extent: None });
        Ok(Mw { id: MwId(id), rkey: Rkey(key) })
    }

    /// Frees a window, bound or not; its key is never valid again.
    ///
    /// # Errors
    /// [`DeallocMwError::Unknown`].
    pub fn dealloc_mw(&mut self, id: MwId) -> Result<(), DeallocMwError> {
        self.mw_parts(id).ok_or(DeallocMwError::Unknown)?;
        self.unbind(id.0);
        self.unregister(id.0);
        self.mws -= 1;
        Ok(())
    }

    /// Key of a window as it is now; `None` if it does not exist.
    pub fn mw(&self, id: MwId) -> Option<Mw> {
        let (_, entry) = self.mw_parts(id)?;
        Some(Mw { id, rkey: Rkey(entry.key) })
    }

    pub(crate) fn mw_parts(&self, id: MwId) -> Option<(MwType, &Registration)> {
        let entry = self.registrations.get(id.0)?;
        match entry.kind {
            Kind::Mw { mw_type, .. } => Some((mw_type, entry)),
            Kind::Mr { .. } => None,
        }
    }

    /// Takes its memory from a window, if it has some.
    pub(crate) fn unbind(&mut self, id: u64) {
        let Some(entry) = self.registrations.get_mut(id) else {
            return;
        };
        if let Kind::Mw { mr, .. } = entry.kind
            && entry.extent.take().is_some()
        {
            self.count_window(mr, -1);
        }
    }

    /// Counts a window of a region in (1) or out (-1).
    pub(crate) fn count_window(&mut self, mr: u64, by: i32) {
        let entry = self.registrations.get_mut(mr).map(|entry| &mut entry.kind);
        let Some(Kind::Mr { windows }) = entry else {
            unreachable!("a region outlives the windows bound to it")
        };
        *windows = windows.checked_add_signed(by).expect("each unbind follows a bind");
    }
}

debug_is_display!(AllocMwError);
