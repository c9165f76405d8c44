//! The one check between a request and memory.
#![forbid(unsafe_code)]

use super::MemTable;
use crate::access::Access;
use crate::access_error::AccessError;
use crate::id::PdId;
use crate::registration::{RegistrationKind, Requirer};
use crate::sge::Sge;
use crate::slice::MrSlice;

impl MemTable {
    /// Checks a remote access and returns the bytes it may touch: the key exists, its protection
    /// domain is the queue pair's, a window is bound, a type 2 window is used through its queue pair,
    /// the rights cover `need`, `[va, va + len)` lies inside without wrapping at 2^64, and memory on
    /// demand is there (R28, R31, R32, R96; B5 to B7).
    ///
    /// A `len` of 0 is checked like any other (the address may be the one after the last byte);
    /// where the key of an empty access does not matter (R29), there is no call.
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
        self.registrations.named(key)?.1.extent_for(by)?.slice(need, va, len)
    }

    /// Copies the payload of a WRITE (wire to memory), after the same check for
    /// [`Access::REMOTE_WRITE`].
    ///
    /// # Errors
    /// [`AccessError`], with nothing written.
    #[inline]
    pub fn write(&self, key: u32, by: Requirer, va: u64, data: &[u8]) -> Result<(), AccessError> {
        let slice = self.check(key, by, Access::REMOTE_WRITE, va, data.len() as u64)?;
        slice.copy_in(0, data).expect("the slice has the length of the copy");
        Ok(())
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
        let extent = self.registrations.named(key)?.1.extent_for(by)?;
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
        self.check_sge(sge.lkey.0, pd, need, sge.addr, u64::from(sge.length))
    }

    #[inline]
    pub(super) fn check_sge(
        &self,
        key: u32,
        pd: PdId,
        need: Access,
        va: u64,
        len: u64,
    ) -> Result<MrSlice<'_>, AccessError> {
        let (_, registration) = self.registrations.named(key)?;
        let (RegistrationKind::Mr { .. }, Some(extent)) =
            (&registration.kind, &registration.extent)
        else {
            return Err(AccessError::UnknownKey { key });
        };
        if registration.pd != pd {
            return Err(AccessError::WrongPd);
        }
        extent.slice(need, va, len)
    }
}
