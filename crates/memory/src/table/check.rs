//! The one check between a request and memory, and the copies through it: at an address, or through a list of
//! scatter/gather elements.
#![forbid(unsafe_code)]

use super::MemTable;
use crate::access::Access;
use crate::access_error::AccessError;
use crate::id::PdId;
use crate::key::Lkey;
use crate::registration::{MrSlice, RegistrationKind, Requirer};
use crate::sge::{Sge, SgeError};

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
    fn check_sge(
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

    /// Copies `out.len()` bytes, starting `offset` bytes into the list, to `out` (memory to
    /// wire). Only the bytes touched are checked, as NICs do: an SGE that is not reached, or has
    /// length 0, may hold anything.
    ///
    /// # Errors
    /// [`SgeError`]; `out` may then be partly written.
    // Always: it is the way of each packet that leaves, from several places.
    #[inline(always)]
    pub fn gather(
        &self,
        pd: PdId,
        sges: &[Sge],
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), SgeError> {
        if let Some(addr) = only_sge(sges, offset, out.len()) {
            let slice = self.only_granted(sges[0].lkey, addr, out.len(), pd, Access::empty())?;
            slice.copy_out(0, out).expect("the slice has the length of the copy");
            return Ok(());
        }
        for piece in Pieces::new(sges, offset, out.len()) {
            let piece = piece?;
            let slice = self.granted(&piece, pd, Access::empty())?;
            let part = &mut out[piece.at..piece.at + piece.len];
            slice.copy_out(0, part).expect("the slice has the length of the piece");
        }
        Ok(())
    }

    /// Copies `data` to the list, starting `offset` bytes into it (wire to memory). Needs
    /// [`Access::LOCAL_WRITE`]; all SGEs touched are checked before the first byte is written.
    ///
    /// # Errors
    /// [`SgeError`], with nothing written.
    #[inline]
    pub fn scatter(
        &self,
        pd: PdId,
        sges: &[Sge],
        offset: u64,
        data: &[u8],
    ) -> Result<(), SgeError> {
        if let Some(addr) = only_sge(sges, offset, data.len()) {
            let slice =
                self.only_granted(sges[0].lkey, addr, data.len(), pd, Access::LOCAL_WRITE)?;
            slice.copy_in(0, data).expect("the slice has the length of the copy");
            return Ok(());
        }
        for piece in Pieces::new(sges, offset, data.len()) {
            self.granted(&piece?, pd, Access::LOCAL_WRITE)?;
        }
        for piece in Pieces::new(sges, offset, data.len()) {
            let piece = piece?;
            let slice = self.granted(&piece, pd, Access::LOCAL_WRITE)?;
            let part = &data[piece.at..piece.at + piece.len];
            slice.copy_in(0, part).expect("the slice has the length of the piece");
        }
        Ok(())
    }

    #[inline]
    fn only_granted(
        &self,
        lkey: Lkey,
        va: u64,
        len: usize,
        pd: PdId,
        need: Access,
    ) -> Result<MrSlice<'_>, SgeError> {
        self.check_sge(lkey.0, pd, need, va, len as u64)
            .map_err(|error| SgeError { index: 0, error })
    }

    fn granted(&self, piece: &Piece, pd: PdId, need: Access) -> Result<MrSlice<'_>, SgeError> {
        let (key, len) = (piece.lkey, piece.len as u64);
        let checked = match piece.addr {
            Some(va) => self.check_sge(key, pd, need, va, len),
            // An address beyond 2^64: no registration reaches there.
            None => self.check_sge(key, pd, need, u64::MAX, u64::MAX),
        };
        checked.map_err(|error| SgeError { index: piece.index, error })
    }
}

/// A stretch of one SGE that a copy touches.
struct Piece {
    index: usize,
    lkey: u32,
    /// `None`: beyond 2^64.
    addr: Option<u64>,
    /// Where in the copied data it lies.
    at: usize,
    len: usize,
}

/// The usual case: the address of the copy if it lies within the only SGE, and is not empty.
#[inline]
fn only_sge(sges: &[Sge], offset: u64, len: usize) -> Option<u64> {
    let &[sge] = sges else { return None };
    let rest = u64::from(sge.length).checked_sub(offset)?;
    if len == 0 || len as u64 > rest {
        return None;
    }
    sge.addr.checked_add(offset)
}

/// The pieces of a list that `len` bytes from `offset` touch; at the end an error if the list
/// has fewer bytes.
struct Pieces<'s> {
    sges: &'s [Sge],
    index: usize,
    /// Bytes still to skip.
    skip: u64,
    at: usize,
    len: usize,
}

impl<'s> Pieces<'s> {
    fn new(sges: &'s [Sge], offset: u64, len: usize) -> Self {
        Pieces { sges, index: 0, skip: offset, at: 0, len }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, SgeError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.len {
            let missing = self.len - self.at;
            let Some(sge) = self.sges.get(self.index) else {
                self.at = self.len;
                let error = AccessError::ListTooShort { missing: missing as u64 };
                return Some(Err(SgeError { index: self.index, error }));
            };
            let (index, length) = (self.index, u64::from(sge.length));
            self.index += 1;
            if self.skip >= length {
                self.skip -= length;
                continue;
            }
            let (skipped, at) = (std::mem::take(&mut self.skip), self.at);
            let len = missing.min((length - skipped) as usize);
            self.at += len;
            let addr = sge.addr.checked_add(skipped);
            return Some(Ok(Piece { index, lkey: sge.lkey.0, addr, at, len }));
        }
        None
    }
}
