//! What stands around the InfiniBand transport of a RoCEv2 frame: Ethernet, a VLAN tag, IP and UDP.

use std::collections::HashMap;
use std::net::IpAddr;

use uroce_device::wire::{Flow, Network, parse_ethernet_on, verify};
use uroce_packet::Offload;

/// Ethernet, VLAN tag, IPv6, UDP.
const LONGEST: usize = 14 + 4 + 40 + UDP;
const UDP: usize = 8;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Protocol number of UDP.
const PROTOCOL: u32 = 17;

/// The headers of a frame without what differs from packet to packet of one flow: lengths, identification,
/// traffic class, flow label, source port and checksums are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope {
    bytes: [u8; LONGEST],
    ip_at: usize,
    ipv4: bool,
    /// UDP has a checksum.
    checksummed: bool,
}

/// A RoCEv2 frame, taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Opened<'a> {
    /// Its headers.
    pub envelope: Envelope,
    /// Addresses and ports.
    pub flow: Flow,
    /// IPv4 identification of the first packet.
    ip_id: u16,
    /// By how much it grows from packet to packet.
    id_step: u16,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label, of 20 bits; 0 for IPv4.
    pub flow_label: u32,
    /// BTH to ICRC of each packet behind each other.
    transport: &'a [u8],
    /// Bytes of each packet but the last.
    segment: usize,
}

impl<'a> Opened<'a> {
    /// Reads a frame; `None` if it is no RoCEv2 for UDP port `port`, or one whose headers RoCEv2 does not have (IP
    /// options, fragments, two VLAN tags).
    pub fn read(bytes: &'a [u8], offload: &Offload, port: u16) -> Option<Self> {
        let frame = parse_ethernet_on(bytes, port).ok()?;
        let flow = frame.flow()?;
        let segment = match offload.udp_segment() {
            Some(segment) => segment,
            None if offload.is_one_packet() => usize::MAX,
            None => return None,
        };
        let (ip_id, traffic_class, flow_label) = match frame.ip {
            Network::V4(ip) => (ip.id, ip.tos, 0),
            Network::V6(ip) => (0, ip.traffic_class, ip.flow_label),
            Network::Grh(_) => return None,
        };
        let ip_at = if frame.vlan.is_some() { 18 } else { 14 };
        let envelope = Envelope::of(bytes, ip_at, flow.is_ipv4(), !offload.is_none())?;
        let opened = Self {
            envelope,
            flow,
            ip_id,
            id_step: 1,
            traffic_class,
            flow_label,
            transport: frame.transport,
            segment,
        };
        Some(Self { id_step: opened.find_id_step(), ..opened })
    }

    /// How many packets it is.
    pub fn packets(&self) -> usize {
        self.transport.len().div_ceil(self.segment).max(1)
    }

    /// Packet `index`: its IPv4 identification, and BTH to ICRC.
    pub fn packet(&self, index: usize) -> (u16, &'a [u8]) {
        let rest = index.checked_mul(self.segment).and_then(|at| self.transport.get(at..));
        let rest = rest.unwrap_or_default();
        let ip_id = self.ip_id.wrapping_add((index as u16).wrapping_mul(self.id_step));
        (ip_id, rest.get(..self.segment).unwrap_or(rest))
    }

    /// 1 where a sender's train stayed whole; 0 or 1 where the kernel joined packets. The ICRC of the second one tells.
    fn find_id_step(&self) -> u16 {
        if self.packets() == 1 {
            return 0;
        }
        let (next, packet) = self.packet(1);
        let constant = !verify(&self.flow, next, packet) && verify(&self.flow, self.ip_id, packet);
        u16::from(!constant)
    }
}

impl Envelope {
    fn of(frame: &[u8], ip_at: usize, ipv4: bool, partial: bool) -> Option<Self> {
        let udp_at = ip_at + if ipv4 { IPV4 } else { IPV6 };
        let mut bytes = [0; LONGEST];
        bytes[..udp_at + UDP].copy_from_slice(frame.get(..udp_at + UDP)?);
        let checksummed = partial || bytes[udp_at + 6..udp_at + UDP] != [0; 2];
        let ip = &mut bytes[ip_at..];
        if ipv4 {
            // Type of service, total length, identification, checksum.
            [1..2, 2..4, 4..6, 10..12].into_iter().for_each(|field| ip[field].fill(0));
        } else {
            // Traffic class, flow label, payload length.
            ip[0] &= 0xf0;
            ip[1..6].fill(0);
        }
        bytes[udp_at..udp_at + 2].fill(0);
        bytes[udp_at + 4..udp_at + UDP].fill(0);
        Some(Self { bytes, ip_at, ipv4, checksummed })
    }

    fn udp_at(&self) -> usize {
        self.ip_at + if self.ipv4 { IPV4 } else { IPV6 }
    }

