//! FLUSH extended transport header.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// FLUSH extended transport header, 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feth {
    /// Placement type: 1 global visibility, 2 persistence.
    pub placement: u8,
    /// Selectivity: 0 the range, 1 the whole region.
    pub selectivity: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFeth {
    bits: U32,
}

impl Header for Feth {
    const LEN: usize = 4;
    const NAME: &'static str = "FETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Feth> {
        let (raw, _) = RawFeth::ref_from_prefix(bytes).ok()?;
        Some(Feth {
            placement: raw.bits.get() as u8 & 0x0f,
            selectivity: (raw.bits.get() >> 4) as u8 & 3,
        })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawFeth { bits: u32::from((self.placement & 0x0f) | (self.selectivity & 3) << 4).into() }
            .write_to_prefix(out)
            .ok()
    }
}
