//! The part of a registration that a check has granted.
#![forbid(unsafe_code)]

use std::fmt;

use crate::access::Access;
use crate::bounds::{AtomicError, CopyError, OutOfRange, span};
use crate::raw::Region;

/// Bytes that one check has granted. It borrows the table, so the registration cannot end while
/// the slice lives, and it is never a Rust slice: bytes are copied in and out.
///
/// ```compile_fail,E0502
/// # use uroce_memory::{Access, MemLimits, MemTable, Region, Requirer};
/// # let mut table = MemTable::new([1; 32], MemLimits::default());
/// # let pd = table.alloc_pd().unwrap();
/// # let mr = table.reg_mr(pd, Region::alloc(64).unwrap(), 0, Access::REMOTE_READ).unwrap();
/// let by = Requirer { pd, qpn: 17 };
/// let slice = table.check(mr.rkey.0, by, Access::REMOTE_READ, 0, 64).unwrap();
/// table.dereg_mr(mr.id); // not while `slice` is in use
/// slice.copy_out(0, &mut [0; 64]);
/// ```
#[derive(Clone, Copy)]
pub struct MrSlice<'t> {
    region: &'t Region,
    offset: usize,
    len: usize,
}

impl<'t> MrSlice<'t> {
    /// The caller has checked that `offset` and `len` lie in `region`; if they do not, every
    /// access of the slice fails.
    #[inline]
    pub(crate) fn new(region: &'t Region, offset: usize, len: usize) -> Self {
        debug_assert!(span(offset, len, region.len()).is_ok(), "a check precedes every slice");
        MrSlice { region, offset, len }
    }

    /// Whether the program has such memory there; certain, except for a region of all its memory.
    #[inline]
    pub(crate) fn is_mapped(&self, need: Access) -> bool {
        self.region.is_mapped(self.offset, self.len, need.intersects(Access::CHANGE))
    }

    /// Number of bytes granted.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte is granted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `data` to `offset` (wire to memory).
    ///
    /// # Errors
    /// [`OutOfRange`], with the memory untouched.
    // Always: it is the way of each packet that arrives, from few places.
    #[inline(always)]
    pub fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        self.region.write(self.at(offset, data.len())?, data)
    }

    /// Copies `out.len()` bytes at `offset` into `out` (memory to wire).
    ///
    /// # Errors
    /// [`OutOfRange`], with `out` untouched.
    #[inline]
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.region.read(self.at(offset, out.len())?, out)
    }

    /// Copies all bytes of `from` to the beginning of this slice (memory to memory), the end last. `from` may
    /// belong to another table; where the two overlap, the result is a mixture.
    ///
    /// # Errors
    /// [`CopyError`], with nothing written.
    #[inline]
    pub fn copy_from(&self, from: &MrSlice<'_>) -> Result<(), CopyError> {
        let to = self.at(0, from.len)?;
        self.region.copy_from(to, from.region, from.offset, from.len)
    }

    /// Adds `value` (wrapping) to the 8 bytes at `offset` and returns what was there (R34).
    ///
    /// # Errors
    /// [`AtomicError`], with the memory untouched.
    pub fn fetch_add(&self, offset: usize, value: u64) -> Result<u64, AtomicError> {
        self.region.fetch_add(self.at(offset, 8)?, value)
    }

    /// Writes `swap` to the 8 bytes at `offset` if they equal `compare`; returns what was there.
    ///
    /// # Errors
    /// [`AtomicError`], with the memory untouched.
    pub fn compare_swap(&self, offset: usize, compare: u64, swap: u64) -> Result<u64, AtomicError> {
        self.region.compare_swap(self.at(offset, 8)?, compare, swap)
    }

    /// Writes 8 bytes at once, in host order (ATOMIC_WRITE).
    ///
    /// # Errors
    /// [`AtomicError`], with the memory untouched.
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), AtomicError> {
        self.region.store_u64(self.at(offset, 8)?, value)
    }

    /// Reads 8 bytes at once, in host order.
    ///
    /// # Errors
    /// [`AtomicError`].
    pub fn load_u64(&self, offset: usize) -> Result<u64, AtomicError> {
        self.region.load_u64(self.at(offset, 8)?)
    }

    /// The offset in the region of `len` bytes at `offset` of the slice.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> Result<usize, OutOfRange> {
        span(offset, len, self.len)?;
        Ok(self.offset + offset)
    }
}

impl fmt::Debug for MrSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MrSlice({} bytes at offset {})", self.len, self.offset)
    }
}
