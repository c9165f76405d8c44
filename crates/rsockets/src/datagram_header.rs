//! What stands before the bytes of a datagram: on UDP, by which two ends learn of each other's queue
//! pairs, and between the queue pairs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Marks a datagram on UDP as one of rsockets.
const TAG: u32 = 0x5555_5555;
const DATA: u8 = 0;
const CONTROL: u8 = 7;
/// Bytes before the address, on UDP.
const FIXED: usize = 12;
/// Queue pair numbers have 24 bits.
const QPN: u32 = 0x00ff_ffff;

/// The header on UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// Bytes of the program follow; else it only answers.
    pub is_data: bool,
    /// The sender's queue pair.
    pub qpn: u32,
    /// Whom the sender means. We say it, but do not believe it: rdma-core's sender puts its own address there, and its receiver
    /// does not look.
    pub to: IpAddr,
}

fn version(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 4 } else { 6 }
}

impl Introduction {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = TAG.to_be_bytes().to_vec();
        let op = if self.is_data { DATA } else { CONTROL };
        let length = FIXED + if self.to.is_ipv4() { 4 } else { 16 };
        bytes.extend([version(self.to), op, length as u8, 0]);
        bytes.extend((self.qpn & QPN).to_be_bytes());
        match self.to {
            IpAddr::V4(ip) => bytes.extend(ip.octets()),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
        bytes
    }

    /// The header and what follows it; `None`: it is none.
    pub fn decode(bytes: &[u8]) -> Option<(Introduction, &[u8])> {
        let (fixed, _) = bytes.split_first_chunk::<FIXED>()?;
        let [tag @ .., version, op, length, _, q0, q1, q2, q3] = *fixed;
        let address = bytes.get(FIXED..usize::from(length))?;
        let to = address_of(version, address)?;
        let known = u32::from_be_bytes(tag) == TAG && matches!(op, DATA | CONTROL);
        let qpn = u32::from_be_bytes([q0, q1, q2, q3]) & QPN;
        let introduction = Introduction { is_data: op == DATA, qpn, to };
        known.then_some((introduction, bytes.get(usize::from(length)..)?))
    }
}

fn address_of(version: u8, bytes: &[u8]) -> Option<IpAddr> {
    match version {
        4 => bytes.first_chunk::<4>().map(|ip| Ipv4Addr::from(*ip).into()),
        6 => bytes.first_chunk::<16>().map(|ip| Ipv6Addr::from(*ip).into()),
        _ => None,
    }
}

/// Bytes of the header between queue pairs.
pub(crate) fn length(from: IpAddr) -> usize {
    if from.is_ipv4() { 8 } else { 24 }
}

/// The header between queue pairs: where the datagram comes from.
pub(crate) fn encode(from: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![version(from.ip()), length(from.ip()) as u8];
    bytes.extend(from.port().to_be_bytes());
    match from.ip() {
        IpAddr::V4(ip) => bytes.extend(ip.octets()),
        IpAddr::V6(ip) => {
            // The flow information, which we have none of.
            bytes.extend([0; 4]);
            bytes.extend(ip.octets());
        }
    }
    bytes
}

/// The sender and the bytes; `None`: there is no such header.
pub(crate) fn decode(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let ([version, length, high, low], _) = bytes.split_first_chunk::<4>()?;
    let address = bytes.get(if *version == 6 { 8 } else { 4 }..usize::from(*length))?;
    let ip = address_of(*version, address)?;
    let from = SocketAddr::new(ip, u16::from_be_bytes([*high, *low]));
    Some((from, bytes.get(usize::from(*length)..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn introductions_there_and_back() {
        for to in ["10.1.2.3", "2001:db8::1"] {
            let to = to.parse().expect("an address");
            let introduction = Introduction { is_data: true, qpn: 0x12_3456, to };
            let mut bytes = introduction.encode();
            assert_eq!(bytes[..4], [0x55; 4]);
            let header = bytes.len();
            bytes.extend(b"data");
            assert_eq!(Introduction::decode(&bytes), Some((introduction, &b"data"[..])));
            for end in 0..header {
                assert_eq!(Introduction::decode(&bytes[..end]), None, "{end} bytes");
            }
        }
        assert_eq!(Introduction::decode(&[0x55; 40]), None, "no such version");
    }

    #[test]
    fn headers_there_and_back() {
        for from in ["10.1.2.3:7", "[2001:db8::1]:7"] {
            let from: SocketAddr = from.parse().expect("an address");
            let mut bytes = encode(from);
            assert_eq!(bytes.len(), length(from.ip()));
            bytes.push(9);
            assert_eq!(decode(&bytes), Some((from, &[9][..])));
            for end in 0..bytes.len() - 1 {
                assert_eq!(decode(&bytes[..end]), None, "{end} bytes");
            }
        }
        assert_eq!(decode(&[4, 255, 0, 7, 1, 2, 3, 4]), None, "longer than it is");
    }
}
