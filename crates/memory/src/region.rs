//! A handle of bytes that can be registered.
#![forbid(unsafe_code)]

use std::fmt;

use thiserror::Error;

use crate::raw::Memory;
use crate::slice::AtomicError;

/// Bytes that can be registered: memory of the library ([`Region::alloc`]) or of somebody else
/// (`Region::from_raw`). A clone is another handle of the same bytes.
///
/// Peers and other threads may change the bytes at any time, so they are only ever copied in and
/// out; a copy that meets a concurrent change may see some old and some new bytes.
#[derive(Clone)]
pub struct Region {
    pub(crate) memory: Memory,
}

/// The allocator had no memory of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no memory for a region of {len} bytes; ask for less or free some")]
pub struct AllocError {
    /// Bytes asked for.
    pub len: usize,
}

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

impl Region {
    /// Allocates `len` zeroed bytes that start at a 4096-byte page.
    ///
    /// # Errors
    /// [`AllocError`] when the memory is not to be had.
    pub fn alloc(len: usize) -> Result<Region, AllocError> {
        Memory::alloc(len).map(|memory| Region { memory }).ok_or(AllocError { len })
    }

    /// Virtual address of the first byte.
    pub fn addr(&self) -> u64 {
        self.memory.addr()
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `out.len()` bytes at `offset` into `out`.
    ///
    /// # Errors
    /// [`OutOfRange`], with `out` untouched.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        self.memory.copy_out(offset, out)
    }

    /// Copies `data` to `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`], with the region untouched.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        self.memory.copy_in(offset, data)
    }

    /// Sets `len` bytes at `offset` to `byte`.
    ///
    /// # Errors
    /// [`OutOfRange`], with the region untouched.
    pub fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), OutOfRange> {
        self.memory.fill(offset, len, byte)
    }

    /// Reads 8 bytes at once, in host order, with sequential consistency.
    ///
    /// # Errors
    /// [`AtomicError`] when the address is not a multiple of 8 or outside the region.
    pub fn load_u64(&self, offset: usize) -> Result<u64, AtomicError> {
        self.memory.load_u64(offset)
    }

    /// Writes 8 bytes at once, in host order, with sequential consistency.
    ///
    /// # Errors
    /// [`AtomicError`] when the address is not a multiple of 8 or outside the region.
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), AtomicError> {
        self.memory.store_u64(offset, value)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:#x}, {} bytes)", self.addr(), self.len())
    }
}

debug_is_display!(OutOfRange);
