//! What a key stands for: a memory region, or a window onto one.
#![forbid(unsafe_code)]

use crate::access::Access;
use crate::access_error::AccessError;
use crate::bounds::span;
use crate::id::PdId;
use crate::raw::Region;
use crate::slice::MrSlice;
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
