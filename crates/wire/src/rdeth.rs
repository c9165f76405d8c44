//! Reliable datagram extended transport header.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Reliable datagram extended transport header, 4 bytes. RD does not exist on RoCE; for analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rdeth {
    /// End-to-end context, 24 bits.
    pub ee_context: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRdeth {
    ee_context: U32,
}

impl Header for Rdeth {
    const LEN: usize = 4;
    const NAME: &'static str = "RDETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Rdeth> {
        let (raw, _) = RawRdeth::ref_from_prefix(bytes).ok()?;
        Some(Rdeth { ee_context: raw.ee_context.get() & 0xff_ffff })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawRdeth { ee_context: (self.ee_context & 0xff_ffff).into() }.write_to_prefix(out).ok()
    }
}
