//! Control messages: header fields beside a datagram.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::c_int;
use uroce_datapath::Route;

/// Bytes for all control messages of one datagram; the largest set takes 112.
pub(crate) const CONTROL: usize = 128;

/// The control messages of one datagram, in the kernel's layout.
pub(crate) type Control = [u8; CONTROL];

/// Hop limit that every socket is set up with.
pub(crate) const DEFAULT_HOP_LIMIT: u8 = 64;

/// Bytes of `struct cmsghdr`.
const HEADER: usize = size_of::<libc::cmsghdr>();

/// Control messages start at multiples of this.
const ALIGN: usize = size_of::<usize>();

/// Writes what `route` needs beside the socket's defaults; returns how many bytes it takes.
pub(crate) fn encode(route: &Route, control: &mut Control) -> usize {
    let (level, hop_limit, class) = match route.dst.is_ipv4() {
        true => (libc::IPPROTO_IP, libc::IP_TTL, libc::IP_TOS),
        false => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, libc::IPV6_TCLASS),
    };
    let mut end = 0;
    if route.hop_limit.max(1) != DEFAULT_HOP_LIMIT {
        end = push(control, end, level, hop_limit, &integer(route.hop_limit.max(1)));
    }
    if route.traffic_class != 0 {
        end = push(control, end, level, class, &integer(route.traffic_class));
    }
    end
}

fn integer(value: u8) -> [u8; size_of::<c_int>()] {
    c_int::from(value).to_ne_bytes()
}

/// Appends the order to cut the datagram into packets of `size` bytes (UDP_SEGMENT); returns the
/// new end.
pub(crate) fn encode_segment(control: &mut Control, at: usize, size: u16) -> usize {
    push(control, at, libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes())
}

/// Appends one control message; returns the new end.
fn push(control: &mut Control, at: usize, level: c_int, kind: c_int, value: &[u8]) -> usize {
    let length = HEADER + value.len();
    let message = &mut control[at..at + length.next_multiple_of(ALIGN)];
    message.fill(0);
    message[..ALIGN].copy_from_slice(&length.to_ne_bytes());
    message[ALIGN..ALIGN + 4].copy_from_slice(&level.to_ne_bytes());
    message[ALIGN + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
    message[HEADER..length].copy_from_slice(value);
    at + message.len()
}

/// The header fields of a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fields {
    pub(crate) dst: Option<IpAddr>,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    /// Bytes of each packet but the last when several arrived as one (UDP_GRO); else 0.
    pub(crate) segment: usize,
}

/// Reads the control messages that came with a datagram.
pub(crate) fn decode(mut control: &[u8]) -> Fields {
    let mut fields = Fields::default();
    while let Some((level, kind, data, rest)) = split(control) {
        read(&mut fields, level, kind, data);
        control = rest;
    }
    fields
}

/// The first control message and what follows it.
fn split(control: &[u8]) -> Option<(c_int, c_int, &[u8], &[u8])> {
    let length = usize::from_ne_bytes(*control.first_chunk()?);
    let level = c_int::from_ne_bytes(*control.get(ALIGN..)?.first_chunk()?);
    let kind = c_int::from_ne_bytes(*control.get(ALIGN + 4..)?.first_chunk()?);
    let data = control.get(HEADER..length)?;
    let next = length.checked_next_multiple_of(ALIGN)?;
    Some((level, kind, data, control.get(next..).unwrap_or_default()))
}

fn read(fields: &mut Fields, level: c_int, kind: c_int, data: &[u8]) {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let addr = data.get(8..).and_then(|data| data.first_chunk::<4>());
            fields.dst = addr.map(|octets| Ipv4Addr::from(*octets).into());
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let addr = data.first_chunk::<16>();
            fields.dst = addr.map(|octets| Ipv6Addr::from(*octets).into());
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            fields.hop_limit = small(data);
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            fields.traffic_class = small(data);
        }
        (libc::SOL_UDP, libc::UDP_GRO) => {
            let size = data.first_chunk().map_or(0, |bytes| c_int::from_ne_bytes(*bytes));
            fields.segment = usize::try_from(size).unwrap_or(0);
        }
        _ => {}
    }
}

/// A number below 256 that the kernel wrote as a byte (IP_TOS) or as an integer.
fn small(data: &[u8]) -> u8 {
    match data.first_chunk() {
        Some(bytes) => c_int::from_ne_bytes(*bytes) as u8,
        None => data.first().copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn route(dst: &str, hop_limit: u8, traffic_class: u8) -> Route {
        let dst = dst.parse().expect("address");
        Route { src: dst, dst, hop_limit, traffic_class }
    }

    #[test]
    fn the_defaults_need_no_control_message() {
        assert_eq!(encode(&route("10.0.0.1:1", 64, 0), &mut [0; CONTROL]), 0);
    }

    #[test]
    fn what_differs_is_written_and_read_back() {
        for dst in ["10.0.0.1:1", "[::1]:1"] {
            let mut control = [0xff; CONTROL];
            let end = encode(&route(dst, 0, 0x6a), &mut control);
            // Two messages of CMSG_SPACE(4) bytes each.
            assert_eq!(end, 2 * (HEADER + 4).next_multiple_of(ALIGN));
            let fields = decode(&control[..end]);
            assert_eq!((fields.hop_limit, fields.traffic_class), (1, 0x6a));
        }
    }

    #[test]
    fn the_size_of_the_packets_in_a_super_packet_is_read() {
        let mut control = [0; CONTROL];
        let size = (1084 as c_int).to_ne_bytes();
        let end = push(&mut control, 0, libc::SOL_UDP, libc::UDP_GRO, &size);
        assert_eq!(decode(&control[..end]).segment, 1084);
        let end = push(&mut control, 0, libc::SOL_UDP, libc::UDP_GRO, &(-1 as c_int).to_ne_bytes());
        assert_eq!(decode(&control[..end]).segment, 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            let fields = decode(&bytes);
            prop_assert!(bytes.len() >= HEADER || fields == Fields::default());
        }
    }
}
