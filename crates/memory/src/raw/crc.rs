//! CRC-32 by carry-less multiplication, of bytes that stay where they are or are copied on the way (Gopal and others, Fast
//! CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, 2009).
//!
//! Registered bytes may change meanwhile: what goes into the CRC is what was written, since both come from one register.

use std::arch::asm;
use std::is_x86_feature_detected as detected;
use std::sync::atomic::{AtomicU8, Ordering};

/// What takes four streams of 16 bytes on by 64 bytes.
static BY_64: [u64; 2] = [0x1_5444_2bd4, 0x1_c6e4_1596];
/// What takes eight streams on by 128 bytes, for both halves of a register.
static BY_128: [u64; 4] = [0x1_e88e_f372, 0x1_4a7f_e880, 0x1_e88e_f372, 0x1_4a7f_e880];
/// What takes 16 bytes on by 16, and then to 8 and to 4; a mask; the polynomial and its inverse.
static TO_4: [u64; 8] =
    [0x1_7519_97d0, 0x0_ccaa_009e, 0x1_63cd_6124, 0, 0xffff_ffff, 0, 0x1_db71_0641, 0x1_f701_1641];

/// How many bits the processor multiplies at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Multiplier {
    Bits128 = 2,
    Bits256 = 3,
}

/// The widest multiplier of the processor; 0 before that is known, 1 if it has none.
static WIDEST: AtomicU8 = AtomicU8::new(0);

#[inline]
fn widest() -> Option<Multiplier> {
    match WIDEST.load(Ordering::Relaxed) {
        0 => detect(),
        2 => Some(Multiplier::Bits128),
        3 => Some(Multiplier::Bits256),
        _ => None,
    }
}

#[cold]
fn detect() -> Option<Multiplier> {
    let found = match detected!("avx") && detected!("pclmulqdq") {
        true if detected!("avx2") && detected!("vpclmulqdq") => Some(Multiplier::Bits256),
        true => Some(Multiplier::Bits128),
        false => None,
    };
    WIDEST.store(found.map_or(1, |found| found as u8), Ordering::Relaxed);
    found
}

/// What multiplies `len` bytes; `None` if nothing does: the least are 64, and a multiple of that.
#[inline]
fn multiplier(len: usize) -> Option<Multiplier> {
    let widest = widest().filter(|_| len >= 64 && len.is_multiple_of(64))?;
    let wide = len >= 256 && len.is_multiple_of(128);
    if wide { Some(widest) } else { Some(Multiplier::Bits128) }
}

/// Copies `len` bytes; the register of CRC-32 behind them, from 0 on. `None`, with nothing copied, if nothing multiplies so many.
///
/// # Safety
/// As for [`super::region::copy_out`].
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> Option<u32> {
    // SAFETY: the processor has the instructions and `len` is a multiple of their step, by `multiplier`; the rest is the
    // caller's promise.
    unsafe {
        Some(match multiplier(len)? {
            Multiplier::Bits128 => copy_by_64(0, from, to, len),
            Multiplier::Bits256 => copy_by_128(0, from, to, len),
        })
    }
}

/// The register of CRC-32 behind `bytes`, from that before them; `None` if nothing multiplies so many.
#[inline]
pub(super) fn look(before: u32, bytes: &[u8]) -> Option<u32> {
    let (from, to, len) = (bytes.as_ptr(), std::ptr::null_mut(), bytes.len());
    // SAFETY: as above; the bytes are a slice, and nothing is written.
    unsafe {
        Some(match multiplier(len)? {
            Multiplier::Bits128 => look_by_64(before, from, to, len),
            Multiplier::Bits256 => look_by_128(before, from, to, len),
        })
    }
}

/// An instruction that only a copy has.
macro_rules! store {
    (copy, $($part:literal)*) => { concat!($($part),*) };
    (look, $($part:literal)*) => { "" };
}

/// Loads the first bytes of a stream, from `at` on.
macro_rules! load {
    ($store:tt, $stream:literal, $at:literal) => {
        concat!(
            "vmovdqu ", $stream, ", [rsi + rcx + ", $at, "]\n",
            store!($store, "vmovdqu [rdi + rcx + " $at "], " $stream),
        )
    };
}

/// Takes a stream on by one step, to the bytes from `at` on; `product` and `next` are free.
macro_rules! step {
    ($store:tt, $stream:literal, $at:literal, $by:literal, $product:literal, $next:literal) => {
        concat!(
            "vpclmulqdq ",
            $product,
            ", ",
            $stream,
            ", ",
            $by,
            ", 0x00\n",
            "vpclmulqdq ",
            $stream,
            ", ",
            $stream,
            ", ",
            $by,
            ", 0x11\n",
            add!($store, $stream, $at, $next),
            "vpxor ",
            $stream,
            ", ",
            $stream,
            ", ",
            $product,
        )
    };
}

