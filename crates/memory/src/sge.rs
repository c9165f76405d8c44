//! Scatter/gather elements, and which parts of a list a copy touches.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::access_error::AccessError;
use crate::key::Lkey;

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
pub(crate) struct Piece {
    pub(crate) index: usize,
    pub(crate) lkey: u32,
    /// `None`: beyond 2^64.
    pub(crate) addr: Option<u64>,
    /// Where in the copied data it lies.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// The usual case: the address of the copy if it lies within the only SGE, and is not empty.
#[inline]
pub(crate) fn only_sge(sges: &[Sge], offset: u64, len: usize) -> Option<u64> {
    let &[sge] = sges else { return None };
    let rest = u64::from(sge.length).checked_sub(offset)?;
    if len == 0 || len as u64 > rest {
        return None;
    }
    sge.addr.checked_add(offset)
}

/// The pieces of a list that `len` bytes from `offset` touch; at the end an error if the list
/// has fewer bytes.
pub(crate) struct Pieces<'s> {
    sges: &'s [Sge],
    index: usize,
    /// Bytes still to skip.
    skip: u64,
    at: usize,
    len: usize,
}

impl<'s> Pieces<'s> {
    pub(crate) fn new(sges: &'s [Sge], offset: u64, len: usize) -> Self {
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
