//! The message in which a client tells where its memory is, and a server says "go on".

use uroce_verbs::{MemoryRegion, RemoteSlice, Rkey};

/// Bytes of the message.
pub const LEN: usize = 16;

/// Address, key and length of `region`.
pub fn encode(region: &MemoryRegion) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let length = u32::try_from(region.len()).unwrap_or(u32::MAX);
    bytes[..8].copy_from_slice(&region.addr().to_be_bytes());
    bytes[8..12].copy_from_slice(&region.rkey().0.to_be_bytes());
    bytes[12..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// The memory that a message tells of.
pub fn decode(bytes: &[u8; LEN]) -> RemoteSlice {
    let [a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, l0, l1, l2, l3] = *bytes;
    RemoteSlice::new(
        u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
        Rkey(u32::from_be_bytes([k0, k1, k2, k3])),
        u32::from_be_bytes([l0, l1, l2, l3]).into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_big_endian() {
        let bytes = [0, 0, 0x55, 0xa6, 0x4d, 0xca, 0x20, 0, 0, 0, 7, 0x83, 0, 0, 0, 64];
        assert_eq!(decode(&bytes), RemoteSlice::new(0x55a6_4dca_2000, Rkey(0x783), 64));
    }
}
