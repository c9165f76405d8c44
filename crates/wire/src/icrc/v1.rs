//! ICRC of RoCEv1 and of native InfiniBand packets with a GRH.

use crc32fast::Hasher;

use super::{DUMMY_CRC, DUMMY_LEN, MASKED_BTH};

/// The ICRC of a packet with a GRH: traffic class, flow label and hop limit of the GRH are masked
/// as in IPv6. `covered` is BTH to pad.
pub fn icrc_v1(grh: &[u8; 40], covered: &[u8]) -> u32 {
    let mut head = *grh;
    head[0] |= 0x0f;
    head[1..4].fill(0xff);
    head[7] = 0xff;
    let mut hasher = Hasher::new_with_initial_len(DUMMY_CRC, DUMMY_LEN);
    hasher.update(&head);
    if let Some(bth) = covered.first_chunk::<MASKED_BTH>() {
        let [a, b, c, d, _] = *bth;
        hasher.update(&[a, b, c, d, 0xff]);
    }
    hasher.update(covered.get(MASKED_BTH..).unwrap_or(&[]));
    hasher.finalize()
}
