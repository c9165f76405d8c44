//! Atomic acknowledge extended transport header.

use zerocopy::byteorder::network_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Atomic acknowledge extended transport header, 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The word before the atomic.
    pub original: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomicAckEth {
    original: U64,
}

impl Header for AtomicAckEth {
    const LEN: usize = 8;
    const NAME: &'static str = "AtomicAckETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<AtomicAckEth> {
        let (raw, _) = RawAtomicAckEth::ref_from_prefix(bytes).ok()?;
        Some(AtomicAckEth { original: raw.original.get() })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawAtomicAckEth { original: self.original.into() }.write_to_prefix(out).ok()
    }
}
