//! All unsafe code of the crate: the memory behind a [`Region`], and copying to and from it.
//!
//! # Who else touches these bytes
//!
//! Registered memory is changed by peers (through any thread that drives the device), by the
//! program that registered it, and by other programs if it is shared. Nobody can be made to take
//! a lock, so a copy may always meet a change. Three rules make that harmless:
//!
//! 1. **No reference.** No `&[u8]`, `&mut [u8]` or `&u8` to registered bytes is ever made, so the
//!    compiler is never told that they hold still. The only references are to `AtomicU64` and
//!    smaller atomics, which are made to change.
//! 2. **No plain access.** On x86-64 a copy is inline assembly, which the compiler cannot see into,
//!    split or repeat: a loop of 16-byte moves, or for long copies one `rep movsb`; elsewhere (and
//!    under Miri) it is a loop of relaxed atomics. Each is, in the terms of the memory model, a
//!    sequence of atomic accesses of at most a word, so two copies that meet are a race but not a
//!    *data race*: no undefined behaviour, only a mixture.
//! 3. **Copied once, then judged.** Nothing in the crate decides anything by a registered byte;
//!    what is copied out is private and does not change again.
//!
//! One gap is known: the model leaves overlapping atomics of different sizes undefined when they
//! race (a byte of a copy against an 8-byte atomic, say). Every processor defines it, no copy
//! here is visible to the optimiser as such a pair, and there is no way to write it better today.
//!
//! # What is guaranteed
//!
//! * A copy touches the bytes of its range and no others, each once.
//! * A copy that meets a change ends up with old bytes, new bytes, or some of both.
//! * `fetch_add`, `compare_swap`, `load_u64` and `store_u64` are real atomics (SeqCst) towards
//!   each other and towards the program's own atomics on the same address.
//! * A copy of 8 or 4 bytes at an address that is a multiple of its length is one access.
//! * Of a copy into the memory, the last bytes become visible last: the last 8 if they are
//!   an aligned word, else the last 4 likewise, else the last one. A program that polls the end
//!   of a message, with acquire ordering, sees the whole message once the end is there. (The
//!   standard promises nothing before the completion, but programs do poll.)
mod long;
mod on_demand;
mod pages;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(all(target_arch = "x86_64", any(not(miri), test)))]
use long::strings_from;
pub use long::{LongCopies, long_copies, set_long_copies};
pub use pages::fault_in;

use crate::region::{OutOfRange, Region};
use crate::slice::{AtomicError, CopyError};

/// Alignment of the memory we allocate.
const PAGE: usize = 4096;

/// From this size on it begins at a huge page, and the kernel is asked for such: it gives them where it
/// may (`transparent_hugepage` is `always` or `madvise`), on the NUMA node of whoever touches them first.
const HUGE_PAGE: usize = 2 << 20;

/// Alignment asked of the allocator: with a larger one it would have to touch every byte to zero
/// it, instead of taking fresh pages.
const ALLOC_ALIGN: usize = 16;

/// Memory that is copied from and to by pointer only. Its fields are private to this file, and
/// every method checks its bounds, so the rest of the crate cannot misuse it.
#[derive(Clone)]
pub(crate) struct Memory {
    /// Invariant: `len` bytes from here are readable and writable as long as `self` lives, unless
    /// `on_demand`.
    start: NonNull<u8>,
    len: usize,
    /// It is all addresses of this process, from 0, and much of it may not be mapped.
    on_demand: bool,
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
    /// time. Other programs may touch shared memory as they like. `len` must not exceed
    /// `isize::MAX`; a null `ptr` makes a region of 0 bytes.
    pub unsafe fn from_raw(ptr: *mut u8, len: usize) -> Region {
        let (start, len) = match NonNull::new(ptr) {
            Some(start) => (start, len),
            None => (NonNull::dangling(), 0),
        };
        Region { memory: Memory { start, len, on_demand: false, _owner: None } }
    }

    /// All memory that this process has or will have, each byte at its address (implicit on-demand
    /// paging). Accesses to what is not mapped are refused, and copies cost a system call. `None` when
    /// the kernel cannot make them (before Linux 5.14, or with a filter against process_vm_readv).
    ///
    /// # Safety
    /// Peers with the key of such a region change any byte of the process at any time: it is for
    /// programs that are not written in Rust, and that trust those peers. Memory must not be unmapped
    /// while an atomic operation on it is carried out.
    pub unsafe fn whole_process() -> Option<Region> {
        let start = NonNull::dangling();
        let memory = Memory { start, len: usize::MAX, on_demand: true, _owner: None };
        on_demand::is_possible().then_some(Region { memory })
    }
}

