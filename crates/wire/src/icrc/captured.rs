//! The ICRC of a packet whose network headers are at hand as they were captured.
//!
//! [`icrc`](super::icrc()) makes the headers that we send. A captured packet may have others (no DF,
//! options, lengths that do not agree), and its ICRC is judged by what it really carries.

use super::crc::back;
use super::{DUMMY_CRC, UDP_LEN, update, update_masked};

/// Bytes of network headers at most: IPv6, some extension headers and UDP.
const MAX_HEADERS: usize = 128;

/// Bytes of a local route header.
const LRH_LEN: usize = 8;

/// The ICRC that a packet should have. `headers` begins with the IPv4 or IPv6 header, or the GRH of
/// RoCEv1 and InfiniBand, and ends in front of the BTH; if `has_udp`, its last 8 bytes are a UDP
/// header. `covered` is BTH to pad. `None` if there are no headers, or more than 128 bytes of them.
pub fn icrc_of_captured(headers: &[u8], has_udp: bool, covered: &[u8]) -> Option<u32> {
    let mut masked = [0; MAX_HEADERS];
    let masked = masked.get_mut(..headers.len())?;
    masked.copy_from_slice(headers);
    match headers.first()? >> 4 {
        4 => mask(masked, &[1, 8, 10, 11]),
        _ => {
            masked[0] |= 0x0f;
            mask(masked, &[1, 2, 3, 7]);
        }
    }
    if has_udp {
        let udp = masked.len().checked_sub(UDP_LEN)?;
        mask(masked, &[udp + 6, udp + 7]);
    }
    Some(update_masked(update(DUMMY_CRC, masked), covered))
}

/// The ICRC of an InfiniBand packet without a GRH: the local route header is covered but for the
/// virtual lane. `covered` is BTH to pad.
pub fn icrc_of_local(lrh: &[u8; LRH_LEN], covered: &[u8]) -> u32 {
    let mut masked = *lrh;
    masked[0] |= 0xf0;
    update_masked(update(0, &masked), covered)
}

/// How two bytes must change (exclusive or, the first byte in the upper half) to change the ICRC by
/// `delta` (exclusive or). `behind` is how many bytes the ICRC covers from the first of the two to
/// its end. `None` if no change of them does that, or if `behind` is not in `2..65536`.
///
/// Damage elsewhere passes for a change of these bytes once in 65,536 times.
pub fn solve_two_bytes(delta: u32, behind: usize) -> Option<u16> {
    let distance = u16::try_from(behind).ok().filter(|distance| *distance >= 2)?;
    // The CRC takes the first byte in its low bits.
    u16::try_from(back(delta, distance.into())).ok().map(u16::swap_bytes)
}

fn mask(head: &mut [u8], places: &[usize]) {
    for at in places {
        if let Some(byte) = head.get_mut(*at) {
            *byte = 0xff;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::{Flow, Ipv4, Ipv6, UdpPorts, icrc, icrc_v1, write_ipv4_udp, write_ipv6_udp};

    #[test]
    fn a_local_packet_begins_with_its_route_header() {
        let mut lrh = [0x10, 2, 0, 5, 0, 9, 0, 7];
        let one = icrc_of_local(&lrh, &[4; 20]);
        lrh[0] = 0x70;
        assert_eq!(icrc_of_local(&lrh, &[4; 20]), one, "the virtual lane may change");
        lrh[3] = 6;
        assert_ne!(icrc_of_local(&lrh, &[4; 20]), one, "the destination may not");
    }

    #[test]
    fn headers_that_do_not_fit_are_no_headers() {
        assert_eq!(icrc_of_captured(&[], true, &[0; 12]), None);
        assert_eq!(icrc_of_captured(&[0x45; 4], true, &[0; 12]), None);
        assert_eq!(icrc_of_captured(&[0x60; 129], false, &[0; 12]), None);
    }

    #[test]
    fn a_grh_is_masked_as_an_ipv6_header() {
        let grh: [u8; 40] = core::array::from_fn(|i| 0x60 + i as u8);
        assert_eq!(icrc_of_captured(&grh, false, &[7; 33]), Some(icrc_v1(&grh, &[7; 33])));
    }

    #[test]
    fn two_bytes_are_not_farther_away_than_a_packet_is_long() {
        assert_eq!((solve_two_bytes(1, 1), solve_two_bytes(1, 65_536)), (None, None));
        assert_eq!(solve_two_bytes(0, 40), Some(0));
    }

    proptest! {
        #[test]
        fn the_twin_for_our_own_headers_agrees(
            id: u16, port: u16, tail in prop::collection::vec(any::<u8>(), 12..300)
        ) {
            let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            let ports = UdpPorts { src: port, dst: 4791 };
            let ip = Ipv4 { src, dst, id, ttl: 64, tos: 3, df: true };
            let mut headers = [0; 28];
            write_ipv4_udp(&mut headers, &ip, ports, tail.len() + 4).unwrap();
            let flow = Flow { src: src.into(), dst: dst.into(), src_port: port, dst_port: 4791 };
            prop_assert_eq!(icrc_of_captured(&headers, true, &tail), Some(icrc(&flow, id, &tail)));

            let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            let ip = Ipv6 { src, dst, hop_limit: 64, traffic_class: 3, flow_label: 7 };
            let mut headers = [0; 48];
            write_ipv6_udp(&mut headers, &ip, ports, tail.len() + 4).unwrap();
            let flow = Flow { src: src.into(), dst: dst.into(), ..flow };
            prop_assert_eq!(icrc_of_captured(&headers, true, &tail), Some(icrc(&flow, 0, &tail)));
        }

        #[test]
        fn a_changed_identification_or_port_is_found(
            change: u16, at_port: bool, tail in prop::collection::vec(any::<u8>(), 12..300)
        ) {
            let mut headers = [0x45; 28];
            let right = icrc_of_captured(&headers, true, &tail).unwrap();
            let at = if at_port { 20 } else { 4 };
            let [high, low] = change.to_be_bytes();
            headers[at] ^= high;
            headers[at + 1] ^= low;
            let delta = right ^ icrc_of_captured(&headers, true, &tail).unwrap();
            prop_assert_eq!(solve_two_bytes(delta, headers.len() - at + tail.len()), Some(change));
        }
    }
}
