//! XRC extended transport header.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// XRC extended transport header, 4 bytes (X2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct XrcEth {
    /// Number of the XRC shared receive queue, 24 bits.
    pub srqn: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawXrcEth {
    srqn: U32,
}

impl Header for XrcEth {
    const LEN: usize = 4;
    const NAME: &'static str = "XRCETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<XrcEth> {
        let (raw, _) = RawXrcEth::ref_from_prefix(bytes).ok()?;
        Some(XrcEth { srqn: raw.srqn.get() & 0xff_ffff })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawXrcEth { srqn: (self.srqn & 0xff_ffff).into() }.write_to_prefix(out).ok()
    }
}
