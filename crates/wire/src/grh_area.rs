//! The 40 bytes in front of a UD payload (docs/wire.md).

use core::net::IpAddr;

/// Bytes before the payload of each received datagram (UD): the GRH, or the IPv4 header in its place. A receive buffer
/// for datagrams needs this much more than the longest payload.
pub const GRH_AREA_LEN: usize = 40;

/// What a UD receive buffer holds before the payload: the IPv6 header, or 20 zero bytes and the
/// IPv4 header with a valid checksum, by which a receiver tells the two apart.
pub fn ud_grh_area(
    src: IpAddr,
    dst: IpAddr,
    ip_id: u16,
    hop_limit: u8,
    traffic_class: u8,
    udp_len: u16,
) -> [u8; GRH_AREA_LEN] {
    let mut area = [0; GRH_AREA_LEN];
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = &mut area[20..];
            header[0] = 0x45;
            header[1] = traffic_class;
            header[2..4].copy_from_slice(&udp_len.wrapping_add(20).to_be_bytes());
            header[4..6].copy_from_slice(&ip_id.to_be_bytes());
            header[6] = 0x40;
            header[8] = hop_limit;
            header[9] = 17;
            header[12..16].copy_from_slice(&src.octets());
            header[16..20].copy_from_slice(&dst.octets());
            let sum = ipv4_checksum(header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (src, dst) => {
            let class = u32::from(traffic_class) << 20;
            area[0..4].copy_from_slice(&(0x6000_0000 | class).to_be_bytes());
            area[4..6].copy_from_slice(&udp_len.to_be_bytes());
            area[6] = 17;
            area[7] = hop_limit;
            area[8..24].copy_from_slice(&octets(src));
            area[24..40].copy_from_slice(&octets(dst));
        }
    }
    area
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
    }
}

/// The IPv4 header checksum over `header` as it stands.
pub(crate) fn ipv4_checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e12_ipv4_header_has_a_valid_checksum() {
        let (src, dst) = ([10, 77, 0, 12].into(), [10, 77, 0, 11].into());
        let area = ud_grh_area(src, dst, 0x8882, 64, 0, 136);
        assert_eq!(area[..20], [0; 20]);
        // The header of the UD packet captured between two rxe guests.
        let captured = [
            0x45, 0, 0, 0x9c, 0x88, 0x82, 0x40, 0, 0x40, 0x11, 0x9d, 0x1e, 0x0a, 0x4d, 0, 0x0c,
            0x0a, 0x4d, 0, 0x0b,
        ];
        assert_eq!(area[20..], captured);
        assert_eq!(ipv4_checksum(&area[20..]), 0);
    }

    #[test]
    fn e12_ipv6_header_fills_the_area() {
        let ip = |last| IpAddr::from([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        let area = ud_grh_area(ip(1), ip(2), 9, 255, 0xb8, 100);
        assert_eq!(area[..8], [0x6b, 0x80, 0, 0, 0, 100, 17, 255]);
        assert_eq!((area[23], area[39]), (1, 2));
    }
}
