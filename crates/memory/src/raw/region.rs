//! A handle of bytes that can be registered, and the order of a copy: the bulk first, and into the memory the end last.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use thiserror::Error;

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::crc;
use super::moves::{get_bytes, move_bytes, put_bytes, set_bytes};
use super::{on_demand, pages};
use crate::bounds::{AtomicError, CopyError, OutOfRange, span};

/// Alignment of the memory we allocate.
pub(super) const PAGE: usize = 4096;

/// From this size on it begins at a huge page, and the kernel is asked for such: it gives them where it
/// may (`transparent_hugepage` is `always` or `madvise`), on the NUMA node of the thread that touches them first.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Alignment asked of the allocator: with a larger one it would have to touch every byte to zero
/// it, instead of taking fresh pages.
const ALLOC_ALIGN: usize = 16;

/// Bytes that can be registered: memory of the library ([`Region::alloc`]) or of the program
/// (`Region::from_raw`). A clone is another handle of the same bytes.
///
/// Peers and other threads may change the bytes at any time, so they are only ever copied in and
/// out; a copy that meets a concurrent change may see some old and some new bytes.
// Its fields are private to this file, and every method checks its bounds, so the rest of the crate cannot
// misuse them.
#[derive(Clone)]
pub struct Region {
    /// Invariant: `len` bytes from here are readable and writable as long as `self` lives, unless
    /// `on_demand`.
    start: NonNull<u8>,
    len: usize,
    /// Memory that may not be mapped: the address of its first byte.
    on_demand: Option<usize>,
    /// Keeps an allocation of ours alive; foreign memory has none.
    _owner: Option<Arc<Allocation>>,
}

// SAFETY: a `Region` is an address range that stays valid for as long as the value lives (by
// `Allocation`'s Arc, or by the promise made to `Region::from_raw`), in whichever thread.
unsafe impl Send for Region {}
// SAFETY: as for Send; all methods take `&self`, make no reference to the bytes, and what
// concurrent calls on the same bytes mean is the subject of the documentation of `raw`.
unsafe impl Sync for Region {}

