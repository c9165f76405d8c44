//! Captures that tests make in memory.

use std::net::{Ipv4Addr, Ipv6Addr};

use uroce_analyze::{Frame, LinkType, Timestamp};
use uroce_wire::{
    Ipv4, Ipv6, UdpPorts, icrc_of_captured, write_ethernet, write_ipv4_udp, write_ipv6_udp,
};

/// Bytes of a packet as sent: BTH to pad, to which the ICRC is added.
pub type Covered = Vec<u8>;

pub const SOURCE_MAC: [u8; 6] = [2, 0, 10, 0, 0, 1];
pub const DESTINATION_MAC: [u8; 6] = [2, 0, 10, 0, 0, 2];
pub const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const PORTS: UdpPorts = UdpPorts { src: 0xc123, dst: 4791 };

/// A BTH with this opcode, and `behind` it.
pub fn covered(opcode: u8, psn: u32, behind: &[u8]) -> Covered {
    let mut bytes = vec![opcode, 0x40, 0xff, 0xff, 0, 0, 0, 0x12];
    bytes.extend((psn | 0x8000_0000).to_be_bytes());
    bytes.extend(behind);
    bytes
}

/// IPv4 and UDP headers for `covered` and an ICRC.
pub fn ipv4_headers(id: u16, covered: usize) -> Vec<u8> {
    let ip = Ipv4 { src: SOURCE, dst: DESTINATION, id, ttl: 64, tos: 0x6a, df: true };
    let mut headers = vec![0; 28];
    write_ipv4_udp(&mut headers, &ip, PORTS, covered + 4).expect("it fits");
    headers
}

/// IPv6 and UDP headers.
pub fn ipv6_headers(covered: usize) -> Vec<u8> {
    let address = |last| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last);
    let (src, dst) = (address(1), address(2));
    let ip = Ipv6 { src, dst, hop_limit: 63, traffic_class: 0x6a, flow_label: 0xabcde };
    let mut headers = vec![0; 48];
    write_ipv6_udp(&mut headers, &ip, PORTS, covered + 4).expect("it fits");
    headers
}

/// Headers, packet and ICRC.
pub fn sealed(headers: &[u8], has_udp: bool, covered: &[u8]) -> Vec<u8> {
    let icrc = icrc_of_captured(headers, has_udp, covered).expect("headers");
    [headers, covered, &icrc.to_le_bytes()].concat()
}

/// An IPv4 packet.
pub fn ipv4(id: u16, covered: &[u8]) -> Vec<u8> {
    sealed(&ipv4_headers(id, covered.len()), true, covered)
}

/// An IPv6 packet.
pub fn ipv6(covered: &[u8]) -> Vec<u8> {
    sealed(&ipv6_headers(covered.len()), true, covered)
}

/// The first frame of a capture, whole.
pub fn captured(data: &[u8], link_type: LinkType) -> Frame<'_> {
    Frame {
        number: 1,
        interface: 0,
        time: Timestamp::default(),
        link_type,
        direction: None,
        original_len: data.len() as u32,
        data,
        comment: "",
    }
}

/// An Ethernet frame around a network packet.
pub fn ethernet(ethertype: u16, vlan: Option<u16>, packet: &[u8]) -> Vec<u8> {
    let mut header = [0; 18];
    let length =
        write_ethernet(&mut header, SOURCE_MAC, DESTINATION_MAC, vlan, ethertype).expect("it fits");
    [&header[..length], packet].concat()
}

/// An Ethernet frame with an IPv4 packet.
pub fn frame(id: u16, covered: &[u8]) -> Vec<u8> {
    ethernet(0x0800, None, &ipv4(id, covered))
}

/// A block of a pcapng file, little-endian.
pub fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (padded as u32 + 12).to_le_bytes();
    let mut block = [&kind.to_le_bytes()[..], &length, body].concat();
    block.resize(8 + padded, 0);
    block.extend(length);
    block
}

