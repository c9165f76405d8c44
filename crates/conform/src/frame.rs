//! Ethernet frames as cases write them: what a UDP socket cannot send.

use std::net::IpAddr;
use std::time::Duration;

use uroce_wire::{
    Flow, Ipv4, Ipv6, UdpPorts, icrc, write_ethernet, write_ipv4_udp, write_ipv6_udp,
};

use crate::packet::SOURCE_PORT;
use crate::{Entry, FrameEnds, Packet, Side};

/// IPv4 identification of a fresh frame.
const IP_ID: u16 = 0x4242;
/// Hops that a frame may take.
const HOPS: u8 = 64;
/// Bytes of a UDP header.
const UDP: usize = 8;
/// Ethertypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
/// Protocol numbers of IP.
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_UDP: u8 = 17;
/// "More fragments" beside the offset of a fragment.
const MORE_FRAGMENTS: u16 = 0x2000;

/// What stands in the checksum field of the UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpChecksum {
    /// 0: none, as RoCEv2 has it.
    Absent,
    /// The right one.
    Right,
    /// One that is neither 0 nor right.
    Wrong,
}

/// An Ethernet frame that a case sends. Fresh from [`Qp::frame`](crate::Qp::frame) it is right in every respect. Each
/// method changes one thing and leaves the ICRC as it is; the checksum of an IPv4 header is always right.
#[derive(Debug, Clone)]
pub struct Frame {
    ends: FrameEnds,
    /// 802.1Q: priority, drop eligibility and VLAN.
    tag: Option<u16>,
    /// The IP header.
    ip: Vec<u8>,
    /// All behind the IP header.
    transport: Vec<u8>,
    checksum: UdpChecksum,
    /// Zeros behind the IP packet.
    padding: usize,
    source_port: u16,
    traffic_class: u8,
}

impl Frame {
    /// A frame with this packet; `None` if it is longer than IP allows, or its ends are of two IP versions.
    pub(crate) fn new(
        ends: FrameEnds,
        (src, dst): (IpAddr, IpAddr),
        packet: &Packet,
    ) -> Option<Frame> {
        let source_port = packet.source_port.unwrap_or(SOURCE_PORT);
        let flow = Flow { src, dst, src_port: source_port, dst_port: ends.udp_port };
        let covered = packet.covered();
        let sum = packet.icrc.damage()(icrc(&flow, IP_ID, &covered), &covered);
        let payload = [covered.as_slice(), &sum.to_le_bytes()].concat();
        let traffic_class = packet.traffic_class;
        let (ip, udp) = headers(&flow, traffic_class, payload.len())?;
        let (tag, transport, checksum) = (None, [udp, payload].concat(), UdpChecksum::Absent);
        let padding = 0;
        Some(Frame { ends, tag, ip, transport, checksum, padding, source_port, traffic_class })
    }

    /// ICMP "port unreachable" about a packet that came (BTH to ICRC): it flew from `from` to `to`. IPv4 only.
    pub(crate) fn unreachable(
        ends: FrameEnds,
        (from, to): (IpAddr, IpAddr),
        (source_port, payload): (u16, &[u8]),
    ) -> Option<Frame> {
        let quoted = Flow { src: from, dst: to, src_port: source_port, dst_port: ends.udp_port };
        let (quoted_ip, udp) = headers(&quoted, 0, payload.len())?;
        let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
        message.extend(quoted_ip.iter().chain(&udp).chain(payload.iter().take(20)));
        let sum = internet_checksum(&message);
        put(&mut message, 2, sum);
        let back = Flow { src: to, dst: from, src_port: 0, dst_port: 0 };
        let (mut ip, _) = headers(&back, 0, message.len() - UDP)?;
        if ip.len() != Ipv4::LEN {
            return None;
        }
        ip[9] = PROTOCOL_ICMP;
        let checksum = UdpChecksum::Absent;
        let (tag, padding, traffic_class) = (None, 0, 0);
        let transport = message;
        Some(Frame { ends, tag, ip, transport, checksum, padding, source_port, traffic_class })
    }