/// Adds the bytes from `at` on to a stream. What is copied is read once: it may change.
macro_rules! add {
    (copy, $stream:literal, $at:literal, $next:literal) => {
        concat!(
            "vmovdqu ",
            $next,
            ", [rsi + rcx + ",
            $at,
            "]\n",
            "vmovdqu [rdi + rcx + ",
            $at,
            "], ",
            $next,
            "\n",
            "vpxor ",
            $stream,
            ", ",
            $stream,
            ", ",
            $next,
            "\n",
        )
    };
    (look, $stream:literal, $at:literal, $next:literal) => {
        concat!("vpxor ", $stream, ", ", $stream, ", [rsi + rcx + ", $at, "]\n")
    };
}

/// Takes xmm0 on by 16 bytes, which are those of another register.
macro_rules! join {
    ($with:literal) => {
        concat!(
            "vpclmulqdq xmm5, xmm0, xmm4, 0x00\n",
            "vpclmulqdq xmm0, xmm0, xmm4, 0x11\n",
            "vpxor xmm0, xmm0, xmm5\n",
            "vpxor xmm0, xmm0, ",
            $with
        )
    };
}

/// The 16 bytes in xmm0 become the 4 in eax.
macro_rules! to_4 {
    () => {
        concat!(
            "vpclmulqdq xmm5, xmm0, xmm4, 0x10\n",
            "vpsrldq xmm0, xmm0, 8\n",
            "vpxor xmm0, xmm0, xmm5\n",
            "vpand xmm5, xmm0, [r9 + 32]\n",
            "vpclmulqdq xmm5, xmm5, [r9 + 16], 0x00\n",
            "vpsrldq xmm0, xmm0, 4\n",
            "vpxor xmm0, xmm0, xmm5\n",
            "vpand xmm5, xmm0, [r9 + 32]\n",
            "vpclmulqdq xmm5, xmm5, [r9 + 48], 0x10\n",
            "vpand xmm5, xmm5, [r9 + 32]\n",
            "vpclmulqdq xmm5, xmm5, [r9 + 48], 0x00\n",
            "vpxor xmm0, xmm0, xmm5\n",
            "vpextrd eax, xmm0, 1"
        )
    };
}

/// Four streams of 16 bytes.
macro_rules! by_64 {
    ($name:ident, $store:tt) => {
        /// # Safety
        /// `len` bytes from `from` are there, 64 at least and a multiple of that; if it copies, as many from `to`, which are
        /// no part of them. The processor has AVX and PCLMULQDQ.
        unsafe fn $name(before: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
            let crc: u32;
            // SAFETY: reads, and writes if it copies, the `len` bytes that the caller vouches for, each once.
            unsafe {
                asm!(
                    "vmovdqu xmm4, [r8]",
                    load!($store, "xmm0", "0"),
                    // The register before the bytes is added to the first of them.
                    "vmovd xmm5, eax",
                    "vpxor xmm0, xmm0, xmm5",
                    load!($store, "xmm1", "16"),
                    load!($store, "xmm2", "32"),
                    load!($store, "xmm3", "48"),
                    "add rcx, 64",
                    "jz 3f",
                    "2:",
                    step!($store, "xmm0", "0", "xmm4", "xmm5", "xmm6"),
                    step!($store, "xmm1", "16", "xmm4", "xmm7", "xmm8"),
                    step!($store, "xmm2", "32", "xmm4", "xmm9", "xmm10"),
                    step!($store, "xmm3", "48", "xmm4", "xmm11", "xmm12"),
                    "add rcx, 64",
                    "jnz 2b",
                    "3:",
                    "vmovdqu xmm4, [r9]",
                    join!("xmm1"),
                    join!("xmm2"),
                    join!("xmm3"),
                    to_4!(),
                    // Both ends, counted up to from below.
                    in("rsi") from.wrapping_add(len),
                    in("rdi") to.wrapping_add(len),
                    inout("rcx") len.wrapping_neg() => _,
                    in("r8") BY_64.as_ptr(),
                    in("r9") TO_4.as_ptr(),
                    inout("eax") before => crc,
                    clobber_abi("sysv64"),
                    options(nostack),
                );
            }
            crc
        }
    };
}

