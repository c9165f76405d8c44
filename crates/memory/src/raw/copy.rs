//! The order of a copy: the bulk first, and into the memory the end last.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::moves::{get_bytes, move_bytes, put_bytes};

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
pub(super) unsafe fn copy_out(from: *mut u8, to: *mut u8, len: usize) {
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
pub(super) unsafe fn copy_across(from: *mut u8, to: *mut u8, len: usize) {
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
