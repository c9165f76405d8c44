//! Datagram extended transport header.

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, Qpn};

/// Datagram extended transport header, 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deth {
    /// Queue key (R7).
    pub qkey: u32,
    /// Sending queue pair.
    pub src_qpn: Qpn,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDeth {
    qkey: U32,
    src_qpn: U32,
}

impl Header for Deth {
    const LEN: usize = 8;
    const NAME: &'static str = "DETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Deth> {
        let (raw, _) = RawDeth::ref_from_prefix(bytes).ok()?;
        Some(Deth { qkey: raw.qkey.get(), src_qpn: Qpn::new(raw.src_qpn.get()) })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawDeth { qkey: self.qkey.into(), src_qpn: self.src_qpn.get().into() }
            .write_to_prefix(out)
            .ok()
    }
}
