//! The headers of outgoing frames.

use std::net::IpAddr;

use uroce_datapath::{Mac, Route};
use uroce_wire::{Ipv4, Ipv6, UdpPorts, write_ethernet, write_ipv4_udp, write_ipv6_udp};

use super::is_consistent;

/// Bytes of the longest headers: Ethernet, VLAN tag, IPv6, UDP.
pub const MAX_HEADERS: usize = 14 + 4 + Ipv6::LEN + UdpPorts::LEN;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const PROTOCOL_UDP: u32 = 17;

/// What an Ethernet header says, but for the Ethertype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ethernet {
    /// Our hardware address.
    pub src: Mac,
    /// That of the next hop or the group.
    pub dst: Mac,
    /// VLAN id for an 802.1Q tag.
    pub vlan: Option<u16>,
}

/// Ethernet, IP and UDP header of one route; per packet only lengths, identification and checksums
/// are filled in.
///
/// As RoCE has it: DF set, no fragments, flow label 0, UDP checksum 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderTemplate {
    bytes: [u8; MAX_HEADERS],
    len: usize,
    ip_at: usize,
    ipv4: bool,
    /// Sum of the 16-bit words of the IPv4 header but for total length, identification, checksum.
    ip_sum: u32,
    /// Sum of the UDP pseudo-header without the length.
    pseudo_sum: u32,
}

impl HeaderTemplate {
    /// The headers of `route`; `None` when its ends are of two IP versions or the VLAN id is above
    /// 4095.
    #[must_use]
    pub fn new(ethernet: &Ethernet, route: &Route) -> Option<Self> {
        if !is_consistent(route) {
            return None;
        }
        let mut bytes = [0; MAX_HEADERS];
        let ipv4 = route.dst.is_ipv4();
        let ether_type = if ipv4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        let Ethernet { src, dst, vlan } = *ethernet;
        let ip_at = write_ethernet(&mut bytes, src, dst, vlan, ether_type)?;
        let len = ip_at + write_ip(&mut bytes[ip_at..], route)?;
        // Lengths and checksum are those of an empty payload; the sums leave them out.
        let mut ip = bytes;
        for at in [2, 3, 10, 11] {
            ip[ip_at + at] = 0;
        }
        let ip_sum = internet_sum(&ip[ip_at..ip_at + Ipv4::LEN]);
        let addresses = if ipv4 { ip_at + 12..ip_at + 20 } else { ip_at + 8..ip_at + 40 };
        let pseudo_sum = PROTOCOL_UDP + internet_sum(&bytes[addresses]);
        Some(Self { bytes, len, ip_at, ipv4, ip_sum, pseudo_sum })
    }

    /// Bytes of all headers.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "headers are never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where the UDP header starts in the frame.
    #[must_use]
    pub fn udp_at(&self) -> usize {
        self.len - UdpPorts::LEN
    }

    /// Whether the headers are IPv4.
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.ipv4
    }

    /// Writes the headers for a UDP payload of `payload` bytes (BTH to ICRC) in front of it; returns
    /// their length, or `None` when `out` is too short or the packet longer than IP allows.
    ///
    /// `ip_id` is ignored for IPv6.
    #[inline]
    pub fn write(&self, ip_id: u16, payload: usize, out: &mut [u8]) -> Option<usize> {
        let udp_len = u16::try_from(payload + UdpPorts::LEN).ok()?;
        let out = out.get_mut(..self.len)?;
        out.copy_from_slice(&self.bytes[..self.len]);
        let ip = self.ip_at;
        if self.ipv4 {
            let total = udp_len.checked_add(Ipv4::LEN as u16)?;
            let sum = !fold(self.ip_sum + u32::from(total) + u32::from(ip_id));
            out[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
            out[ip + 4..ip + 6].copy_from_slice(&ip_id.to_be_bytes());
            out[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        } else {
            out[ip + 4..ip + 6].copy_from_slice(&udp_len.to_be_bytes());
        }
        let udp = self.udp_at();
        out[udp + 4..udp + 6].copy_from_slice(&udp_len.to_be_bytes());
        Some(self.len)
    }

    /// As [`write`](Self::write), for a packet that the link cuts into segments: the UDP checksum
    /// field holds the sum of the pseudo-header, from which the link computes that of each segment.
    #[inline]
    pub fn write_for_offload(&self, ip_id: u16, payload: usize, out: &mut [u8]) -> Option<usize> {
        let len = self.write(ip_id, payload, out)?;
        let sum = fold(self.pseudo_sum + (payload + UdpPorts::LEN) as u32);
        let udp = self.udp_at();
        out[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
        Some(len)
    }
}

/// IP and UDP header of `route` with an empty payload and identification 0.
fn write_ip(out: &mut [u8], route: &Route) -> Option<usize> {
    let ports = UdpPorts { src: route.src.port(), dst: route.dst.port() };
    let hop_limit = route.hop_limit.max(1);
    match (route.src.ip(), route.dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let tos = route.traffic_class;
            write_ipv4_udp(out, &Ipv4 { src, dst, id: 0, ttl: hop_limit, tos, df: true }, ports, 0)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let traffic_class = route.traffic_class;
            let ip = Ipv6 { src, dst, hop_limit, traffic_class, flow_label: 0 };
            write_ipv6_udp(out, &ip, ports, 0)
        }
        _ => None,
    }
}

/// The sum of the 16-bit words of `bytes` (RFC 1071), not yet folded; an odd last byte is left out.
fn internet_sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum()
}

