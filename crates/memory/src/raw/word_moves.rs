//! Copies by relaxed atomics: words in the aligned middle, bytes at the ends.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

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
/// As for [`super::region::copy_in`].
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
/// As for [`super::region::copy_out`].
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
/// As for [`super::region::copy_across`].
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
