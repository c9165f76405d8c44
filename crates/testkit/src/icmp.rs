//! ICMP messages that anybody can forge.

use std::net::{IpAddr, SocketAddr};

/// What a router says to `own` when a packet to `peer` is too long for the next link, as anybody can say it. It names
/// the port of `own` as the source: the kernel believes what concerns a socket of its own.
///
/// # Panics
/// The addresses are of two IP versions.
#[must_use]
pub fn too_big(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let ports = [own.port(), peer.port(), 1408, 0].into_iter().flat_map(u16::to_be_bytes);
    match (own.ip(), peer.ip()) {
        (IpAddr::V4(own), IpAddr::V4(peer)) => {
            let head = [0x45, 0, 5, 0x94, 0, 0, 0x40, 0, 64, 17, 0, 0];
            let mut message = vec![3, 4, 0, 0, 0, 0, 0x02, 0x28];
            message.extend(head.into_iter().chain(own.octets()).chain(peer.octets()).chain(ports));
            let words =
                message.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            let sum: u32 = words.sum();
            let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
            message
        }
        (IpAddr::V6(own), IpAddr::V6(peer)) => {
            let head = [0x60, 0, 0, 0, 5, 0x80, 17, 64];
            let mut message = vec![2, 0, 0, 0, 0, 0, 5, 0];
            message.extend(head.into_iter().chain(own.octets()).chain(peer.octets()).chain(ports));
            message
        }
        _ => panic!("of two IP versions"),
    }
}
