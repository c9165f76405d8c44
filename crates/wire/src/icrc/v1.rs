//! ICRC of RoCEv1 and of native InfiniBand packets with a GRH.

use super::{DUMMY_CRC, MASKED_BTH, update};

/// The ICRC of a packet with a GRH: traffic class, flow label and hop limit of the GRH are masked
/// as in IPv6. `covered` is BTH to pad.
pub fn icrc_v1(grh: &[u8; 40], covered: &[u8]) -> u32 {
    let mut head = *grh;
    head[0] |= 0x0f;
    head[1..4].fill(0xff);
    head[7] = 0xff;
    update_masked(update(DUMMY_CRC, &head), covered)
}

/// The CRC behind BTH to pad, with the congestion marks masked.
pub(crate) fn update_masked(mut crc: u32, covered: &[u8]) -> u32 {
    if let Some([a, b, c, d, _]) = covered.first_chunk::<MASKED_BTH>() {
        crc = update(crc, &[*a, *b, *c, *d, 0xff]);
    }
    update(crc, covered.get(MASKED_BTH..).unwrap_or(&[]))
}
