//! The ICRC of the packets of a flow, from what they share, and without an identification that is hidden.
//!
//! Between two packets of a flow and a length, the bytes before the BTH differ in the IPv4
//! identification only. CRC is linear, so its share is looked up and added to a sum made once. What
//! comes next, the BTH up to the PSN, mostly is the same as before, too.
//!
//! A UDP socket hides the identification of a packet that it has received. CRC is affine over GF(2): the two
//! unknown bytes change the CRC register by their value, moved on by everything behind them. Moving the
//! difference back by the same distance must leave a 16-bit number, which is the identification; the other
//! 16 bits check.

use super::crc::{CrcMethod, TABLE, back, behind_word, crc_method, is_usual, on_by};
use super::{BTH_LEN, DUMMY_CRC, DUMMY_LEN, Flow, ICRC_LEN, IPV4_LEN, Masked, UDP_LEN, update};

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

/// Bytes of the BTH before AckReq and PSN.
const HEAD_LEN: usize = 8;

/// Bytes from behind the identification to the end of that.
const BEHIND_ID: usize = IPV4_LEN - 6 + UDP_LEN + HEAD_LEN;

/// What a high and a low identification byte change in the CRC behind the head of the BTH.
static ID_SHARE: [[u32; 256]; 2] = [share(BEHIND_ID + 1), share(BEHIND_ID)];

/// What the opcode changes in it.
static OPCODE_SHARE: [u32; 256] = share(HEAD_LEN - 1);

/// Of the head of a BTH as a little-endian number, what two packets have to have in common: not the opcode, whose share is
/// known, nor the byte with the congestion marks, which is masked.
const COMMON: u64 = 0xffff_ff00_ffff_ff00;

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

/// What is known of packets of one flow and length.
#[derive(Debug, Clone, Copy)]
struct Known {
    flow: Flow,
    length: usize,
    /// The CRC up to the UDP header if the ID were 0.
    prefix: u32,
    /// The first bytes of the BTH of one packet, as a little-endian number.
    head: u64,
    /// The CRC up to their end.
    behind_head: u32,
}

impl Known {
    #[inline]
    fn is_of(&self, flow: &Flow, covered: &[u8]) -> bool {
        self.length == covered.len() && self.flow == *flow
    }

    /// The CRC up to the end of this head, if all that is unlike in it is known.
    #[inline]
    fn behind(&self, flow: &Flow, covered: &[u8], head: u64) -> Option<u32> {
        let unlike = head ^ self.head;
        let known = unlike & COMMON == 0 && self.is_of(flow, covered);
        known.then(|| self.behind_head ^ OPCODE_SHARE[(unlike & 0xff) as usize])
    }

    fn new(flow: &Flow, covered: &[u8], head: u64) -> Self {
        let masked = Masked::of(flow, 0, covered);
        let before_bth = masked.bytes().len().saturating_sub(BTH_LEN);
        let bytes = masked.bytes().get(..before_bth).unwrap_or(&[]);
        let (prefix, length) = (update(DUMMY_CRC, bytes), covered.len());
        let known = Known { flow: *flow, length, prefix, head, behind_head: 0 };
        known.with_head(head)
    }

    fn with_head(mut self, head: u64) -> Self {
        self.head = head;
        let mut masked = head.to_le_bytes();
        masked[4] = 0xff;
        self.behind_head = update(self.prefix, &masked);
        self
    }
}

/// Computes the ICRC of packets that mostly are of one flow and two lengths (data and ACKs), faster
/// than [`icrc`](super::icrc()), which is its slow twin.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowIcrc {
    last: Option<Known>,
    /// What was the last before another length came.
    before: Option<Known>,
    payload_crc: Option<PayloadCrc>,
}

/// Works out the register of CRC-32 behind bytes, from that before them, if it can.
pub type PayloadCrc = fn(u32, &[u8]) -> Option<u32>;

/// What lies behind the head of a BTH, in two parts.
struct Parts<'a> {
    /// The rest of the BTH, and other headers: a few words.
    headers: &'a [u8],
    /// As many bytes as a usual payload has.
    payload: &'a [u8],
}