impl Memory {
    /// `len` zeroed bytes on a boundary of the pages that it may lie in; `None` when there is no memory.
    pub(crate) fn alloc(len: usize) -> Option<Memory> {
        let page = if len >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
        let layout = Layout::from_size_align(len.checked_add(page)?, ALLOC_ALIGN).ok()?;
        // SAFETY: the layout's size is at least PAGE, so not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let to_page = base.addr().get().wrapping_neg() % page;
        // SAFETY: to_page < page, and the allocation has len + page bytes.
        let start = unsafe { base.add(to_page) };
        pages::ask_for_huge_pages(start, len / HUGE_PAGE * HUGE_PAGE);
        let owner = Some(Arc::new(Allocation { base, layout }));
        Some(Memory { start, len, on_demand: false, _owner: owner })
    }

    /// Before bytes are granted: whether they are there, where that is not certain. Of a long range only
    /// the beginning is looked at: every packet of it comes here for its own part.
    #[inline]
    pub(crate) fn is_mapped(&self, offset: usize, len: usize, write: bool) -> bool {
        !self.on_demand || fetch(offset, len, write)
    }

    #[cold]
    fn demand_in(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        span(offset, data.len(), self.len)?;
        on_demand::copy_in(offset, data);
        Ok(())
    }

    #[cold]
    fn demand_out(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        span(offset, out.len(), self.len)?;
        on_demand::copy_out(offset, out);
        Ok(())
    }

