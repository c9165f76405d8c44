//! All unsafe code of the crate: the memory behind a [`Region`].
#![deny(clippy::undocumented_unsafe_blocks)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::region::{OutOfRange, Region};
use crate::slice::AtomicError;

/// Alignment of the memory we allocate.
const PAGE: usize = 4096;

/// Alignment asked of the allocator: with a larger one it would have to touch every byte to zero
/// it, instead of taking fresh pages.
const ALLOC_ALIGN: usize = 16;

/// Memory that is copied from and to by pointer only. Its fields are private to this file, and
/// every method checks its bounds, so the rest of the crate cannot misuse it.
#[derive(Clone)]
pub(crate) struct Memory {
    /// Invariant: `len` bytes from here are readable and writable as long as `self` lives.
    start: NonNull<u8>,
    len: usize,
    /// Keeps an allocation of ours alive; foreign memory has none.
    _owner: Option<Arc<Allocation>>,
}

// SAFETY: a `Memory` is an address range that stays valid for as long as the value lives (by
// `Allocation`'s Arc, or by the promise made to `Region::from_raw`), in whichever thread.
unsafe impl Send for Memory {}
// SAFETY: as for Send; all methods take `&self`, make no reference to the bytes, and what
// concurrent calls on the same bytes mean is the subject of the module documentation.
unsafe impl Sync for Memory {}

/// Memory from the global allocator.
struct Allocation {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is only ever freed, once, by whichever thread drops the last Arc.
unsafe impl Send for Allocation {}
// SAFETY: a shared reference to it gives no access to anything.
unsafe impl Sync for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `base` came from `alloc_zeroed` with this layout and is freed only here; every
        // `Memory` that points into it holds the Arc whose last drop this is.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

impl Region {
    /// Makes a region of memory that the library does not own.
    ///
    /// # Safety
    /// As long as any clone of the region exists, a registration included, the `len` bytes from
    /// `ptr` must be readable and writable, and the program must not hold a Rust reference to
    /// any of them, nor touch them except by raw pointers and atomics: peers change them at any
    /// time. `ptr` must not be null, even when `len` is 0; `len` must not exceed `isize::MAX`.
    pub unsafe fn from_raw(ptr: *mut u8, len: usize) -> Region {
        let start = NonNull::new(ptr).unwrap_or(NonNull::dangling());
        Region {
            memory: Memory {
                start,
                len,
                _owner: None,
            },
        }
    }
}

impl Memory {
    /// `len` zeroed bytes on a page boundary; `None` when there is no memory.
    pub(crate) fn alloc(len: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(len.checked_add(PAGE)?, ALLOC_ALIGN).ok()?;
        // SAFETY: the layout's size is at least PAGE, so not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let to_page = base.addr().get().wrapping_neg() % PAGE;
        // SAFETY: to_page < PAGE, and the allocation has len + PAGE bytes.
        let start = unsafe { base.add(to_page) };
        Some(Memory {
            start,
            len,
            _owner: Some(Arc::new(Allocation { base, layout })),
        })
    }

    pub(crate) fn addr(&self) -> u64 {
        self.start.addr().get() as u64
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        let to = self.pointer(offset, data.len())?;
        // SAFETY: `pointer` checked that data.len() bytes from `to` are ours; `data` is a
        // reference, and no reference ever covers registered bytes, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    #[inline]
    pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.pointer(offset, out.len())?;
        // SAFETY: as in `copy_in`, the other way round.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    pub(crate) fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), OutOfRange> {
        let to = self.pointer(offset, len)?;
        // SAFETY: `pointer` checked that `len` bytes from `to` are ours.
        unsafe { std::ptr::write_bytes(to, byte, len) };
        Ok(())
    }

    pub(crate) fn load_u64(&self, offset: usize) -> Result<u64, AtomicError> {
        Ok(self.atomic(offset)?.load(Ordering::SeqCst))
    }

    pub(crate) fn store_u64(&self, offset: usize, value: u64) -> Result<(), AtomicError> {
        self.atomic(offset)?.store(value, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn fetch_add(&self, offset: usize, value: u64) -> Result<u64, AtomicError> {
        Ok(self.atomic(offset)?.fetch_add(value, Ordering::SeqCst))
    }

    pub(crate) fn compare_swap(
        &self,
        offset: usize,
        compare: u64,
        swap: u64,
    ) -> Result<u64, AtomicError> {
        let word = self.atomic(offset)?;
        let seen = word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
        Ok(seen.unwrap_or_else(|other| other))
    }

    /// The aligned word at `offset`. The one place where a reference covers registered bytes: to
    /// an atomic, which is made to be changed under a shared reference.
    fn atomic(&self, offset: usize) -> Result<&AtomicU64, AtomicError> {
        let word = self.pointer(offset, 8)?.cast::<u64>();
        if !word.is_aligned() {
            return Err(AtomicError::Misaligned {
                addr: word.addr() as u64,
            });
        }
        // SAFETY: 8 bytes from `word` are ours for the life of `self`, and aligned.
        Ok(unsafe { AtomicU64::from_ptr(word) })
    }

    /// The address of `len` bytes at `offset`.
    #[inline]
    fn pointer(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        span(offset, len, self.len)?;
        // SAFETY: offset <= self.len, so the result is inside the memory or one past its end.
        Ok(unsafe { self.start.as_ptr().add(offset) })
    }
}

/// Whether `len` things at `offset` lie inside `size` things. Cannot overflow.
#[inline]
pub(crate) fn span(offset: usize, len: usize, size: usize) -> Result<(), OutOfRange> {
    match size.checked_sub(offset) {
        Some(rest) if len <= rest => Ok(()),
        _ => Err(OutOfRange { offset, len, size }),
    }
}