    /// It is IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.ip.first().is_some_and(|byte| byte >> 4 == 4)
    }

    /// Another IPv4 type of service or IPv6 traffic class.
    #[must_use]
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.traffic_class = class;
        if self.is_ipv4() {
            self.ip[1] = class;
        } else {
            self.ip[0] = 0x60 | class >> 4;
            self.ip[1] = self.ip[1] & 0x0f | class << 4;
        }
        self
    }

    /// Another hop limit.
    #[must_use]
    pub fn hop_limit(mut self, hops: u8) -> Self {
        let at = if self.is_ipv4() { 8 } else { 7 };
        self.ip[at] = hops;
        self
    }

    /// Another IPv4 identification; without effect on IPv6.
    #[must_use]
    pub fn ip_id(mut self, id: u16) -> Self {
        if self.is_ipv4() {
            put(&mut self.ip, 4, id);
        }
        self
    }

    /// Another IPv6 flow label; without effect on IPv4.
    #[must_use]
    pub fn flow_label(mut self, label: u32) -> Self {
        if !self.is_ipv4() {
            self.ip[1] = self.ip[1] & 0xf0 | (label >> 16) as u8 & 0x0f;
            put(&mut self.ip, 2, label as u16);
        }
        self
    }

    /// IPv4 options, a multiple of 4 bytes and 40 at most; without effect on IPv6.
    #[must_use]
    pub fn options(mut self, options: &[u8]) -> Self {
        if self.is_ipv4() {
            self.ip.truncate(Ipv4::LEN);
            self.ip.extend(options);
            self.ip[0] = 0x40 | (self.ip.len() / 4) as u8;
            self.lengthen();
        }
        self
    }

    /// Another UDP source port.
    #[must_use]
    pub fn source_port(mut self, port: u16) -> Self {
        self.source_port = port;
        put(&mut self.transport, 0, port);
        self
    }

    /// Another length in the UDP header.
    #[must_use]
    pub fn udp_length(mut self, length: u16) -> Self {
        put(&mut self.transport, 4, length);
        self
    }

    /// Bytes of UDP header and payload.
    pub fn udp_bytes(&self) -> u16 {
        self.transport.len() as u16
    }

    /// Another UDP checksum.
    #[must_use]
    pub fn checksum(mut self, checksum: UdpChecksum) -> Self {
        self.checksum = checksum;
        self
    }

    /// Another value of the byte of the BTH that the ICRC leaves out: FECN, BECN and six reserved bits.
    #[must_use]
    pub fn bth_congestion(mut self, byte: u8) -> Self {
        if let Some(place) = self.transport.get_mut(UDP + 4) {
            *place = byte;
        }
        self
    }

    /// An 802.1Q tag.
    #[must_use]
    pub fn tag(mut self, priority: u8, vlan: u16) -> Self {
        self.tag = Some(u16::from(priority & 7) << 13 | vlan & 0xfff);
        self
    }

    /// Another hardware address of the sender.
    #[must_use]
    pub fn source_hardware(mut self, source: [u8; 6]) -> Self {
        self.ends.source = source;
        self
    }

    /// Zeros behind the IP packet.
    #[must_use]
    pub fn padding(mut self, bytes: usize) -> Self {
        self.padding = bytes;
        self
    }

    /// The IPv4 packet in two fragments, the first with `first` bytes behind the IP header, a multiple of 8.
    pub fn fragments(self, first: usize) -> [Frame; 2] {
        let first = (first & !7).min(self.transport.len());
        let mut halves = [self.clone(), self];
        halves[0].transport.truncate(first);
        halves[1].transport.drain(..first);
        for (half, word) in halves.iter_mut().zip([MORE_FRAGMENTS, (first / 8) as u16]) {
            if half.is_ipv4() {
                // DF stays: it belongs to what the ICRC covers.
                put(&mut half.ip, 6, 0x4000 | word);
            }
            half.lengthen();
        }
        halves
    }

    /// Writes the length of the IP packet.
    fn lengthen(&mut self) {
        let whole = if self.is_ipv4() { self.ip.len() } else { 0 } + self.transport.len();
        let at = if self.is_ipv4() { 2 } else { 4 };
        put(&mut self.ip, at, whole as u16);
    }

    /// From the Ethernet header to the padding.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut ip = self.ip.clone();
        if self.is_ipv4() {
            put(&mut ip, 10, 0);
            let sum = internet_checksum(&ip);
            put(&mut ip, 10, sum);
        }
        let mut bytes = self.ethernet();
        bytes.extend(ip);
        bytes.extend(self.checksummed());
        bytes.resize(bytes.len() + self.padding, 0);
        bytes
    }

    fn ethernet(&self) -> Vec<u8> {
        let FrameEnds { source, destination, .. } = self.ends;
        let kind = if self.is_ipv4() { IPV4 } else { IPV6 };
        let mut bytes = vec![0; 14];
        // There is exactly the room that the header takes.
        let _ = write_ethernet(&mut bytes, source, destination, None, kind);
        if let Some(tag) = self.tag {
            put(&mut bytes, 12, VLAN);
            bytes.extend(tag.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
        }
        bytes
    }

    fn checksummed(&self) -> Vec<u8> {
        let mut udp = self.transport.clone();
        if self.checksum != UdpChecksum::Absent {
            let addresses = if self.is_ipv4() { 12..20 } else { 8..40 };
            let mut summed = self.ip[addresses].to_vec();
            summed.extend([0, PROTOCOL_UDP]);
            summed.extend((udp.len() as u16).to_be_bytes());
            summed.extend(&udp);
            // 0 would mean that there is none.
            let right = internet_checksum(&summed).max(1);
            let other = if right == 1 { 2 } else { right ^ 1 };
            put(&mut udp, 6, if self.checksum == UdpChecksum::Right { right } else { other });
        }
        udp
    }

    /// What a report shows of it.
    pub(crate) fn entry(&self, at: Duration) -> Entry {
        let fragment = self.is_ipv4() && self.ip[6..8] != [0x40, 0];
        let udp = !self.is_ipv4() || self.ip[9] == PROTOCOL_UDP;
        match self.transport.get(UDP..) {
            Some(payload) if udp && !fragment => Entry::Packet {
                at,
                side: Side::Tester,
                bytes: payload.to_vec(),
                traffic_class: self.traffic_class,
                source_port: self.source_port,
            },
            _ => {
                let what = if udp { "a fragment" } else { "an ICMP message" };
                Entry::Note { at, text: format!("the tester sends {what}") }
            }
        }
    }
}

/// IP and UDP header in front of so many bytes.
fn headers(flow: &Flow, traffic_class: u8, payload: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut bytes = vec![0; Ipv6::LEN + UDP];
    let ports = UdpPorts { src: flow.src_port, dst: flow.dst_port };
    let length = match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = Ipv4 { src, dst, id: IP_ID, ttl: HOPS, tos: traffic_class, df: true };
            write_ipv4_udp(&mut bytes, &ip, ports, payload)?
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = Ipv6 { src, dst, hop_limit: HOPS, traffic_class, flow_label: 0 };
            write_ipv6_udp(&mut bytes, &ip, ports, payload)?
        }
        _ => return None,
    };
    bytes.truncate(length);
    let udp = bytes.split_off(length.checked_sub(UDP)?);
    Some((bytes, udp))
}

/// Writes a big-endian word; nothing where there is no room.
fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// The checksum of IP, UDP and ICMP (RFC 1071) of bytes whose own checksum field is 0.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two.get(1).copied().unwrap_or(0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests;
