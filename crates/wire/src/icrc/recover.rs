//! Recovering the IPv4 identification that a UDP socket hides.
//!
//! The ICRC covers it. CRC is affine over GF(2): the two unknown bytes change the CRC register by
//! their value, moved on by everything behind them. Moving the difference back by the same
//! distance must leave a 16-bit number, which is the identification; the other 16 bits check.

use super::crc::TABLE;
use super::{DUMMY_LEN, Flow, FlowIcrc, ICRC_LEN, Masked};

/// What the ICRC of a received packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcrcVerdict {
    /// Right, with nothing unknown (IPv6).
    Valid,
    /// Right for a guessed identification: a full 32-bit check.
    Predicted(u16),
    /// Right for this identification, and no guess: a 16-bit check.
    Solved(u16),
    /// Wrong.
    Bad,
}

/// Checks the ICRC of `packet` (BTH to ICRC) without knowing the IPv4 identification. One CRC with
/// the first guess, which mostly is right; the linear solve of the difference finds any other.
pub fn recover(flow: &Flow, guesses: &[u16], packet: &[u8]) -> IcrcVerdict {
    FlowIcrc::default().recover(flow, guesses, packet)
}

impl FlowIcrc {
    /// [`recover`] for packets that mostly are of one flow and length.
    pub fn recover(&mut self, flow: &Flow, guesses: &[u16], packet: &[u8]) -> IcrcVerdict {
        let Some((covered, found)) = packet.split_last_chunk::<ICRC_LEN>() else {
            return IcrcVerdict::Bad;
        };
        let found = u32::from_le_bytes(*found);
        if !flow.is_ipv4() {
            let right = self.icrc(flow, 0, covered) == found;
            return if right { IcrcVerdict::Valid } else { IcrcVerdict::Bad };
        }
        let likely = guesses.first().copied();
        let base = likely.unwrap_or(0);
        let delta = self.icrc(flow, base, covered) ^ found;
        if delta == 0 && likely.is_some() {
            return IcrcVerdict::Predicted(base);
        }
        match solve(flow, covered, delta).map(|difference| difference ^ base) {
            Some(id) if guesses.contains(&id) => IcrcVerdict::Predicted(id),
            Some(id) => IcrcVerdict::Solved(id),
            None => IcrcVerdict::Bad,
        }
    }
}

/// The identification that changes the CRC by `delta`.
fn solve(flow: &Flow, covered: &[u8], delta: u32) -> Option<u16> {
    let rest = back(delta, distance(flow, covered));
    // The stream holds the high byte of the identification first, in the low bits.
    u16::try_from(rest).ok().map(u16::swap_bytes)
}

/// Bytes from the identification to the end of the stream, the identification included.
fn distance(flow: &Flow, covered: &[u8]) -> u64 {
    let masked = Masked::of(flow, 0, covered);
    let tail = covered.len().saturating_sub(super::BTH_LEN);
    let stream = DUMMY_LEN + masked.bytes().len() as u64 + tail as u64;
    stream.saturating_sub(12)
}

/// For each top byte the table index that has it; the top bytes are all different.
const INDEX_OF_TOP: [u8; 256] = {
    let mut index = [0; 256];
    let mut i = 0;
    while i < 256 {
        index[(TABLE[i] >> 24) as usize] = i as u8;
        i += 1;
    }
    index
};

/// The register before one zero byte went through it.
const fn back_one(state: u32) -> u32 {
    let index = INDEX_OF_TOP[(state >> 24) as usize];
    ((state ^ TABLE[index as usize]) << 8) | index as u32
}

/// A linear map of the register: the images of its 32 bits.
type Operator = [u32; 32];

const fn apply(operator: &Operator, state: u32) -> u32 {
    let (mut out, mut bit) = (0, 0);
    while bit < 32 {
        out ^= operator[bit] & 0u32.wrapping_sub(state >> bit & 1);
        bit += 1;
    }
    out
}

/// Steps back by 2^j bytes, for each j that a packet length can need.
const OPERATORS: [Operator; 16] = {
    let mut all = [[0; 32]; 16];
    let mut bit = 0;
    while bit < 32 {
        all[0][bit] = back_one(1 << bit);
        bit += 1;
    }
    let mut j = 1;
    while j < 16 {
        let mut bit = 0;
        while bit < 32 {
            all[j][bit] = apply(&all[j - 1], all[j - 1][bit]);
            bit += 1;
        }
        j += 1;
    }
    all
};

static BACK: [Operator; 16] = OPERATORS;

/// Runs the register back by `bytes` zero bytes, fewer than 2^16.
pub(super) fn back(state: u32, bytes: u64) -> u32 {
    let mut state = state;
    for (j, operator) in BACK.iter().enumerate() {
        if bytes >> j & 1 == 1 {
            state = apply(operator, state);
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::icrc;

    /// The slow twin of [`back`].
    fn back_bytewise(state: u32, bytes: u64) -> u32 {
        (0..bytes).fold(state, |state, _| back_one(state))
    }

    #[test]
    fn table_has_the_known_entries() {
        assert_eq!((TABLE[1], TABLE[128], TABLE[255]), (0x7707_3096, 0xedb8_8320, 0x2d02_ef8d));
    }

    /// Distance, delta, remainder: the worked table of the reference.
    #[test]
    fn solve_agrees_with_the_worked_examples() {
        let rows: [(u64, u32, u32); 7] = [
            (40, 0x9381_b23c, 0x2c71),
            (52, 0x3bc3_425d, 0x9d83),
            (52, 0xc8d8_8987, 0xf87f),
            (64, 0xde26_0a68, 0x8782),
            (48, 0x1997_9d1c, 0xfb77),
            (64, 0xc01b_34fa, 0xd182),
            (148, 0x0a28_8f6d, 0x8288),
        ];
        for (distance, delta, rest) in rows {
            assert_eq!(back(delta, distance), rest);
        }
    }

    fn flow() -> Flow {
        Flow {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 0xc001,
            dst_port: 4791,
        }
    }

    fn packet(id: u16, body: &[u8]) -> std::vec::Vec<u8> {
        let mut bytes = body.to_vec();
        bytes.extend_from_slice(&icrc(&flow(), id, body).to_le_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn operators_equal_single_steps(state: u32, bytes in 0u64..5000) {
            prop_assert_eq!(back(state, bytes), back_bytewise(state, bytes));
        }

        #[test]
        fn any_identification_is_found(id: u16, body in prop::collection::vec(any::<u8>(), 12..600)) {
            let packet = packet(id, &body);
            prop_assert_eq!(recover(&flow(), &[], &packet), IcrcVerdict::Solved(id));
            prop_assert_eq!(recover(&flow(), &[7, id], &packet), IcrcVerdict::Predicted(id));
        }
    }

    #[test]
    fn damage_rarely_passes_the_16_bit_check() {
        let body: std::vec::Vec<u8> = (0..200u8).collect();
        let good = packet(0x1234, &body);
        let mut passed = 0;
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // A bit of BTH byte 4 is masked: the packet is still right.
            let masked = bit / 8 == 4;
            let verdict = recover(&flow(), &[0], &bad);
            if masked {
                assert_eq!(verdict, IcrcVerdict::Solved(0x1234));
            } else if verdict != IcrcVerdict::Bad {
                passed += 1;
            }
        }
        assert_eq!(passed, 0, "no single-bit error looks like another identification");
    }
}
