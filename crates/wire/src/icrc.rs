//! The invariant CRC (docs/wire.md).
//!
//! CRC-32 as in zlib over 8 dummy bytes, IP, UDP, BTH, extension headers, payload and pad, with
//! the fields that change on the way replaced by ones. It goes out little-endian.

mod captured;
mod crc;
mod flow;
mod v1;

use core::net::IpAddr;

pub use captured::{icrc_of_captured, icrc_of_local, solve_two_bytes};
pub(crate) use crc::update;
pub use crc::{CrcMethod, crc_method, crc_register, set_crc_method};
pub use flow::{FlowIcrc, IcrcVerdict, PayloadCrc, recover};
pub use v1::icrc_v1;
pub(crate) use v1::update_masked;

/// CRC-32 of the 8 dummy bytes that stand for the masked LRH.
pub(crate) const DUMMY_CRC: u32 = 0x2144_df1c;
const DUMMY_LEN: u64 = 8;
/// UDP header.
const UDP_LEN: usize = 8;
/// Bytes of the ICRC.
pub const ICRC_LEN: usize = 4;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const BTH_LEN: usize = 12;
/// IPv6, UDP and BTH: the headers that have masked fields.
const MASKED_MAX: usize = IPV6_LEN + UDP_LEN + BTH_LEN;
/// BTH up to and including the congestion marks.
const MASKED_BTH: usize = 5;

/// Addresses and ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub src: IpAddr,
    /// Destination address; of the same family.
    pub dst: IpAddr,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
}

impl Flow {
    /// True if the ICRC of this flow covers an IPv4 identification.
    pub fn is_ipv4(&self) -> bool {
        self.src.is_ipv4() && self.dst.is_ipv4()
    }
}

/// Masked headers of one packet.
struct Masked {
    bytes: [u8; MASKED_MAX],
    len: usize,
}

impl Masked {
    /// IP, UDP and BTH. `covered` is BTH to pad. Fixed offsets, so that nothing is checked or moved
    /// twice: this runs for every packet.
    #[inline]
    fn of(flow: &Flow, ip_id: u16, covered: &[u8]) -> Masked {
        let udp_len = (covered.len() + UDP_LEN + ICRC_LEN) as u16;
        match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut bytes = [0; MASKED_MAX];
                let [id_hi, id_lo] = ip_id.to_be_bytes();
                let [len_hi, len_lo] = udp_len.wrapping_add(IPV4_LEN as u16).to_be_bytes();
                // ToS, TTL and header checksum are ones; DF is set.
                let fixed =
                    [0x45, 0xff, len_hi, len_lo, id_hi, id_lo, 0x40, 0, 0xff, 17, 0xff, 0xff];
                bytes[..12].copy_from_slice(&fixed);
                bytes[12..16].copy_from_slice(&src.octets());
                bytes[16..20].copy_from_slice(&dst.octets());
                Masked::with_transport::<IPV4_LEN>(bytes, flow, udp_len, covered)
            }
            (src, dst) => {
                let mut bytes = [0; MASKED_MAX];
                let [len_hi, len_lo] = udp_len.to_be_bytes();
                // Traffic class, flow label and hop limit are ones.
                bytes[..8].copy_from_slice(&[0x6f, 0xff, 0xff, 0xff, len_hi, len_lo, 17, 0xff]);
                bytes[8..24].copy_from_slice(&ipv6(src));
                bytes[24..40].copy_from_slice(&ipv6(dst));
                Masked::with_transport::<IPV6_LEN>(bytes, flow, udp_len, covered)
            }
        }
    }

    /// Adds UDP and BTH behind an IP header of `AT` bytes.
    #[inline]
    fn with_transport<const AT: usize>(
        mut bytes: [u8; MASKED_MAX],
        flow: &Flow,
        udp_len: u16,
        covered: &[u8],
    ) -> Masked {
        bytes[AT..AT + 2].copy_from_slice(&flow.src_port.to_be_bytes());
        bytes[AT + 2..AT + 4].copy_from_slice(&flow.dst_port.to_be_bytes());
        bytes[AT + 4..AT + 6].copy_from_slice(&udp_len.to_be_bytes());
        bytes[AT + 6..AT + 8].fill(0xff);
        let Some(bth) = covered.first_chunk::<BTH_LEN>() else {
            // Not a packet; its ICRC is only required to be some number.
            return Masked { bytes, len: AT + UDP_LEN };
        };
        bytes[AT + UDP_LEN..AT + UDP_LEN + BTH_LEN].copy_from_slice(bth);
        bytes[AT + UDP_LEN + 4] = 0xff;
        Masked { bytes, len: AT + UDP_LEN + BTH_LEN }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

fn ipv6(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
    }
}

/// The ICRC of a RoCEv2 packet as it is sent: IPv4 with DF and without options, or IPv6.
/// `covered` is BTH to pad; `ip_id` is ignored for IPv6. Its wire form is `to_le_bytes`.
#[inline]
pub fn icrc(flow: &Flow, ip_id: u16, covered: &[u8]) -> u32 {
    let masked = Masked::of(flow, ip_id, covered);
    let headers = update(DUMMY_CRC, masked.bytes());
    update(headers, covered.get(BTH_LEN..).unwrap_or(&[]))
}

/// True if the last four bytes of `packet` (BTH to ICRC) are its ICRC.
#[inline]
pub fn verify(flow: &Flow, ip_id: u16, packet: &[u8]) -> bool {
    let Some((covered, found)) = packet.split_last_chunk::<ICRC_LEN>() else {
        return false;
    };
    icrc(flow, ip_id, covered) == u32::from_le_bytes(*found)
}

/// The slow twin of [`icrc`]: one bit at a time, for differential tests.
pub fn icrc_bitwise(flow: &Flow, ip_id: u16, covered: &[u8]) -> u32 {
    let masked = Masked::of(flow, ip_id, covered);
    let tail = covered.get(BTH_LEN..).unwrap_or(&[]);
    let stream = [0xff; 8].iter().chain(masked.bytes()).chain(tail);
    let mut crc = u32::MAX;
    for byte in stream {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}
