//! Global routing header of RoCEv1 and native InfiniBand.

use crate::{Gid, Header};

/// Global routing header, 40 bytes; it has the layout of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grh {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes behind this header, up to and including the ICRC.
    pub payload_len: u16,
    /// What follows; 0x1b is an InfiniBand transport header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID.
    pub src: Gid,
    /// Destination GID.
    pub dst: Gid,
}

impl Grh {
    /// Next header: InfiniBand transport.
    pub const IBA: u8 = 0x1b;
}

impl Header for Grh {
    const LEN: usize = 40;
    const NAME: &'static str = "GRH";

    /// The version nibble is not looked at.
    fn read(bytes: &[u8]) -> Option<Grh> {
        let raw = bytes.first_chunk::<40>()?;
        let word = u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
        let gid = |at: usize| raw.get(at..)?.first_chunk::<16>().copied().map(Gid::new);
        Some(Grh {
            traffic_class: (word >> 20) as u8,
            flow_label: word & 0xf_ffff,
            payload_len: u16::from_be_bytes([raw[4], raw[5]]),
            next_header: raw[6],
            hop_limit: raw[7],
            src: gid(8)?,
            dst: gid(24)?,
        })
    }

    fn write(&self, out: &mut [u8]) -> Option<()> {
        let out = out.first_chunk_mut::<40>()?;
        let word = 0x6000_0000 | u32::from(self.traffic_class) << 20 | (self.flow_label & 0xf_ffff);
        out[0..4].copy_from_slice(&word.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(self.src.bytes());
        out[24..40].copy_from_slice(self.dst.bytes());
        Some(())
    }
}
