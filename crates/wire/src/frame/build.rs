//! Headers in front of a transport packet, as we put them on the wire.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::grh_area::ipv4_checksum;

/// Ethernet header; `None` if it does not fit. Returns its length.
pub fn write_ethernet(
    dst: [u8; 6],
    src: [u8; 6],
    ether_type: u16,
    out: &mut [u8],
) -> Option<usize> {
    let out = out.first_chunk_mut::<14>()?;
    out[0..6].copy_from_slice(&dst);
    out[6..12].copy_from_slice(&src);
    out[12..14].copy_from_slice(&ether_type.to_be_bytes());
    Some(14)
}

/// IPv4 (DF set, no options) and UDP header (checksum 0) for `payload` bytes of transport packet.
/// `None` if they do not fit. Returns their length, 28.
#[allow(clippy::too_many_arguments, reason = "one argument per header field")]
pub fn write_ipv4_udp(
    src: (Ipv4Addr, u16),
    dst: (Ipv4Addr, u16),
    id: u16,
    ttl: u8,
    tos: u8,
    payload: u16,
    out: &mut [u8],
) -> Option<usize> {
    let out = out.first_chunk_mut::<28>()?;
    let udp_len = payload.checked_add(8)?;
    let area = crate::ud_grh_area(IpAddr::V4(src.0), IpAddr::V4(dst.0), id, ttl, tos, udp_len);
    out[..20].copy_from_slice(&area[20..]);
    debug_assert_eq!(ipv4_checksum(&out[..20]), 0);
    write_udp(src.1, dst.1, udp_len, &mut out[20..]);
    Some(28)
}

/// IPv6 and UDP header (checksum 0). `None` if they do not fit. Returns their length, 48.
pub fn write_ipv6_udp(
    src: (Ipv6Addr, u16),
    dst: (Ipv6Addr, u16),
    hop_limit: u8,
    traffic_class: u8,
    payload: u16,
    out: &mut [u8],
) -> Option<usize> {
    let out = out.first_chunk_mut::<48>()?;
    let udp_len = payload.checked_add(8)?;
    let (from, to) = (IpAddr::V6(src.0), IpAddr::V6(dst.0));
    let area = crate::ud_grh_area(from, to, 0, hop_limit, traffic_class, udp_len);
    out[..40].copy_from_slice(&area);
    write_udp(src.1, dst.1, udp_len, &mut out[40..]);
    Some(48)
}

fn write_udp(src: u16, dst: u16, length: u16, out: &mut [u8]) {
    let words = [src, dst, length, 0];
    for (to, word) in out.chunks_exact_mut(2).zip(words) {
        to.copy_from_slice(&word.to_be_bytes());
    }
}
