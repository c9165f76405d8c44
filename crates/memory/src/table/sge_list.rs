//! Copying through lists of scatter/gather elements.
#![forbid(unsafe_code)]

use super::MemTable;
use crate::access::Access;
use crate::id::PdId;
use crate::key::Lkey;
use crate::sge::{Piece, Pieces, Sge, SgeError, only_sge};
use crate::slice::MrSlice;

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
