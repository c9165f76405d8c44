//! Whether bytes lie inside memory, and what is said of those that do not.
#![forbid(unsafe_code)]

use thiserror::Error;

/// A copy that does not lie inside its region or slice; nothing was copied.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("{len} bytes at offset {offset} do not fit into {size} bytes; nothing was copied")]
pub struct OutOfRange {
    /// First byte asked for.
    pub offset: usize,
    /// Bytes asked for.
    pub len: usize,
    /// Bytes there are.
    pub size: usize,
}

/// Why an 8-byte atomic access was not done.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub enum AtomicError {
    /// The address is not a multiple of 8 (R33: NAK invalid request).
    #[error("address {addr:#x} of an 8-byte atomic is not a multiple of 8; nothing was done")]
    Misaligned {
        /// Virtual address in this process.
        addr: u64,
    },
    /// The 8 bytes do not lie inside.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

/// Why bytes were not copied from one granted slice to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CopyError {
    /// One of the two lies in a region of all memory, which is copied by way of the kernel.
    #[error("memory on demand is copied piece by piece only; nothing was copied")]
    OnDemand,
    /// The other slice is longer.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

/// Whether `len` things at `offset` lie inside `size` things. Cannot overflow.
#[inline]
pub(crate) fn span(offset: usize, len: usize, size: usize) -> Result<(), OutOfRange> {
    match size.checked_sub(offset) {
        Some(rest) if len <= rest => Ok(()),
        _ => Err(OutOfRange { offset, len, size }),
    }
}

debug_is_display!(OutOfRange, AtomicError);