/// The allocator had no memory of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no memory for a region of {len} bytes; ask for less or free some")]
pub struct AllocError {
    /// Bytes asked for.
    pub len: usize,
}

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
        // `Region` that points into it holds the Arc whose last drop this is.
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
    /// time. Other programs may touch shared memory as they like. `len` must not exceed
    /// `isize::MAX`; a null `ptr` makes a region of 0 bytes.
    pub unsafe fn from_raw(ptr: *mut u8, len: usize) -> Region {
        let (start, len) = match NonNull::new(ptr) {
            Some(start) => (start, len),
            None => (NonNull::dangling(), 0),
        };
        Region { start, len, on_demand: None, _owner: None }
    }

    /// Memory of which any part may not be mapped, now or later (on-demand paging): `len` bytes from `addr`. Accesses to what is not
    /// mapped are refused, and copies cost a system call. `None` when the kernel cannot make them (before Linux 5.14, or with a filter
    /// against process_vm_readv), or the end is beyond all addresses.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw), but for what is not mapped; that is not to be unmapped while an atomic operation on it is
    /// carried out.
    pub unsafe fn on_demand(addr: usize, len: usize) -> Option<Region> {
        addr.checked_add(len)?;
        let start = NonNull::dangling();
        let region = Region { start, len, on_demand: Some(addr), _owner: None };
        on_demand::is_possible().then_some(region)
    }

    /// The same bytes, of which any part may go: memory on demand, if the kernel can look for it at each access.
    pub(crate) fn into_on_demand(self) -> Region {
        if self.on_demand.is_some() || !on_demand::is_possible() {
            return self;
        }
        Region { on_demand: Some(self.start.as_ptr().expose_provenance()), ..self }
    }

    /// All memory that this process has or will have, each byte at its address (implicit on-demand paging):
    /// [`on_demand`](Self::on_demand) from 0 on.
    ///
    /// # Safety
    /// Peers with the key of such a region change any byte of the process at any time: it is for
    /// programs that are not written in Rust, and that trust those peers. Memory must not be unmapped
    /// while an atomic operation on it is carried out.
    pub unsafe fn whole_process() -> Option<Region> {
        // SAFETY: the caller's promise.
        unsafe { Region::on_demand(0, usize::MAX) }
    }

    /// Allocates `len` zeroed bytes that start at a 4096-byte page, or at a huge page if they may lie in such.
    ///
    /// # Errors
    /// [`AllocError`] when the memory is not to be had.
    pub fn alloc(len: usize) -> Result<Region, AllocError> {
        Region::zeroed(len).ok_or(AllocError { len })
    }

    fn zeroed(len: usize) -> Option<Region> {
        let page = if len >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
        let layout = Layout::from_size_align(len.checked_add(page)?, ALLOC_ALIGN).ok()?;
        // SAFETY: the layout's size is at least PAGE, so not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let to_page = base.addr().get().wrapping_neg() % page;
        // SAFETY: to_page < page, and the allocation has len + page bytes.
        let start = unsafe { base.add(to_page) };
        pages::ask_for_huge_pages(start, len / HUGE_PAGE * HUGE_PAGE);
        let owner = Some(Arc::new(Allocation { base, layout }));
        Some(Region { start, len, on_demand: None, _owner: owner })
    }

    /// Before bytes are granted: whether they are there, where that is not certain. Of a long range only
    /// the beginning is looked at: every packet of it comes here for its own part.
    #[inline]
    pub(crate) fn is_mapped(&self, offset: usize, len: usize, write: bool) -> bool {
        self.on_demand.is_none_or(|first| fetch(first + offset, len, write))
    }

    #[cold]
    fn demand_in(&self, first: usize, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        span(offset, data.len(), self.len)?;
        on_demand::copy_in(first + offset, data);
        Ok(())
    }

    #[cold]
    fn demand_out(&self, first: usize, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        span(offset, out.len(), self.len)?;
        on_demand::copy_out(first + offset, out);
        Ok(())
    }

    /// Virtual address of the first byte. Its provenance is exposed: a program may make a pointer of the
    /// number, and poll.
    pub fn addr(&self) -> u64 {
        self.on_demand.unwrap_or_else(|| self.start.as_ptr().expose_provenance()) as u64
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `data` to `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`], with the region untouched.
    #[inline]
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        if let Some(first) = self.on_demand {
            return self.demand_in(first, offset, data);
        }
        let to = self.pointer(offset, data.len())?;
        // SAFETY: `pointer` checked that data.len() bytes from `to` are ours; `data` is a
        // reference, and no reference ever covers registered bytes, so the two do not overlap.
        unsafe { copy_in(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    /// Copies `data` to `offset` in any order: no program takes its last byte for the end, since more follows.
    ///
    /// # Errors
    /// [`OutOfRange`], with the region untouched.
    #[inline]
    pub(crate) fn write_part(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        if let Some(first) = self.on_demand {
            return self.demand_in(first, offset, data);
        }
        let to = self.pointer(offset, data.len())?;
        // SAFETY: as in `write`.
        unsafe { put_bytes(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    /// Copies `out.len()` bytes at `offset` into `out`.
    ///
    /// # Errors
    /// [`OutOfRange`], with `out` untouched.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        if let Some(first) = self.on_demand {
            return self.demand_out(first, offset, out);
        }
        let from = self.pointer(offset, out.len())?;
        // SAFETY: as in `write`, the other way round.
        unsafe { copy_out(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies `out.len()` bytes at `offset` into `out`, and returns the register of CRC-32 behind them, from 0 on. `None`, with
    /// `out` untouched: not here, not so many bytes, or not in one pass.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    pub(crate) fn read_crc(&self, offset: usize, out: &mut [u8]) -> Option<u32> {
        if self.on_demand.is_some() {
            return None;
        }
        let from = self.pointer(offset, out.len()).ok()?;
        // SAFETY: as in `read`.
        unsafe { crc::copy(from, out.as_mut_ptr(), out.len()) }
    }

    /// As there, never in one pass.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    pub(crate) fn read_crc(&self, _offset: usize, _out: &mut [u8]) -> Option<u32> {
        None
    }

    /// Copies `len` bytes at `offset` of `from` to `to` of this region, which may be another's or the same.
    #[inline]
    pub(crate) fn copy_from(
        &self,
        to: usize,
        from: &Region,
        offset: usize,
        len: usize,
    ) -> Result<(), CopyError> {
        if self.on_demand.is_some() || from.on_demand.is_some() {
            return Err(CopyError::OnDemand);
        }
        let (from, to) = (from.pointer(offset, len)?, self.pointer(to, len)?);
        // SAFETY: `pointer` checked that `len` bytes from each are registered memory.
        unsafe { copy_across(from, to, len) };
        Ok(())
    }

    /// Sets `len` bytes at `offset` to `byte`.
    ///
    /// # Errors
    /// [`OutOfRange`], with the region untouched.
    pub fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), OutOfRange> {
        if let Some(first) = self.on_demand {
            return (0..len).try_for_each(|into| self.demand_in(first, offset + into, &[byte]));
        }
        let to = self.pointer(offset, len)?;
        // SAFETY: `pointer` checked that `len` bytes from `to` are ours.
        unsafe { set_bytes(to, byte, len) };
        Ok(())
    }

    /// Reads 8 bytes at once, in host order, with sequential consistency.
    ///
    /// # Errors
    /// [`AtomicError`] when the address is not a multiple of 8 or outside the region.
    pub fn load_u64(&self, offset: usize) -> Result<u64, AtomicError> {
        Ok(self.atomic(offset)?.load(Ordering::SeqCst))
    }

    /// Writes 8 bytes at once, in host order, with sequential consistency.
    ///
    /// # Errors
    /// [`AtomicError`] when the address is not a multiple of 8 or outside the region.
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), AtomicError> {
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
        let word = if let Some(first) = self.on_demand {
            span(offset, 8, self.len)?;
            with_exposed_provenance_mut(first + offset)
        } else {
            self.pointer(offset, 8)?.cast::<u64>()
        };
        if !word.is_aligned() {
            return Err(AtomicError::Misaligned { addr: word.addr() as u64 });
        }
        // SAFETY: 8 bytes from `word` are ours for the life of `self`, and aligned. On demand: they
        // were faulted in when they were granted, and the promise to `on_demand` covers the rest.
        Ok(unsafe { AtomicU64::from_ptr(word) })
    }

    /// The address of `len` bytes at `offset`; not for memory on demand.
    #[inline]
    pub(super) fn pointer(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        span(offset, len, self.len)?;
        // SAFETY: offset <= self.len, so the result is inside the memory or one past its end.
        Ok(unsafe { self.start.as_ptr().add(offset) })
    }
}

/// The register of CRC-32 behind `bytes`, from that before them, by carry-less multiplication. `None` where that is not to be had:
/// it depends on the processor, and takes a multiple of 64 bytes.
#[inline]
pub fn multiplied_crc(before: u32, bytes: &[u8]) -> Option<u32> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return crc::look(before, bytes);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        let _ = (before, bytes);
        None
    }
}