/// The one's complement sum in 16 bits.
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;
    use uroce_wire::parse_ethernet;

    use super::*;

    fn route(src: &str, dst: &str) -> Route {
        let (src, dst) = (src.parse().expect("src"), dst.parse().expect("dst"));
        Route { src, dst, hop_limit: 63, traffic_class: 0x6a }
    }

    fn frame(route: &Route, vlan: Option<u16>, id: u16, payload: &[u8]) -> Vec<u8> {
        let ethernet = Ethernet { src: [2; 6], dst: [4; 6], vlan };
        let template = HeaderTemplate::new(&ethernet, route).expect("template");
        let mut frame = vec![0xff; template.len()];
        assert_eq!(template.write(id, payload.len(), &mut frame), Some(template.len()));
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn our_own_reader_reads_what_is_written() {
        for vlan in [None, Some(100)] {
            for (src, dst) in [
                ("10.0.0.1:50000", "10.0.0.2:4791"),
                ("[fd00::1]:50000", "[fd00::2]:4791"),
                ("10.0.0.1:50000", "239.1.2.3:4791"),
            ] {
                let route = route(src, dst);
                let bytes = frame(&route, vlan, 0xbeef, &[7; 20]);
                let read = parse_ethernet(&bytes).expect("frame");
                assert_eq!(read.vlan, vlan);
                assert_eq!(read.addresses(), (route.src.ip(), route.dst.ip()));
                assert_eq!((read.ip.hop_limit(), read.ip.traffic_class()), (63, 0x6a));
                assert_eq!(read.ip.ip_id(), route.dst.is_ipv4().then_some(0xbeef));
                assert_eq!(read.transport, [7; 20]);
            }
        }
    }

    proptest! {
        /// The slow twin: the builder of the wire crate, which computes each checksum anew.
        #[test]
        fn e4_e7_e8_every_header_is_that_of_the_slow_builder(
            id: u16, tos: u8, ttl in 1u8.., src: [u8; 4], dst: [u8; 4], payload in 0usize..65_507,
        ) {
            let route = Route {
                src: (src, 1).into(), dst: (dst, 4791).into(), hop_limit: ttl, traffic_class: tos,
            };
            let ethernet = Ethernet { src: [2; 6], dst: [4; 6], vlan: None };
            let template = HeaderTemplate::new(&ethernet, &route).expect("template");
            let (mut ours, mut theirs) = ([0; MAX_HEADERS], [0; MAX_HEADERS]);
            template.write(id, payload, &mut ours);
            write_ethernet(&mut theirs, [2; 6], [4; 6], None, 0x0800);
            let ip = Ipv4 { src: src.into(), dst: dst.into(), id, ttl, tos, df: true };
            write_ipv4_udp(&mut theirs[14..], &ip, UdpPorts { src: 1, dst: 4791 }, payload);
            // Two ways to write zero: 0 and 0xffff are the same checksum.
            let zero = |bytes: &[u8]| bytes[24..26] == [0; 2] || bytes[24..26] == [0xff; 2];
            prop_assert!(ours[24..26] == theirs[24..26] || zero(&ours) && zero(&theirs));
            ours[24..26].fill(0);
            theirs[24..26].fill(0);
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn e6_the_sum_for_offload_makes_a_right_udp_checksum() {
        for (src, dst) in
            [("10.0.0.1:50000", "10.0.0.2:4791"), ("[fd00::1]:50000", "[fd00::2]:4791")]
        {
            let route = route(src, dst);
            let ethernet = Ethernet { src: [2; 6], dst: [4; 6], vlan: None };
            let template = HeaderTemplate::new(&ethernet, &route).expect("template");
            let mut bytes = [0xa5; MAX_HEADERS + 64];
            let len = template.write_for_offload(1, 64, &mut bytes).expect("room");
            let udp = template.udp_at();
            let checksum = !fold(internet_sum(&bytes[udp..len + 64]));
            bytes[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
            let sliced = SlicedPacket::from_ethernet(&bytes[..len + 64]).expect("frame");
            let Some(TransportSlice::Udp(slice)) = sliced.transport else { panic!("no UDP") };
            let header = slice.to_header();
            let right = match sliced.net.expect("IP") {
                NetSlice::Ipv4(ip) => {
                    header.calc_checksum_ipv4(&ip.header().to_header(), slice.payload())
                }
                NetSlice::Ipv6(ip) => {
                    header.calc_checksum_ipv6(&ip.header().to_header(), slice.payload())
                }
                NetSlice::Arp(_) => panic!("ARP"),
            };
            assert_eq!(header.checksum, right.expect("checksum"));
        }
    }

    #[test]
    fn what_cannot_be_a_packet_makes_no_headers() {
        let ethernet = Ethernet { src: [2; 6], dst: [4; 6], vlan: None };
        let mixed =
            Route { dst: "[::1]:1".parse().expect("v6"), ..route("1.1.1.1:1", "1.1.1.1:1") };
        assert_eq!(HeaderTemplate::new(&ethernet, &mixed), None);
        let route = route("10.0.0.1:1", "10.0.0.2:1");
        let tagged = Ethernet { vlan: Some(4096), ..ethernet };
        assert_eq!(HeaderTemplate::new(&tagged, &route), None);
        let template = HeaderTemplate::new(&ethernet, &route).expect("template");
        assert_eq!(template.write(0, 65_508, &mut [0; MAX_HEADERS]), None);
        assert_eq!(template.write(0, 65_507, &mut [0; 41]), None);
        assert_eq!(template.write(0, 65_507, &mut [0; 42]), Some(42));
    }
}
