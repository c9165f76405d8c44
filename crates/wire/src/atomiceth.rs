//! Atomic extended transport header.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Atomic extended transport header, 28 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Remote address, a multiple of 8 (R33).
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// What is swapped in, or added.
    pub swap_add: u64,
    /// What the word is compared with.
    pub compare: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomicEth {
    va: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

impl Header for AtomicEth {
    const LEN: usize = 28;
    const NAME: &'static str = "AtomicETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<AtomicEth> {
        let (raw, _) = RawAtomicEth::ref_from_prefix(bytes).ok()?;
        Some(AtomicEth {
            va: raw.va.get(),
            rkey: raw.rkey.get(),
            swap_add: raw.swap_add.get(),
            compare: raw.compare.get(),
        })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawAtomicEth {
            va: self.va.into(),
            rkey: self.rkey.into(),
            swap_add: self.swap_add.into(),
            compare: self.compare.into(),
        }
        .write_to_prefix(out)
        .ok()
    }
}
