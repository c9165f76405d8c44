//! The part of the ICRC that the packets of one flow share.
//!
//! Between two packets of a flow and a length, the bytes before the BTH differ in the IPv4
//! identification only. CRC is linear, so its share is looked up and added to a sum made once.

use crc32fast::Hasher;

use super::recover::TABLE;
use super::{BTH_LEN, DUMMY_CRC, DUMMY_LEN, Flow, ICRC_LEN, IPV4_LEN, IPV6_LEN, Masked, UDP_LEN};

/// Bytes from behind the identification to the end of the UDP header.
const BEHIND_ID: usize = IPV4_LEN - 6 + UDP_LEN;

/// What a high and a low identification byte change in the CRC at the end of the UDP header.
static ID_SHARE: [[u32; 256]; 2] = [share(BEHIND_ID + 1), share(BEHIND_ID)];

const fn share(zeros_behind: usize) -> [u32; 256] {
    let mut shares = TABLE;
    let mut byte = 0;
    while byte < 256 {
        let mut step = 0;
        while step < zeros_behind {
            let state = shares[byte];
            shares[byte] = (state >> 8) ^ TABLE[(state & 0xff) as usize];
            step += 1;
        }
        byte += 1;
    }
    shares
}

/// Flow and length of a packet, with the CRC up to its UDP header if its ID were 0.
type Known = Option<(Flow, usize, u32)>;

/// Computes the ICRC of packets that mostly are of one flow and two lengths (data and ACKs), faster
/// than [`icrc`](super::icrc()), which is its slow twin.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowIcrc {
    last: Known,
    /// What was the last before another length came.
    before: Known,
}

impl FlowIcrc {
    /// The ICRC of a packet; `covered` is BTH to pad.
    #[inline]
    pub fn icrc(&mut self, flow: &Flow, ip_id: u16, covered: &[u8]) -> u32 {
        let Some((bth, rest)) = covered.split_first_chunk::<BTH_LEN>() else {
            return super::icrc(flow, ip_id, covered);
        };
        let zero = self.prefix(flow, covered);
        let [high, low] = ip_id.to_be_bytes();
        let shares = ID_SHARE[0][usize::from(high)] ^ ID_SHARE[1][usize::from(low)];
        let prefix = if flow.is_ipv4() { zero ^ shares } else { zero };
        let mut masked = *bth;
        masked[4] = 0xff;
        let length = if flow.is_ipv4() { IPV4_LEN } else { IPV6_LEN } + UDP_LEN;
        let mut hasher = Hasher::new_with_initial_len(prefix, DUMMY_LEN + length as u64);
        hasher.update(&masked);
        hasher.update(rest);
        hasher.finalize()
    }

    /// True if the last four bytes of `packet` (BTH to ICRC) are its ICRC.
    #[inline]
    pub fn verify(&mut self, flow: &Flow, ip_id: u16, packet: &[u8]) -> bool {
        let Some((covered, found)) = packet.split_last_chunk::<ICRC_LEN>() else {
            return false;
        };
        self.icrc(flow, ip_id, covered) == u32::from_le_bytes(*found)
    }

    #[inline]
    fn prefix(&mut self, flow: &Flow, covered: &[u8]) -> u32 {
        match self.last {
            Some((last, length, prefix)) if length == covered.len() && last == *flow => prefix,
            _ => self.renew(flow, covered),
        }
    }

    #[cold]
    fn renew(&mut self, flow: &Flow, covered: &[u8]) -> u32 {
        core::mem::swap(&mut self.last, &mut self.before);
        if let Some((last, length, prefix)) = self.last
            && length == covered.len()
            && last == *flow
        {
            return prefix;
        }
        let masked = Masked::of(flow, 0, covered);
        let before_bth = masked.bytes().len().saturating_sub(BTH_LEN);
        let mut hasher = Hasher::new_with_initial_len(DUMMY_CRC, DUMMY_LEN);
        hasher.update(masked.bytes().get(..before_bth).unwrap_or(&[]));
        let prefix = hasher.finalize();
        self.last = Some((*flow, covered.len(), prefix));
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc;
    use proptest::prelude::*;

    fn flow(v6: bool, port: u16) -> Flow {
        let (src, dst) = if v6 {
            ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
        } else {
            ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        };
        Flow { src, dst, src_port: port, dst_port: 4791 }
    }

    proptest! {
        /// One computer for a mix of flows, lengths and identifications.
        #[test]
        fn equals_its_slow_twin(
            packets in prop::collection::vec(
                (any::<bool>(), 0u16..3, any::<u16>(), prop::collection::vec(any::<u8>(), 0..200)),
                1..20,
            )
        ) {
            let mut fast = FlowIcrc::default();
            for (v6, port, id, covered) in packets {
                let flow = flow(v6, 0xc000 + port);
                for id in [id, 0, id.wrapping_add(1)] {
                    prop_assert_eq!(fast.icrc(&flow, id, &covered), icrc(&flow, id, &covered));
                }
            }
        }
    }
}