impl<'a> Parts<'a> {
    #[inline]
    fn of(rest: &'a [u8]) -> Option<Self> {
        let longest = 1 << rest.len().checked_sub(BTH_LEN - HEAD_LEN)?.checked_ilog2()?;
        let (headers, payload) = rest.split_at_checked(rest.len() - longest)?;
        let few = headers.len() <= HEADERS_MAX && headers.len().is_multiple_of(4);
        (few && is_usual(longest)).then_some(Parts { headers, payload })
    }

    /// The ICRC, from the CRC before them and the register of the payload.
    #[inline]
    fn around(&self, before: u32, payload: u32) -> u32 {
        let behind = behind_words(!before, self.headers);
        !(on_by(behind, self.payload.len()).unwrap_or_default() ^ payload)
    }
}

/// The register behind some words, from that before them.
#[inline]
fn behind_words(before: u32, words: &[u8]) -> u32 {
    words.as_chunks().0.iter().fold(before, |register, word| behind_word(register, *word))
}

/// The ICRC, from the CRC before `rest`: all but a few words in another way, if that takes so many bytes and is faster.
#[inline(never)]
fn by_parts(before: u32, rest: &[u8], payload_crc: PayloadCrc) -> u32 {
    let (headers, blocks) = rest.split_at(rest.len() % BLOCK);
    let few = headers.len() <= HEADERS_MAX && headers.len().is_multiple_of(4);
    let behind = match few && crc_method() == CrcMethod::Instructions {
        true => payload_crc(behind_words(!before, headers), blocks),
        false => None,
    };
    behind.map_or_else(|| update(before, rest), |behind| !behind)
}

/// Bytes of which a payload of a usual length is a multiple, as a multiplying [`PayloadCrc`] wants it.
const BLOCK: usize = 64;

/// Longer headers than this are read with the payload.
const HEADERS_MAX: usize = 20;

impl FlowIcrc {
    /// One that has the registers of payloads worked out by something faster than what is here.
    pub fn with_payload_crc(payload_crc: PayloadCrc) -> Self {
        FlowIcrc { payload_crc: Some(payload_crc), ..FlowIcrc::default() }
    }

    /// The ICRC of a packet; `covered` is BTH to pad.
    #[inline]
    pub fn icrc(&mut self, flow: &Flow, ip_id: u16, covered: &[u8]) -> u32 {
        let (head, rest) = match covered.split_first_chunk::<HEAD_LEN>() {
            Some(parts) if covered.len() >= BTH_LEN => parts,
            _ => return super::icrc(flow, ip_id, covered),
        };
        let behind_head = self.with_id(flow, ip_id, covered, head);
        match self.payload_crc {
            Some(payload_crc) if rest.len() >= BLOCK => by_parts(behind_head, rest, payload_crc),
            _ => update(behind_head, rest),
        }
    }

    /// [`icrc`](Self::icrc) of a packet with a payload of 2^6 to 2^12 bytes that has this [register](crate::crc_register): it
    /// is not read again.
    #[inline]
    pub fn icrc_around(&mut self, flow: &Flow, ip_id: u16, covered: &[u8], payload: u32) -> u32 {
        let parts = covered.split_first_chunk::<HEAD_LEN>();
        let parts = parts.and_then(|(head, rest)| Some((head, Parts::of(rest)?)));
        let Some((head, parts)) = parts else {
            return super::icrc(flow, ip_id, covered);
        };
        parts.around(self.with_id(flow, ip_id, covered, head), payload)
    }

    /// The CRC up to the end of the head of the BTH.
    // Always: each packet takes this way once, from two places.
    #[inline(always)]
    fn with_id(&mut self, flow: &Flow, ip_id: u16, covered: &[u8], head: &[u8; HEAD_LEN]) -> u32 {
        let zero = self.behind_head(flow, covered, u64::from_le_bytes(*head));
        let [high, low] = ip_id.to_be_bytes();
        let shares = ID_SHARE[0][usize::from(high)] ^ ID_SHARE[1][usize::from(low)];
        if flow.is_ipv4() { zero ^ shares } else { zero }
    }