/// Eight streams of 16 bytes.
macro_rules! by_128 {
    ($name:ident, $store:tt) => {
        /// # Safety
        /// `len` bytes from `from` are there, 256 at least and a multiple of 128; if it copies, as many from `to`, which are
        /// no part of them. The processor has AVX2 and VPCLMULQDQ.
        unsafe fn $name(before: u32, from: *const u8, to: *mut u8, len: usize) -> u32 {
            let crc: u32;
            // SAFETY: reads, and writes if it copies, the `len` bytes that the caller vouches for, each once. The upper halves
            // of the registers are cleared behind it, none of which is in use by the rules of the ABI.
            unsafe {
                asm!(
                    "vmovdqu ymm4, [r8]",
                    load!($store, "ymm0", "0"),
                    // The register before the bytes is added to the first of them.
                    "vmovd xmm5, eax",
                    "vpxor ymm0, ymm0, ymm5",
                    load!($store, "ymm1", "32"),
                    load!($store, "ymm2", "64"),
                    load!($store, "ymm3", "96"),
                    "add rcx, 128",
                    "2:",
                    step!($store, "ymm0", "0", "ymm4", "ymm5", "ymm6"),
                    step!($store, "ymm1", "32", "ymm4", "ymm7", "ymm8"),
                    step!($store, "ymm2", "64", "ymm4", "ymm9", "ymm10"),
                    step!($store, "ymm3", "96", "ymm4", "ymm11", "ymm12"),
                    "add rcx, 128",
                    "jnz 2b",
                    "vextracti128 xmm6, ymm0, 1",
                    "vextracti128 xmm7, ymm1, 1",
                    "vextracti128 xmm8, ymm2, 1",
                    "vextracti128 xmm9, ymm3, 1",
                    "vmovdqu xmm4, [r9]",
                    join!("xmm6"),
                    join!("xmm1"),
                    join!("xmm7"),
                    join!("xmm2"),
                    join!("xmm8"),
                    join!("xmm3"),
                    join!("xmm9"),
                    to_4!(),
                    "vzeroupper",
                    // Both ends, counted up to from below.
                    in("rsi") from.wrapping_add(len),
                    in("rdi") to.wrapping_add(len),
                    inout("rcx") len.wrapping_neg() => _,
                    in("r8") BY_128.as_ptr(),
                    in("r9") TO_4.as_ptr(),
                    inout("eax") before => crc,
                    clobber_abi("sysv64"),
                    options(nostack),
                );
            }
            crc
        }
    };
}

by_64!(copy_by_64, copy);
by_64!(look_by_64, look);
by_128!(copy_by_128, copy);
by_128!(look_by_128, look);

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit.
    fn register(before: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(before, |state, byte| {
            (0..8).fold(state ^ u32::from(*byte), |state, _| {
                (state >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(state & 1))
            })
        })
    }

    #[test]
    fn the_crc_is_that_of_single_bits_and_the_copy_is_whole() {
        let bytes: Vec<u8> =
            (0..8200u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for (len, at) in (0..=4096).step_by(32).flat_map(|len| [(len, 0), (len, 1), (len, 7)]) {
            let known = multiplier(len).is_some();
            let (from, mut to) = (&bytes[at..at + len], vec![0xee; len + 2]);
            // SAFETY: both have `len` bytes there.
            let crc = unsafe { copy(from.as_ptr(), to[1..].as_mut_ptr(), len) };
            assert_eq!([crc, look(0, from)], [known.then(|| register(0, from)); 2], "{len}");
            let before = 0x1234_5678u32.rotate_left(len as u32 / 64);
            assert_eq!(look(before, from), known.then(|| register(before, from)), "{len}");
            if !known {
                continue;
            }
            assert_eq!(&to[1..=len], from);
            assert_eq!((to[0], to[len + 1]), (0xee, 0xee), "nothing beside it");
            // SAFETY: as above, and whoever has the wide one has this one.
            let crcs = unsafe {
                to.fill(0);
                let copied = copy_by_64(before, from.as_ptr(), to[1..].as_mut_ptr(), len);
                [copied, look_by_64(before, from.as_ptr(), std::ptr::null_mut(), len)]
            };
            assert_eq!(crcs, [register(before, from); 2], "{len}");
            assert_eq!((&to[1..=len], to[0], to[len + 1]), (from, 0, 0));
        }
    }

    #[test]
    fn other_lengths_are_not_multiplied() {
        assert_eq!([0, 32, 63, 65, 130].map(multiplier), [None; 5]);
        let known = widest().map(|_| Multiplier::Bits128);
        assert_eq!([multiplier(64), multiplier(192)], [known; 2]);
    }
}
