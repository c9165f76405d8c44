//! The one check between a request and memory.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::registration::{Kind, Registration};
use crate::{Access, MemTable, MrSlice, MwType, PdId, Sge};

/// On whose behalf a key is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirer {
    /// The protection domain of the queue pair.
    pub pd: PdId,
    /// The number of the queue pair.
    pub qpn: u32,
}

/// Why a key does not give the access asked for. Remote: NAK remote access (R28). Local: the
/// completion is LOC_PROT_ERR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// No registration has this key: never made, already gone, or a wrong variant byte.
    #[error("no memory is registered under key {key:#010x}; it was never valid or is gone")]
    UnknownKey {
        /// The key asked for.
        key: u32,
    },
    /// The key belongs to another protection domain than the queue pair.
    #[error("the key is of another protection domain than the queue pair; create both in one")]
    WrongPd,
    /// The registration lacks a right.
    #[error("the access needs {needed:?} but the registration grants only {granted:?}")]
    NoAccess {
        /// What the access needs.
        needed: Access,
        /// What the registration has.
        granted: Access,
    },
    /// The range is not inside the registration, or goes beyond 2^64.
    #[error("{len} bytes at {va:#x} are not inside the registered range {start:#x}..{end:#x}")]
    OutOfRange {
        /// First address asked for.
        va: u64,
        /// Bytes asked for.
        len: u64,
        /// First address there is.
        start: u64,
        /// First address after it; `u64::MAX` also stands for 2^64.
        end: u64,
    },
    /// A region of all memory is used where the program has none, or none that may be written.
    #[error(
        "at {va:#x} the program has mapped no memory for this access; map it before it is used"
    )]
    NotMapped {
        /// First address asked for.
        va: u64,
    },
    /// A type 2 window is used through another queue pair than the one it was bound on (R96).
    #[error("the type 2 window is bound to another queue pair; bind one on this queue pair")]
    WrongQp,
    /// The window is not bound to any memory.
    #[error("the memory window is not bound; bind it before the key is given to a peer")]
    NotBound,
    /// The list of SGEs has fewer bytes than the operation.
    #[error("the scatter/gather list is {missing} bytes too short for the message")]
    ListTooShort {
        /// Bytes that found no place.
        missing: u64,
    },
}

impl MemTable {
    /// Checks a remote access and returns the bytes it may touch: the key exists, its protection
    /// domain is the queue pair's, a type 2 window is used through its queue pair, the rights
    /// cover `need`, and `[va, va + len)` lies inside without wrapping at 2^64 (R28, R31, R32,
    /// R96; B5 to B7).
    ///
    /// A `len` of 0 is checked like any other (the address may be the one after the last byte);
    /// a caller for whom the key of an empty access does not matter (R29) does not call.
    ///
    /// # Errors
    /// [`AccessError`] with the first reason found, in the order above.
    #[inline]
    pub fn check(
        &self,
        key: u32,
        by: Requirer,
        need: Access,
        va: u64,
        len: u64,
    ) -> Result<MrSlice<'_>, AccessError> {
        self.permitted(key, by)?.slice(need, va, len)
    }

    /// Like [`MemTable::check`] for everything that the key covers (FLUSH of a whole region).
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn check_whole(
        &self,
        key: u32,
        by: Requirer,
        need: Access,
    ) -> Result<MrSlice<'_>, AccessError> {
        let extent = self.permitted(key, by)?;
        extent.unmapped_slice(need, extent.start, extent.length)
    }

    /// Checks an SGE of a work request: regions only, no windows. Reading needs no right;
    /// writing needs [`Access::LOCAL_WRITE`].
    ///
    /// # Errors
    /// [`AccessError`].
    #[inline]
    pub fn check_local(
        &self,
        sge: &Sge,
        pd: PdId,
        need: Access,
    ) -> Result<MrSlice<'_>, AccessError> {
        self.check_local_at(sge.lkey.0, pd, need, sge.addr, u64::from(sge.length))
    }

    #[inline]
    pub(crate) fn check_local_at(
        &self,
        key: u32,
        pd: PdId,
        need: Access,
        va: u64,
        len: u64,
    ) -> Result<MrSlice<'_>, AccessError> {
        let (_, registration) = self.named(key)?;
        let (Kind::Mr { .. }, Some(extent)) = (&registration.kind, &registration.extent) else {
            return Err(AccessError::UnknownKey { key });
        };
        if registration.pd != pd {
            return Err(AccessError::WrongPd);
        }
        extent.slice(need, va, len)
    }

    /// The extent behind `key`, if `by` may use it at all.
    #[inline]
    fn permitted(
        &self,
        key: u32,
        by: Requirer,
    ) -> Result<&crate::registration::Extent, AccessError> {
        let (_, registration) = self.named(key)?;
        if registration.pd != by.pd {
            return Err(AccessError::WrongPd);
        }
        let extent = registration.extent.as_ref().ok_or(AccessError::NotBound)?;
        if let Kind::Mw { mw_type: MwType::Type2B, qpn, .. } = registration.kind
            && qpn != by.qpn
        {
            return Err(AccessError::WrongQp);
        }
        Ok(extent)
    }

    /// The registration with this key, and its id.
    #[inline]
    pub(crate) fn named(&self, key: u32) -> Result<(u64, &Registration), AccessError> {
        let found = self.keys.find(key).and_then(|place| self.registrations.at(place));
        found.ok_or(AccessError::UnknownKey { key })
    }
}
