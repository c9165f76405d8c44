//! RDMA extended transport header.

use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Header;

/// RDMA extended transport header, 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Remote address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// DMA length in bytes, at most 2^31 (R25).
    pub length: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReth {
    va: U64,
    rkey: U32,
    length: U32,
}

impl Header for Reth {
    const LEN: usize = 16;
    const NAME: &'static str = "RETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Reth> {
        let (raw, _) = RawReth::ref_from_prefix(bytes).ok()?;
        Some(Reth { va: raw.va.get(), rkey: raw.rkey.get(), length: raw.length.get() })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawReth { va: self.va.into(), rkey: self.rkey.into(), length: self.length.into() }
            .write_to_prefix(out)
            .ok()
    }
}