    /// Replaces `out` by the frame of `packet` (BTH to ICRC). A packet of the opposite flow gets the hardware
    /// addresses the other way round. Nothing is written for a packet that IP has no length for.
    pub fn wrap(&self, fields: &PacketFields, packet: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let ip_header = self.udp_at() - self.ip_at;
        let Ok(whole) = u16::try_from(ip_header + UDP + packet.len()) else {
            return;
        };
        out.extend_from_slice(&self.bytes[..self.udp_at() + UDP]);
        out.extend_from_slice(packet);
        if self.source() != fields.flow.src {
            let (to, from) = out[..12].split_at_mut(6);
            to.swap_with_slice(from);
        }
        let udp_length = whole - ip_header as u16;
        match (fields.flow.src, fields.flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) if self.ipv4 => {
                self.write_ipv4(fields, whole, [src.octets(), dst.octets()], out);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) if !self.ipv4 => {
                self.write_ipv6(fields, udp_length, [src.octets(), dst.octets()], out);
            }
            _ => return out.clear(),
        }
        self.write_udp(fields, udp_length, out);
    }

    fn source(&self) -> IpAddr {
        let ip = &self.bytes[self.ip_at..];
        let v4 = |bytes: &[u8]| bytes.first_chunk::<4>().copied().unwrap_or_default();
        let v6 = |bytes: &[u8]| bytes.first_chunk::<16>().copied().unwrap_or_default();
        if self.ipv4 { v4(&ip[12..]).into() } else { v6(&ip[8..]).into() }
    }

    fn write_ipv4(&self, fields: &PacketFields, length: u16, ends: [[u8; 4]; 2], out: &mut [u8]) {
        let ip = &mut out[self.ip_at..self.udp_at()];
        ip[1] = fields.traffic_class;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        ip[4..6].copy_from_slice(&fields.ip_id.to_be_bytes());
        ip[12..20].copy_from_slice(ends.as_flattened());
        let sum = !fold(sum(ip));
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    fn write_ipv6(&self, fields: &PacketFields, length: u16, ends: [[u8; 16]; 2], out: &mut [u8]) {
        let ip = &mut out[self.ip_at..self.udp_at()];
        ip[0] |= fields.traffic_class >> 4;
        let [_, high, label @ ..] = (fields.flow_label & 0x000f_ffff).to_be_bytes();
        ip[1] = fields.traffic_class << 4 | high;
        ip[2..4].copy_from_slice(&label);
        ip[4..6].copy_from_slice(&length.to_be_bytes());
        ip[8..40].copy_from_slice(ends.as_flattened());
    }

    /// Ports, length, and a checksum if the flow has one.
    fn write_udp(&self, fields: &PacketFields, length: u16, out: &mut [u8]) {
        let addresses = if self.ipv4 { 12..20 } else { 8..40 };
        let pseudo = sum(&out[self.ip_at..][addresses]) + PROTOCOL + u32::from(length);
        let udp = &mut out[self.udp_at()..];
        udp[..2].copy_from_slice(&fields.flow.src_port.to_be_bytes());
        udp[2..4].copy_from_slice(&fields.flow.dst_port.to_be_bytes());
        udp[4..6].copy_from_slice(&length.to_be_bytes());
        if self.checksummed {
            // 0 would say that there is none (RFC 768).
            let checksum = Some(!fold(pseudo + sum(udp))).filter(|sum| *sum != 0).unwrap_or(0xffff);
            udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// What differs from packet to packet of one flow.
#[derive(Debug, Clone, Copy)]
pub struct PacketFields {
    /// Addresses and ports.
    pub flow: Flow,
    /// IPv4 identification.
    pub ip_id: u16,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
}

/// The sum of the 16-bit words of at most 64 KiB; an odd last byte counts as if a 0 followed.
fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

/// In ones' complement, as 16 bits.
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Headers by number: what a held packet is wrapped into when it goes on.
#[derive(Debug, Default)]
pub struct Envelopes {
    numbers: HashMap<Envelope, u32>,
    list: Vec<Envelope>,
}

impl Envelopes {
    /// Different headers that are remembered. There is one for each pair of hosts, direction and hop limit.
    const MOST: usize = 4096;

    /// The number of the envelope; `None` when there are too many.
    pub fn number(&mut self, envelope: &Envelope) -> Option<u32> {
        if let Some(number) = self.numbers.get(envelope) {
            return Some(*number);
        }
        let number =
            u32::try_from(self.list.len()).ok().filter(|_| self.list.len() < Self::MOST)?;
        self.list.push(*envelope);
        self.numbers.insert(*envelope, number);
        Some(number)
    }

    /// The envelope with that number.
    pub fn get(&self, number: u32) -> Option<&Envelope> {
        self.list.get(number as usize)
    }
}

#[cfg(test)]
pub mod tests;