/// Copies private bytes into registered ones, the end last.
///
/// # Safety
/// `len` bytes from `from` are readable and they do not change meanwhile; `len` bytes from `to` are
/// registered memory; the two do not overlap.
#[inline]
pub(super) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
    let end = to.addr().wrapping_add(len);
    // SAFETY: each branch copies the first bytes, then as many as it left out, so all accesses
    // are within the `len` bytes; `end` being a multiple of the word makes the word aligned.
    unsafe {
        if len >= 8 && end.is_multiple_of(8) {
            let word = from.add(len - 8).cast::<u64>().read_unaligned();
            put_bytes(from, to, len - 8);
            AtomicU64::from_ptr(to.add(len - 8).cast()).store(word, Ordering::Release);
        } else if len >= 4 && end.is_multiple_of(4) {
            let word = from.add(len - 4).cast::<u32>().read_unaligned();
            put_bytes(from, to, len - 4);
            AtomicU32::from_ptr(to.add(len - 4).cast()).store(word, Ordering::Release);
        } else if len > 0 {
            put_bytes(from, to, len - 1);
            AtomicU8::from_ptr(to.add(len - 1)).store(*from.add(len - 1), Ordering::Release);
        }
    }
}

/// Copies registered bytes into private ones.
///
/// # Safety
/// `len` bytes from `from` are registered memory; `len` bytes from `to` are writable and
/// used by nothing else; the two do not overlap.
#[inline]
unsafe fn copy_out(from: *mut u8, to: *mut u8, len: usize) {
    // SAFETY: both words are aligned and have the length that is asked for; the rest is the
    // caller's promise.
    unsafe {
        if len == 8 && from.addr().is_multiple_of(8) {
            let word = AtomicU64::from_ptr(from.cast()).load(Ordering::Acquire);
            to.cast::<u64>().write_unaligned(word);
        } else if len == 4 && from.addr().is_multiple_of(4) {
            let word = AtomicU32::from_ptr(from.cast()).load(Ordering::Acquire);
            to.cast::<u32>().write_unaligned(word);
        } else {
            get_bytes(from, to, len);
        }
    }
}

/// Copies registered bytes into other registered ones, the end last. Where the two overlap, bytes that were
/// written already may be read.
///
/// # Safety
/// `len` bytes from `from`, and from `to`, are registered memory.
#[inline]
unsafe fn copy_across(from: *mut u8, to: *mut u8, len: usize) {
    let mut last = [0; size_of::<u64>()];
    let end = len.min(last.len());
    // SAFETY: the first `len - end` bytes are moved, then the others by way of `last`, which is our own and
    // has room for `end`.
    unsafe {
        move_bytes(from, to, len - end);
        copy_out(from.add(len - end), last.as_mut_ptr(), end);
        copy_in(last.as_ptr(), to.add(len - end), end);
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:#x}, {} bytes)", self.addr(), self.len())
    }
}

#[cold]
fn fetch(addr: usize, len: usize, write: bool) -> bool {
    pages::fault_in(addr, len.min(MAX_FAULT), write).is_ok()
}

/// The most that is faulted in at once: the largest payload of a packet, many times over.
const MAX_FAULT: usize = 1 << 16;
