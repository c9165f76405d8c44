//! What a key stands for, a memory region or a window onto one, and the part of it that a check grants.
#![forbid(unsafe_code)]

use std::fmt;

use crate::access::Access;
use crate::access_error::AccessError;
use crate::bounds::{AtomicError, CopyError, OutOfRange, span};
use crate::id::PdId;
use crate::mutation::mutated;
use crate::raw::Region;
use crate::window::MwType;

/// On whose behalf a key is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirer {
    /// The protection domain of the queue pair.
    pub pd: PdId,
    /// The number of the queue pair.
    pub qpn: u32,
}

/// A region or a window. Both answer a check from the same fields.
pub(crate) struct Registration {
    pub(crate) key: u32,
    pub(crate) pd: PdId,
    pub(crate) kind: RegistrationKind,
    /// `None`: a window that is not bound.
    pub(crate) extent: Option<Extent>,
}

/// The bytes behind a registration and what may be done with them.
pub(crate) struct Extent {
    pub(crate) access: Access,
    /// Address of the first byte as users of the key see it. `start + length <= 2^64`.
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) region: Region,
    /// Where in the region the first byte is; `offset + length <= region.len()`.
    pub(crate) offset: usize,
}

pub(crate) enum RegistrationKind {
    /// A memory region, and how many windows are bound to it.
    Mr { windows: u32 },
    /// A memory window; `mr` is the id of the region it is bound to.
    Mw { mw_type: MwType, mr: u64, qpn: u32 },
}

impl Registration {
    /// The bytes behind it, for a queue pair that uses its key.
    #[inline]
    pub(crate) fn extent_for(&self, by: Requirer) -> Result<&Extent, AccessError> {
        if self.pd != by.pd {
            return Err(AccessError::WrongPd);
        }
        let extent = self.extent.as_ref().ok_or(AccessError::NotBound)?;
        if let RegistrationKind::Mw { mw_type: MwType::Type2B, qpn, .. } = self.kind
            && qpn != by.qpn
        {
            return Err(AccessError::WrongQp);
        }
        Ok(extent)
    }
}

impl Extent {
    /// The whole region at `start`; `None` if it would end beyond 2^64.
    pub(crate) fn whole(region: Region, start: u64, access: Access) -> Option<Extent> {
        let length = region.len() as u64;
        // The last byte must have an address; an end at exactly 2^64 is fine.
        start.checked_add(length.saturating_sub(1))?;
        Some(Extent { access, start, length, region, offset: 0 })
    }

    /// `va - start`, if `len` bytes from `va` lie inside. Nothing is added to `va` here, so
    /// there is nothing that could wrap at 2^64 (R32, B5 to B7).
    #[inline]
    pub(crate) fn locate(&self, va: u64, len: u64) -> Option<u64> {
        if mutated("range-wraps") && len <= self.length && va.checked_add(len).is_none() {
            return Some(0);
        }
        let into = va.checked_sub(self.start)?;
        let rest = self.length.checked_sub(into)?;
        (len <= rest).then_some(into)
    }

    /// The granted bytes, after the rights and then the range have been checked, and that they are there.
    #[inline]
    pub(crate) fn slice(
        &self,
        need: Access,
        va: u64,
        len: u64,
    ) -> Result<MrSlice<'_>, AccessError> {
        let slice = self.unmapped_slice(need, va, len)?;
        if slice.is_mapped(need) { Ok(slice) } else { Err(AccessError::NotMapped { va }) }
    }

    /// The same where no byte will be touched.
    #[inline]
    pub(crate) fn unmapped_slice(
        &self,
        need: Access,
        va: u64,
        len: u64,
    ) -> Result<MrSlice<'_>, AccessError> {
        if !self.access.contains(need) {
            return Err(AccessError::NoAccess { needed: need, granted: self.access });
        }
        let Some(into) = self.locate(va, len) else {
            return Err(self.out_of_range(va, len));
        };
        let (offset, len) = (self.offset + into as usize, len as usize);
        debug_assert!(span(offset, len, self.region.len()).is_ok());
        Ok(MrSlice::new(&self.region, offset, len))
    }

    #[cold]
    pub(crate) fn out_of_range(&self, va: u64, len: u64) -> AccessError {
        let end = self.start.saturating_add(self.length);
        AccessError::OutOfRange { va, len, start: self.start, end }
    }
}

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
        let at = self.at(offset, data.len())?;
        if mutated("write-too-long") {
            // Where it is outside of the region, nothing happens.
            let _outcome = self.region.write(at + data.len(), &[0]);
        }
        self.region.write(at, data)
    }

    /// [`copy_in`](Self::copy_in) of bytes behind which others of the same message follow: the last of them need not be written
    /// last.
    ///
    /// # Errors
    /// [`OutOfRange`], with the memory untouched.
    #[inline]
    pub fn copy_in_part(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        self.region.write_part(self.at(offset, data.len())?, data)
    }

    /// Copies `out.len()` bytes at `offset` into `out` (memory to wire).
    ///
    /// # Errors
    /// [`OutOfRange`], with `out` untouched.
    #[inline]
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.region.read(self.at(offset, out.len())?, out)
    }

    /// [`copy_out`](Self::copy_out) that works out on the way the register of CRC-32 behind what it writes to `out`, from 0 on.
    /// `None`, with `out` untouched, where that is not to be had in one pass (as for
    /// [`multiplied_crc`](crate::multiplied_crc)).
    #[inline]
    pub fn copy_out_crc(&self, offset: usize, out: &mut [u8]) -> Option<u32> {
        let at = self.at(offset, out.len()).ok()?;
        self.region.read_crc(at, out)
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
