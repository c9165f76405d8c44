//! Invalidate extended transport header.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Invalidate extended transport header, 4 bytes: the key to invalidate (R41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ieth(pub u32);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIeth {
    rkey: U32,
}

impl Header for Ieth {
    const LEN: usize = 4;
    const NAME: &'static str = "IETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Ieth> {
        let (raw, _) = RawIeth::ref_from_prefix(bytes).ok()?;
        Some(Ieth(raw.rkey.get()))
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawIeth { rkey: self.0.into() }.write_to_prefix(out).ok()
    }
}
