//! The Ethernet frame around a UDP payload, as it is on the wire.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::mac::{Mac, multicast_mac};

/// Bytes before the payload at most: Ethernet, IPv6, UDP.
pub(super) const MAX_HEADERS: usize = 14 + 40 + 8;

const UDP: u8 = 17;

/// The header fields of a packet in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) src: SocketAddr,
    pub(super) dst: SocketAddr,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    /// IPv4 identification.
    pub(super) id: u16,
}

/// Replaces `frame` by the frame of `payload`; `None` when the addresses are of two IP versions or
/// the payload is longer than IP allows.
pub(super) fn build(headers: &Headers, payload: &[u8], frame: &mut Vec<u8>) -> Option<()> {
    frame.clear();
    let udp = u16::try_from(payload.len() + 8).ok()?;
    frame.extend(mac(headers.dst.ip()));
    frame.extend(mac(headers.src.ip()));
    match (headers.src.ip(), headers.dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend(0x0800u16.to_be_bytes());
            frame.extend(ipv4(headers, src, dst, udp.checked_add(20)?));
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend(0x86ddu16.to_be_bytes());
            frame.extend(ipv6(headers, src, dst, udp));
        }
        _ => return None,
    }
    for word in [headers.src.port(), headers.dst.port(), udp, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend_from_slice(payload);
    Some(())
}

/// A hardware address made from an IP address: that of the group for multicast, else a locally
/// administered one. The datapath never sees the real one.
fn mac(ip: IpAddr) -> Mac {
    multicast_mac(ip).unwrap_or_else(|| match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [2, 0, a, b, c, d]
        }
        IpAddr::V6(ip) => {
            let [.., w, x, y, z] = ip.octets();
            [2, 6, w, x, y, z]
        }
    })
}

/// Header with don't-fragment set and a right checksum.
fn ipv4(headers: &Headers, src: Ipv4Addr, dst: Ipv4Addr, length: u16) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[1] = headers.traffic_class;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[4..6].copy_from_slice(&headers.id.to_be_bytes());
    header[6] = 0x40;
    header[8] = headers.hop_limit;
    header[9] = UDP;
    header[12..16].copy_from_slice(&src.octets());
    header[16..20].copy_from_slice(&dst.octets());
    let checksum = checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Header with flow label 0.
fn ipv6(headers: &Headers, src: Ipv6Addr, dst: Ipv6Addr, length: u16) -> [u8; 40] {
    let mut header = [0; 40];
    let first = (6 << 28) | (u32::from(headers.traffic_class) << 20);
    header[..4].copy_from_slice(&first.to_be_bytes());
    header[4..6].copy_from_slice(&length.to_be_bytes());
    header[6] = UDP;
    header[7] = headers.hop_limit;
    header[8..24].copy_from_slice(&src.octets());
    header[24..40].copy_from_slice(&dst.octets());
    header
}

/// The Internet checksum (RFC 1071) of a header whose checksum field is 0.
fn checksum(header: &[u8; 20]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    use super::*;

    fn frame(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
        let (src, dst) = (src.parse().expect("src"), dst.parse().expect("dst"));
        let headers = Headers { src, dst, traffic_class: 0x6a, hop_limit: 63, id: 0xbeef };
        let mut frame = vec![0xff; 3];
        build(&headers, payload, &mut frame).expect("frame");
        frame
    }

    #[test]
    fn another_parser_reads_the_ipv4_header() {
        let frame = frame("10.0.0.1:50000", "10.0.0.2:4791", b"payload");
        let sliced = SlicedPacket::from_ethernet(&frame).expect("frame");
        let Some(NetSlice::Ipv4(ip)) = sliced.net else { panic!("no IPv4") };
        let header = ip.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!((header.identification, header.time_to_live), (0xbeef, 63));
        assert_eq!((header.dont_fragment, header.total_len), (true, 20 + 8 + 7));
        assert_eq!(frame[15], 0x6a);
        assert_eq!((header.source, header.destination), ([10, 0, 0, 1], [10, 0, 0, 2]));
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
        assert_eq!((udp.source_port(), udp.destination_port()), (50000, 4791));
        assert_eq!((udp.checksum(), udp.payload()), (0, &b"payload"[..]));
    }

    #[test]
    fn another_parser_reads_the_ipv6_header() {
        let frame = frame("[fd00::1]:50000", "[fd00::2]:4791", b"payload!");
        let sliced = SlicedPacket::from_ethernet(&frame).expect("frame");
        let Some(NetSlice::Ipv6(ip)) = sliced.net else { panic!("no IPv6") };
        let header = ip.header().to_header();
        assert_eq!((header.traffic_class, header.hop_limit), (0x6a, 63));
        assert_eq!((header.payload_length, header.flow_label.value()), (16, 0));
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
        assert_eq!((udp.length(), udp.payload()), (16, &b"payload!"[..]));
    }

    #[test]
    fn groups_have_their_hardware_address() {
        assert_eq!(frame("10.0.0.1:1", "239.129.2.3:1", b"")[..6], [1, 0, 0x5e, 1, 2, 3]);
        assert_eq!(frame("[::1]:1", "[ff12::1:2]:1", b"")[..6], [0x33, 0x33, 0, 1, 0, 2]);
    }

    #[test]
    fn what_cannot_be_a_packet_makes_no_frame() {
        let (v4, v6) = ("10.0.0.1:1".parse().expect("v4"), "[::1]:1".parse().expect("v6"));
        let headers = Headers { src: v4, dst: v6, traffic_class: 0, hop_limit: 1, id: 0 };
        assert_eq!(build(&headers, b"", &mut Vec::new()), None);
        let headers = Headers { dst: v4, ..headers };
        assert_eq!(build(&headers, &[0; 65_508], &mut Vec::new()), None);
        assert_eq!(build(&headers, &[0; 65_507], &mut Vec::new()), Some(()));
    }
}