    /// True if the last four bytes of `packet` (BTH to ICRC) are its ICRC.
    #[inline]
    pub fn verify(&mut self, flow: &Flow, ip_id: u16, packet: &[u8]) -> bool {
        let Some((covered, found)) = packet.split_last_chunk::<ICRC_LEN>() else {
            return false;
        };
        self.icrc(flow, ip_id, covered) == u32::from_le_bytes(*found)
    }

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

    // Always: as above; what is known of the flow stays in registers for all packets of a train.
    #[inline(always)]
    fn behind_head(&mut self, flow: &Flow, covered: &[u8], head: u64) -> u32 {
        match self.last.as_ref().and_then(|last| last.behind(flow, covered, head)) {
            Some(behind) => behind,
            None => self.behind_another_head(flow, covered, head),
        }
    }

    /// In a conversation every packet is alike to the one before the last: data, ACK, data.
    #[inline(never)]
    fn behind_another_head(&mut self, flow: &Flow, covered: &[u8], head: u64) -> u32 {
        match self.before.as_ref().and_then(|before| before.behind(flow, covered, head)) {
            Some(behind) => behind,
            None => self.renew(flow, covered, head),
        }
    }

    #[cold]
    fn renew(&mut self, flow: &Flow, covered: &[u8], head: u64) -> u32 {
        if !self.last.is_some_and(|last| last.is_of(flow, covered)) {
            core::mem::swap(&mut self.last, &mut self.before);
        }
        let known = match self.last {
            Some(last) if last.is_of(flow, covered) => last.with_head(head),
            _ => Known::new(flow, covered, head),
        };
        self.last = Some(known);
        known.behind_head
    }
}

/// Checks the ICRC of `packet` (BTH to ICRC) without knowing the IPv4 identification. One CRC with
/// the first guess, which mostly is right; the linear solve of the difference finds any other.
pub fn recover(flow: &Flow, guesses: &[u16], packet: &[u8]) -> IcrcVerdict {
    FlowIcrc::default().recover(flow, guesses, packet)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{crc_register, icrc};

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

    proptest! {
        /// Payloads of whole packets, and others.
        #[test]
        fn the_icrc_around_a_payload_is_that_of_all(
            (id, v6) in (any::<u16>(), any::<bool>()),
            head in prop::array::uniform12(any::<u8>()),
            more in (0usize..6).prop_map(|words| 4 * words),
            len in prop_oneof![(6u32..13).prop_map(|power| 1usize << power), 0usize..600],
            seed: u8,
        ) {
            let body = (0..more + len).map(|n| (n * 37) as u8 ^ (n >> 8) as u8 ^ seed);
            let covered: std::vec::Vec<u8> = head.into_iter().chain(body).collect();
            let flow = flow(v6, 0xc003);
            let mut by_payload = FlowIcrc::with_payload_crc(|before, bytes| Some(!update(!before, bytes)));
            for _ in 0..2 {
                prop_assert_eq!(by_payload.icrc(&flow, id, &covered), icrc(&flow, id, &covered));
                if len.is_power_of_two() && len >= 64 && more <= 16 {
                    let payload = crc_register(&covered[12 + more..]);
                    let found = FlowIcrc::default().icrc_around(&flow, id, &covered, payload);
                    prop_assert_eq!(found, icrc(&flow, id, &covered));
                }
            }
        }
    }

    fn packet(id: u16, body: &[u8]) -> std::vec::Vec<u8> {
        let mut bytes = body.to_vec();
        bytes.extend_from_slice(&icrc(&flow(false, 0xc001), id, body).to_le_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn any_identification_is_found(id: u16, body in prop::collection::vec(any::<u8>(), 12..600)) {
            let packet = packet(id, &body);
            prop_assert_eq!(recover(&flow(false, 0xc001), &[], &packet), IcrcVerdict::Solved(id));
            prop_assert_eq!(recover(&flow(false, 0xc001), &[7, id], &packet), IcrcVerdict::Predicted(id));
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
            let verdict = recover(&flow(false, 0xc001), &[0], &bad);
            if masked {
                assert_eq!(verdict, IcrcVerdict::Solved(0x1234));
            } else if verdict != IcrcVerdict::Bad {
                passed += 1;
            }
        }
        assert_eq!(passed, 0, "no single-bit error looks like another identification");
    }
}
