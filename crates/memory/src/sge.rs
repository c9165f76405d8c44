//! Scatter/gather elements, and copying through lists of them.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::{Access, AccessError, Lkey, MemTable, MrSlice, PdId};

/// A piece of local memory in a work request, with the layout of `struct ibv_sge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Sge {
    /// First address, as the region was registered.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Key of the region.
    pub lkey: Lkey,
}

/// Which SGE of a list failed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("SGE {index}: {error}")]
pub struct SgeError {
    /// Position in the list; the length of the list if the list is too short.
    pub index: usize,
    /// The reason.
    pub error: AccessError,
}

/// A stretch of one SGE that a copy touches.
struct Piece {
    index: usize,
    lkey: u32,
    addr: Option<u64>,
    /// Where in the copied data it lies.
    at: usize,
    len: usize,
}

impl MemTable {
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
        self.check_local_at(lkey.0, pd, need, va, len as u64)
            .map_err(|error| SgeError { index: 0, error })
    }

    fn granted(&self, piece: &Piece, pd: PdId, need: Access) -> Result<MrSlice<'_>, SgeError> {
        let (key, len) = (piece.lkey, piece.len as u64);
        let checked = match piece.addr {
            Some(va) => self.check_local_at(key, pd, need, va, len),
            // An address beyond 2^64: no registration reaches there.
            None => self.check_local_at(key, pd, need, u64::MAX, u64::MAX),
        };
        checked.map_err(|error| SgeError { index: piece.index, error })
    }
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
