//! Copies by instructions of x86-64 that the compiler does not see. (The direction flag is clear at the start of
//! every assembly block, by the rules of the ABI.)

use std::arch::asm;

use super::long::strings_from;

/// # Safety
/// As for [`super::region::copy_in`].
#[inline]
pub(super) unsafe fn put_bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the same promise; the two do the same.
    unsafe {
        if len < strings_from() { loop_bytes(from, to, len) } else { move_string(from, to, len) }
    }
}

/// # Safety
/// As for [`super::region::copy_in`].
#[inline]
pub(super) unsafe fn move_string(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: reads and writes `len` bytes, which the caller vouches for, and nothing else.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
             options(nostack, preserves_flags));
    }
}

/// # Safety
/// As for [`super::region::copy_in`].
#[inline]
pub(super) unsafe fn loop_bytes(from: *const u8, to: *mut u8, len: usize) {
    let wide = if len >= WIDE && is_x86_feature_detected!("avx") { len - len % WIDE } else { 0 };
    // SAFETY: the three together copy the `len` bytes that the caller vouches for, each once; the processor has AVX if the
    // first has something to do.
    unsafe {
        if wide > 0 {
            move_wide_blocks(from, to, wide);
        }
        let (from, to, rest) = move_blocks(from.add(wide), to.add(wide), len - wide);
        move_rest(from, to, rest);
    }
}

/// Bytes of a block of four registers of AVX.
const WIDE: usize = 128;

/// Copies `len` bytes, not 0 and a multiple of [`WIDE`].
///
/// # Safety
/// As for [`super::region::copy_in`], and the processor has AVX.
// Not inlined: short copies would save the registers for it.
#[inline(never)]
unsafe fn move_wide_blocks(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: reads and writes `len` bytes, which the caller vouches for, each once. The upper halves of the registers are
    // cleared behind it, none of which is in use by the rules of the ABI.
    unsafe {
        asm!(
            "2:",
            "vmovups ymm0, [rsi + rcx]",
            "vmovups ymm1, [rsi + rcx + 32]",
            "vmovups ymm2, [rsi + rcx + 64]",
            "vmovups ymm3, [rsi + rcx + 96]",
            "vmovups [rdi + rcx], ymm0",
            "vmovups [rdi + rcx + 32], ymm1",
            "vmovups [rdi + rcx + 64], ymm2",
            "vmovups [rdi + rcx + 96], ymm3",
            "add rcx, 128",
            "jnz 2b",
            "vzeroupper",
            // Both ends, counted up to from below.
            in("rsi") from.add(len),
            in("rdi") to.add(len),
            inout("rcx") len.wrapping_neg() => _,
            clobber_abi("sysv64"),
            options(nostack),
        );
    }
}

/// Copies blocks of 64 bytes while there are so many; returns where the rest begins, and its length.
///
/// # Safety
/// As for [`super::region::copy_in`].
#[inline(always)]
unsafe fn move_blocks(
    mut from: *const u8,
    mut to: *mut u8,
    mut len: usize,
) -> (*const u8, *mut u8, usize) {
    // SAFETY: no block is begun with fewer than 64 bytes left of those that the caller vouches for.
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
            len = inout(reg) len,
            from = inout(reg) from,
            to = inout(reg) to,
            a = out(xmm_reg) _, b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
    (from, to, len)
}

/// Copies fewer than 64 bytes: 32, 16, 8, 4, 2 and 1 where that bit of `len` is set.
///
/// # Safety
/// As for [`super::region::copy_in`].
#[inline(always)]
unsafe fn move_rest(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the powers of two in `len` together are the `len` bytes that the caller vouches for.
    unsafe {
        asm!(
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
            a = out(xmm_reg) _, b = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// # Safety
/// As for [`super::region::copy_out`].
#[inline]
pub(super) unsafe fn get_bytes(from: *mut u8, to: *mut u8, len: usize) {
    // SAFETY: the instructions are the same in both directions.
    unsafe { put_bytes(from, to, len) }
}

/// # Safety
/// As for [`super::region::copy_across`].
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