/// A section header and one interface with this link type, in nanoseconds.
pub fn pcapng_start(link_type: u16) -> Vec<u8> {
    let section = block(
        0x0a0d_0d0a,
        &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    );
    let link_type = link_type.to_le_bytes();
    let fixed = [link_type[0], link_type[1], 0, 0, 0, 0, 0, 0];
    let resolution = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    [section, block(1, &[&fixed[..], &resolution].concat())].concat()
}

/// An Enhanced Packet Block.
pub fn enhanced(interface: u32, time: u64, data: &[u8], original: u32, options: &[u8]) -> Vec<u8> {
    let mut body = interface.to_le_bytes().to_vec();
    body.extend(((time >> 32) as u32).to_le_bytes());
    body.extend((time as u32).to_le_bytes());
    body.extend((data.len() as u32).to_le_bytes());
    body.extend(original.to_le_bytes());
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(options);
    block(6, &body)
}

/// A capture of these frames.
pub fn pcapng(link_type: u16, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut capture = pcapng_start(link_type);
    for (number, data) in frames.iter().enumerate() {
        capture.extend(enhanced(0, number as u64 * 1_000, data, data.len() as u32, &[]));
    }
    capture
}

/// Bytes that count up, so that every field has a value of its own.
pub fn counting(count: usize) -> Vec<u8> {
    (0..count).map(|byte| byte as u8 | 1).collect()
}

/// A MAD of connection management in a datagram to the general services.
pub fn management(class: u8, method: u8, attribute: u8, body: &[u8]) -> Covered {
    let mut bytes = covered(0x64, 7, &[0x80, 1, 0, 0, 0, 0, 0, 1]);
    bytes[7] = 1;
    bytes.extend([1, class, 2, method, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, attribute, 0, 0]);
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes.resize(12 + 8 + 256, 0);
    bytes
}

/// The bodies of connection management: every attribute with bytes that count up; a REQ and a
/// SIDR_REQ once with the header of rdma_cm, for IPv4 and for IPv6.
fn messages() -> Vec<Covered> {
    let mut all: Vec<Covered> =
        (0x10..=0x1a).map(|attribute| management(7, 3, attribute, &counting(232))).collect();
    for ip_version in [0x40, 0x60] {
        for (attribute, private) in [(0x10, 140), (0x17, 16)] {
            let mut body = counting(232);
            body[8..16].copy_from_slice(&[0, 0, 0, 0, 1, 6, 0x1c, 6]);
            body[private] = 0;
            body[private + 1] = ip_version;
            all.push(management(7, 3, attribute, &body));
        }
    }
    all
}

/// A frame for every opcode and every message, over IPv4, IPv6, with a VLAN tag, and RoCEv1.
pub fn every_header() -> Vec<u8> {
    let mut frames: Vec<Vec<u8>> =
        (0..=255).map(|opcode| frame(opcode.into(), &covered(opcode, 9, &counting(64)))).collect();
    frames.extend(messages().iter().map(|message| frame(1, message)));
    frames.push(frame(1, &management(4, 0x81, 0x12, &counting(232))));
    frames.push(frame(1, &management(4, 0x81, 0x01, &counting(232))));
    frames.push(frame(1, &management(7, 0x81, 0x01, &counting(232))));
    for syndrome in [0, 31, 0x2c, 0x41, 0x60, 0x61, 0x63, 0x7f] {
        frames.push(frame(1, &covered(0x11, 5, &[syndrome, 0, 0, 3])));
    }
    let acknowledge = covered(0x11, 5, &[0x1f, 0, 0, 3]);
    frames.push(ethernet(0x86dd, None, &ipv6(&acknowledge)));
    frames.push(ethernet(0x0800, Some(77), &ipv4(9, &acknowledge)));
    frames.push(ethernet(0x8915, None, &sealed(&grh(acknowledge.len()), false, &acknowledge)));
    pcapng(1, &frames)
}

/// A GRH for `covered` and an ICRC.
pub fn grh(covered: usize) -> Vec<u8> {
    let mut grh = ipv6_headers(covered);
    grh.truncate(40);
    grh[4..6].copy_from_slice(&(covered as u16 + 4).to_be_bytes());
    grh[6] = 0x1b;
    grh
}
