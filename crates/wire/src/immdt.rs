//! Immediate data.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// Immediate data, 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImmDt(pub u32);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawImmDt {
    data: U32,
}

impl Header for ImmDt {
    const LEN: usize = 4;
    const NAME: &'static str = "ImmDt";

    #[inline]
    fn read(bytes: &[u8]) -> Option<ImmDt> {
        let (raw, _) = RawImmDt::ref_from_prefix(bytes).ok()?;
        Some(ImmDt(raw.data.get()))
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawImmDt { data: self.0.into() }.write_to_prefix(out).ok()
    }
}