    /// The provenance is exposed, so that a program may make a pointer of the number and poll.
    pub(crate) fn addr(&self) -> u64 {
        if self.on_demand { 0 } else { self.start.as_ptr().expose_provenance() as u64 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn copy_in(&self, offset: usize, data: &[u8]) -> Result<(), OutOfRange> {
        if self.on_demand {
            return self.demand_in(offset, data);
        }
        let to = self.pointer(offset, data.len())?;
        // SAFETY: `pointer` checked that data.len() bytes from `to` are ours; `data` is a
        // reference, and no reference ever covers registered bytes, so the two do not overlap.
        unsafe { copy_in(data.as_ptr(), to, data.len()) };
        Ok(())
    }

    #[inline]
    pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfRange> {
        if self.on_demand {
            return self.demand_out(offset, out);
        }
        let from = self.pointer(offset, out.len())?;
        // SAFETY: as in `Memory::copy_in`, the other way round.
        unsafe { copy_out(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies `len` bytes at `offset` of `from` to `to` of this memory, which may be another's or the same.
    #[inline]
    pub(crate) fn copy_from(
        &self,
        to: usize,
        from: &Memory,
        offset: usize,
        len: usize,
    ) -> Result<(), CopyError> {
        if self.on_demand || from.on_demand {
            return Err(CopyError::OnDemand);
        }
        let (from, to) = (from.pointer(offset, len)?, self.pointer(to, len)?);
        // SAFETY: `pointer` checked that `len` bytes from each are registered memory.
        unsafe { copy_across(from, to, len) };
        Ok(())
    }

    pub(crate) fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), OutOfRange> {
        if self.on_demand {
            return (0..len).try_for_each(|into| self.demand_in(offset + into, &[byte]));
        }
        let to = self.pointer(offset, len)?;
        // SAFETY: `pointer` checked that `len` bytes from `to` are ours.
        unsafe { set_bytes(to, byte, len) };
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
        let word = if self.on_demand {
            span(offset, 8, self.len)?;
            with_exposed_provenance_mut(offset)
        } else {
            self.pointer(offset, 8)?.cast::<u64>()
        };
        if !word.is_aligned() {
            return Err(AtomicError::Misaligned { addr: word.addr() as u64 });
        }
        // SAFETY: 8 bytes from `word` are ours for the life of `self`, and aligned. On demand: they
        // were faulted in when they were granted, and the promise to `whole_process` covers the rest.
        Ok(unsafe { AtomicU64::from_ptr(word) })
    }

    /// The address of `len` bytes at `offset`; not for memory on demand.
    #[inline]
    fn pointer(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        span(offset, len, self.len)?;
        // SAFETY: offset <= self.len, so the result is inside the memory or one past its end.
        Ok(unsafe { self.start.as_ptr().add(offset) })
    }
}

#[cold]
fn fetch(addr: usize, len: usize, write: bool) -> bool {
    pages::fault_in(addr, len.min(MAX_FAULT), write).is_ok()
}

/// The most that is faulted in at once: the largest payload of a packet, many times over.
const MAX_FAULT: usize = 1 << 16;

/// Whether `len` things at `offset` lie inside `size` things. Cannot overflow.
#[inline]
pub(crate) fn span(offset: usize, len: usize, size: usize) -> Result<(), OutOfRange> {
    match size.checked_sub(offset) {
        Some(rest) if len <= rest => Ok(()),
        _ => Err(OutOfRange { offset, len, size }),
    }
}

/// Copies private bytes into registered ones, the end last.
///
/// # Safety
/// `len` bytes from `from` are readable and nobody changes them; `len` bytes from `to` are
/// registered memory; the two do not overlap.
#[inline]
unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
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
/// `len` bytes from `from` are registered memory; `len` bytes from `to` are writable and nobody
/// else uses them; the two do not overlap.
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

#[cfg(all(target_arch = "x86_64", not(miri)))]
use string_moves::{get_bytes, move_bytes, put_bytes, set_bytes};
#[cfg(any(not(target_arch = "x86_64"), miri))]
use word_moves::{get_bytes, move_bytes, put_bytes, set_bytes};

/// Copies by instructions of x86-64 that the compiler does not see. (The direction flag is clear at the start of
/// every assembly block, by the rules of the ABI.)
#[cfg(all(target_arch = "x86_64", any(not(miri), test)))]
mod string_moves {
    use std::arch::asm;

    use super::strings_from;

    /// # Safety
    /// As for [`super::copy_in`].
    #[inline]
    pub(super) unsafe fn put_bytes(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the same promise; the two do the same.
        unsafe {
            if len < strings_from() {
                loop_bytes(from, to, len)
            } else {
                move_string(from, to, len)
            }
        }
    }

    /// # Safety
    /// As for [`super::copy_in`].
    #[inline]
    pub(super) unsafe fn move_string(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: reads and writes `len` bytes, which the caller vouches for, and nothing else.
        unsafe {
            asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                 options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As for [`super::copy_in`].
    #[inline]
    pub(super) unsafe fn loop_bytes(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: 64 bytes at a time while there are so many, then 32, 16, 8, 4, 2 and 1 where that bit of
        // what is left is set: together the `len` bytes that the caller vouches for, each once.
        unsafe {
            asm!(
                "cmp {len}, 64",
                "jb 3f",
                "2:",
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "sub {len}, 64",
                "cmp {len}, 64",
                "jae 2b",
                "3:",
                "test {len:e}, 32",
                "jz 4f",
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "add {from}, 32",
                "add {to}, 32",
                "4:",
                "test {len:e}, 16",
                "jz 5f",
                "movups {a}, [{from}]",
                "movups [{to}], {a}",
                "add {from}, 16",
                "add {to}, 16",
                "5:",
                "test {len:e}, 8",
                "jz 6f",
                "mov {word}, [{from}]",
                "mov [{to}], {word}",
                "add {from}, 8",
                "add {to}, 8",
                "6:",
                "test {len:e}, 4",
                "jz 7f",
                "mov {word:e}, [{from}]",
                "mov [{to}], {word:e}",
                "add {from}, 4",
                "add {to}, 4",
                "7:",
                "test {len:e}, 2",
                "jz 8f",
                "mov {word:x}, [{from}]",
                "mov [{to}], {word:x}",
                "add {from}, 2",
                "add {to}, 2",
                "8:",
                "test {len:e}, 1",
                "jz 9f",
                "mov {word:l}, [{from}]",
                "mov [{to}], {word:l}",
                "9:",
                len = inout(reg) len => _,
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                word = out(reg) _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
    }

    /// # Safety
    /// As for [`super::copy_out`].
    #[inline]
    pub(super) unsafe fn get_bytes(from: *mut u8, to: *mut u8, len: usize) {
        // SAFETY: the instructions are the same in both directions.
        unsafe { put_bytes(from, to, len) }
    }

    /// # Safety
    /// As for [`super::copy_across`].
    #[inline]
    pub(super) unsafe fn move_bytes(from: *mut u8, to: *mut u8, len: usize) {
        // SAFETY: the instructions are the same. Where the two overlap they read what they have written.
        unsafe { put_bytes(from, to, len) }
    }

    /// # Safety
    /// `len` bytes from `to` are registered memory.
    #[inline]
    pub(super) unsafe fn set_bytes(to: *mut u8, byte: u8, len: usize) {
        // SAFETY: writes `len` bytes, which the caller vouches for, and nothing else.
        unsafe {
            asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte,
                 options(nostack, preserves_flags));
        }
    }
}

/// Copies by relaxed atomics: words in the aligned middle, bytes at the ends.
#[cfg(any(not(target_arch = "x86_64"), miri, test))]
mod word_moves {
    use super::{AtomicU8, AtomicU64, Ordering::Relaxed};

    /// Calls `byte` or `word` for every offset, words where `start + offset` is aligned.
    #[inline]
    fn walk(start: usize, len: usize, mut byte: impl FnMut(usize), mut word: impl FnMut(usize)) {
        let head = (start.wrapping_neg() % 8).min(len);
        let words = head + (len - head) / 8 * 8;
        (0..head).for_each(&mut byte);
        (head..words).step_by(8).for_each(&mut word);
        (words..len).for_each(&mut byte);
    }

    /// # Safety
    /// As for [`super::copy_in`].
    pub(super) unsafe fn put_bytes(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: `walk` gives offsets i < len, and i + 8 <= len and aligned for words.
        let byte = |i| unsafe { AtomicU8::from_ptr(to.add(i)).store(*from.add(i), Relaxed) };
        // SAFETY: as above.
        let word = |i| unsafe {
            let value = from.add(i).cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(to.add(i).cast()).store(value, Relaxed);
        };
        walk(to.addr(), len, byte, word);
    }

    /// # Safety
    /// As for [`super::copy_out`].
    pub(super) unsafe fn get_bytes(from: *mut u8, to: *mut u8, len: usize) {
        // SAFETY: `walk` gives offsets i < len, and i + 8 <= len and aligned for words.
        let byte = |i| unsafe { *to.add(i) = AtomicU8::from_ptr(from.add(i)).load(Relaxed) };
        // SAFETY: as above.
        let word = |i| unsafe {
            let value = AtomicU64::from_ptr(from.add(i).cast()).load(Relaxed);
            to.add(i).cast::<u64>().write_unaligned(value);
        };
        walk(from.addr(), len, byte, word);
    }

    /// # Safety
    /// As for [`super::copy_across`].
    pub(super) unsafe fn move_bytes(from: *mut u8, to: *mut u8, len: usize) {
        // SAFETY: `walk` gives offsets i < len, and i + 8 <= len and aligned for words; both ends are
        // reached by atomics only.
        let byte = |i| unsafe {
            let value = AtomicU8::from_ptr(from.add(i)).load(Relaxed);
            AtomicU8::from_ptr(to.add(i)).store(value, Relaxed);
        };
        if from.addr() % 8 != to.addr() % 8 {
            return (0..len).for_each(byte);
        }
        // SAFETY: as above, and words are aligned at both ends.
        let word = |i| unsafe {
            let value = AtomicU64::from_ptr(from.add(i).cast()).load(Relaxed);
            AtomicU64::from_ptr(to.add(i).cast()).store(value, Relaxed);
        };
        walk(to.addr(), len, byte, word);
    }

    /// # Safety
    /// `len` bytes from `to` are registered memory.
    pub(super) unsafe fn set_bytes(to: *mut u8, value: u8, len: usize) {
        // SAFETY: `walk` gives offsets i < len, and i + 8 <= len and aligned for words.
        let byte = |i| unsafe { AtomicU8::from_ptr(to.add(i)).store(value, Relaxed) };
        let eight = u64::from_ne_bytes([value; 8]);
        // SAFETY: as above.
        let word = |i| unsafe { AtomicU64::from_ptr(to.add(i).cast()).store(eight, Relaxed) };
        walk(to.addr(), len, byte, word);
    }
}

#[cfg(test)]
mod tests;
