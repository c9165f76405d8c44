//! The ICRC of whole frames against a second implementation, one bit at a time, and the mask bit by bit.

use proptest::prelude::*;
use uroce_wire::*;

use crate::spec::{crc32, hex};

/// The ICRC by the book: 8 bytes of ones, the headers and the packet, with ones where the network may write.
fn by_the_book(headers: &[u8], has_udp: bool, covered: &[u8]) -> u32 {
    let mut masked = headers.to_vec();
    if headers[0] >> 4 == 4 {
        // ToS, TTL, header checksum.
        [1, 8, 10, 11].into_iter().for_each(|at| masked[at] = 0xff);
    } else {
        // Traffic class and flow label, hop limit.
        masked[0] |= 0x0f;
        [1, 2, 3, 7].into_iter().for_each(|at| masked[at] = 0xff);
    }
    if has_udp {
        let end = masked.len();
        masked[end - 2..].fill(0xff);
    }
    let mut packet = covered.to_vec();
    if let Some(marks) = packet.get_mut(4) {
        *marks = 0xff;
    }
    crc32([0xff; 8].into_iter().chain(masked).chain(packet))
}

const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    V4,
    V6,
    Grh,
}

/// A frame of each network header, with or without a tag, closed with the ICRC by the book, and where its BTH is.
fn frame(kind: Kind, vlan: Option<u16>, body: &[u8]) -> (Vec<u8>, usize) {
    let ports = UdpPorts { src: 0xc123, dst: ROCE_PORT };
    let (mut out, length) = (vec![0; 18 + 48], body.len() + ICRC_LEN);
    let ether_type = match kind {
        Kind::V4 => 0x0800,
        Kind::V6 => 0x86dd,
        Kind::Grh => ROCE_V1_ETHERTYPE,
    };
    let at = write_ethernet(&mut out, MACS.0, MACS.1, vlan, ether_type).expect("room");
    let (src, dst) =
        ("fd00::1".parse().expect("an address"), "fd00::2".parse().expect("an address"));
    let network = &mut out[at..];
    let headers = match kind {
        Kind::V4 => {
            let (src, dst) = ([10, 1, 2, 3].into(), [10, 4, 5, 6].into());
            let ip = Ipv4 { src, dst, id: 0x4321, ttl: 63, tos: 0x6a, df: true };
            write_ipv4_udp(network, &ip, ports, length)
        }
        Kind::V6 => {
            let ip = Ipv6 { src, dst, hop_limit: 63, traffic_class: 0x6a, flow_label: 0x1_2345 };
            write_ipv6_udp(network, &ip, ports, length)
        }
        Kind::Grh => {
            let (src, dst) = (Gid::from_ip(src.into()), Gid::from_ip(dst.into()));
            let (traffic_class, flow_label, payload_len) = (0x6a, 0x1_2345, length as u16);
            let (next_header, hop_limit) = (Grh::IBA, 63);
            Grh { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst }
                .write(network)
                .map(|()| Grh::LEN)
        }
    };
    let bth = at + headers.expect("room");
    out.truncate(bth);
    out.extend_from_slice(body);
    let icrc = by_the_book(&out[at..bth], kind != Kind::Grh, body);
    out.extend(icrc.to_le_bytes());
    (out, bth)
}

fn body(payload: usize) -> Vec<u8> {
    let mut body = hex("04 40 ffff 00 000011 80 00abcd");
    body.extend((0..payload).map(|i| (i * 29 + 1) as u8));
    body
}

const KINDS: [Kind; 3] = [Kind::V4, Kind::V6, Kind::Grh];
/// Miri tries some lengths, bits and places only.
const LENGTH_STEP: usize = if cfg!(miri) { 36 } else { 4 };
const BIT_STEP: usize = if cfg!(miri) { 13 } else { 1 };
const LONG: &[usize] = if cfg!(miri) { &[128] } else { &[1024, 4096] };
const PLACES: &[usize] = if cfg!(miri) { &[2, 3, 4] } else { &[2, 3, 4, 65_534, 65_535] };

#[test]
fn e10_frames_of_all_kinds_have_the_icrc_by_the_book() {
    for kind in KINDS {
        for vlan in [None, Some(0), Some(4095)] {
            for payload in (0..80).step_by(LENGTH_STEP).chain(LONG.iter().copied()) {
                let (bytes, bth) = frame(kind, vlan, &body(payload));
                let parsed = parse_ethernet(&bytes).expect("a frame");
                assert!(parsed.icrc_is_right(), "{kind:?} {vlan:?} {payload}");
                assert_eq!((parsed.vlan, parsed.transport), (vlan, &bytes[bth..]));
                let stands = u32::from_le_bytes(bytes[bytes.len() - 4..].try_into().expect("4"));
                assert_eq!(parsed.expected_icrc(), Some(stands));
            }
        }
    }
}

/// Every bit of a frame: changed, it is outside of the ICRC, masked in it, or makes the frame bad.
#[test]
fn e10_each_bit_of_a_frame_is_outside_masked_or_covered() {
    for kind in KINDS {
        for vlan in [None, Some(5)] {
            let (bytes, bth) = frame(kind, vlan, &body(16));
            let ip = if vlan.is_some() { 18 } else { 14 };
            for bit in (0..bytes.len() * 8).step_by(BIT_STEP) {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 0x80 >> (bit % 8);
                let right = parse_ethernet(&changed).is_ok_and(|frame| frame.icrc_is_right());
                assert_eq!(right, is_free(kind, bit, ip, bth), "{kind:?} {vlan:?} bit {bit}");
            }
        }
    }
}

/// Whether the network may change that bit of a frame.
fn is_free(kind: Kind, bit: usize, ip: usize, bth: usize) -> bool {
    let byte = bit / 8;
    // Addresses, and the priority and the id of a tag, but not the Ethertypes.
    let link = byte < 12 || (14..16).contains(&byte) && ip == 18;
    let network = match (kind, byte.checked_sub(ip)) {
        (Kind::V4, Some(at)) => matches!(at, 1 | 8 | 10 | 11),
        // The lower half of byte 0 is of the traffic class; the upper is the version.
        (Kind::V6 | Kind::Grh, Some(0)) => bit % 8 >= 4,
        (Kind::V6 | Kind::Grh, Some(at)) => matches!(at, 1..=3 | 7),
        _ => false,
    };
    let udp_checksum = kind != Kind::Grh && (bth - 2..bth).contains(&byte);
    link || network || udp_checksum || byte == bth + 4
}

/// A frame of random fields, and the flow that the ICRC functions take.
fn flow_of(v6: bool, port: u16) -> Flow {
    let (src, dst) = if v6 {
        ("2001:db8::1".parse().expect("v6"), "2001:db8::2".parse().expect("v6"))
    } else {
        ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
    };
    Flow { src, dst, src_port: port, dst_port: ROCE_PORT }
}

/// The headers that a flow stands for.
fn headers_of(flow: &Flow, id: u16, length: usize) -> Vec<u8> {
    let ports = UdpPorts { src: flow.src_port, dst: flow.dst_port };
    let mut out = vec![0; 48];
    let end = match (flow.src, flow.dst) {
        (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
            let ip = Ipv4 { src, dst, id, ttl: 1, tos: 0, df: true };
            write_ipv4_udp(&mut out, &ip, ports, length)
        }
        (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
            let ip = Ipv6 { src, dst, hop_limit: 1, traffic_class: 0, flow_label: 0 };
            write_ipv6_udp(&mut out, &ip, ports, length)
        }
        _ => None,
    };
    out.truncate(end.expect("one family"));
    out
}

proptest! {
    #[test]
    fn e10_the_icrc_of_a_flow_is_that_of_its_headers(
        v6: bool, port: u16, id: u16, covered in prop::collection::vec(any::<u8>(), 12..400),
    ) {
        let flow = flow_of(v6, port);
        let wanted = by_the_book(&headers_of(&flow, id, covered.len() + 4), true, &covered);
        prop_assert_eq!(icrc(&flow, id, &covered), wanted);
        prop_assert_eq!(icrc_bitwise(&flow, id, &covered), wanted);
        prop_assert_eq!(FlowIcrc::default().icrc(&flow, id, &covered), wanted);
    }

    /// Captured headers that are not ours: DF cleared, options, a length that does not agree, any port.
    #[test]
    fn e10_captured_headers_are_taken_as_they_stand(
        mut headers in prop::collection::vec(any::<u8>(), 28..=128),
        v6: bool, has_udp: bool, covered in prop::collection::vec(any::<u8>(), 12..100),
    ) {
        headers[0] = headers[0] & 0x0f | if v6 { 0x60 } else { 0x40 };
        let wanted = by_the_book(&headers, has_udp, &covered);
        prop_assert_eq!(icrc_of_captured(&headers, has_udp, &covered), Some(wanted));
    }

    /// RoCEv1 and InfiniBand with a GRH; without one the route header stands first, its virtual lane masked.
    #[test]
    fn e14_grh_and_local_route_header(
        grh in prop::array::uniform32(any::<u8>()), rest: [u8; 8], lrh: [u8; 8],
        covered in prop::collection::vec(any::<u8>(), 12..100),
    ) {
        let mut header: [u8; 40] = [0; 40];
        header[..32].copy_from_slice(&grh);
        header[32..].copy_from_slice(&rest);
        header[0] = header[0] & 0x0f | 0x60;
        prop_assert_eq!(icrc_v1(&header, &covered), by_the_book(&header, false, &covered));
        let mut packet = covered.clone();
        packet[4] = 0xff;
        let stream = [lrh[0] | 0xf0].into_iter().chain(lrh[1..].iter().copied()).chain(packet);
        prop_assert_eq!(icrc_of_local(&lrh, &covered), crc32(stream));
    }

    /// A packet and its ACK, turn by turn, in two flows: what is remembered of one never leaks into another.
    #[test]
    fn flows_that_take_turns_keep_their_own_icrcs(
        turns in prop::collection::vec((any::<bool>(), 0usize..3, any::<[u8; 12]>(), any::<u16>()), 1..40),
    ) {
        let mut memory = FlowIcrc::default();
        for (v6, length, bth, id) in turns {
            let flow = flow_of(v6, 0xc000);
            let mut packet = bth.to_vec();
            packet.resize(12 + [0, 4, 64][length], 0x3c);
            let right = icrc(&flow, id, &packet);
            prop_assert_eq!(memory.icrc(&flow, id, &packet), right);
            packet.extend(right.to_le_bytes());
            prop_assert!(memory.verify(&flow, id, &packet));
            packet[5] ^= 1;
            prop_assert!(!memory.verify(&flow, id, &packet));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// The solve finds an identification exactly if one of all 65,536 makes the packet right.
    #[test]
    #[cfg_attr(miri, ignore = "tries all values of 16 bits")]
    fn e11_recovering_agrees_with_trying_all_identifications(
        id: u16, mut packet in prop::collection::vec(any::<u8>(), 12..40), damage in prop::option::of(0usize..12),
        guess: u16,
    ) {
        let flow = flow_of(false, 0xc111);
        let right = icrc(&flow, id, &packet);
        packet.extend(right.to_le_bytes());
        if let Some(at) = damage {
            packet[at] ^= 0x10;
        }
        let found = (0..=u16::MAX).find(|id| verify(&flow, *id, &packet));
        let wanted = found.map_or(IcrcVerdict::Bad, IcrcVerdict::Solved);
        prop_assert_eq!(recover(&flow, &[], &packet), wanted);
        if found != Some(guess) {
            prop_assert_eq!(recover(&flow, &[guess], &packet), wanted, "a wrong guess changes nothing");
        }
        prop_assert_eq!(recover(&flow, &[guess, id], &packet), match found {
            Some(found) if found == id || found == guess => IcrcVerdict::Predicted(found),
            _ => wanted,
        });
    }

    /// The change of two bytes is found exactly if one of all 65,536 changes does it.
    #[test]
    #[cfg_attr(miri, ignore = "tries all values of 16 bits")]
    fn two_bytes_are_solved_as_by_trying_all(delta: u32, behind in 2usize..12, real: bool) {
        let crc = |change: u16| {
            let zeros = std::iter::repeat_n(0, behind - 2);
            crc32(change.to_be_bytes().into_iter().chain(zeros))
        };
        let none = crc(0);
        let delta = if real { crc(delta as u16) ^ none } else { delta };
        let found = (0..=u16::MAX).find(|change| crc(*change) ^ none == delta);
        prop_assert_eq!(solve_two_bytes(delta, behind), found);
    }
}

/// From the last two bytes of a packet to the first two of the longest.
#[test]
fn two_bytes_are_solved_at_both_ends_of_the_range() {
    for &behind in PLACES {
        let crc = |change: u16| {
            let zeros = std::iter::repeat_n(0, behind - 2);
            crc32(change.to_be_bytes().into_iter().chain(zeros))
        };
        for change in [0, 1, 0x0100, 0xa55a, 0xffff] {
            let delta = crc(change) ^ crc(0);
            assert_eq!(solve_two_bytes(delta, behind), Some(change), "{change:#x}, {behind} bytes");
        }
    }
}

#[test]
fn the_verdict_on_ipv6_needs_no_identification() {
    let flow = flow_of(true, 0xc222);
    let mut packet = body(8);
    let right = icrc(&flow, 0, &packet);
    packet.extend(right.to_le_bytes());
    for guesses in [&[][..], &[0], &[1, 2, 3]] {
        assert_eq!(recover(&flow, guesses, &packet), IcrcVerdict::Valid);
    }
    for at in 0..packet.len() {
        let mut damaged = packet.clone();
        damaged[at] ^= 0x80;
        let wanted = if at == 4 { IcrcVerdict::Valid } else { IcrcVerdict::Bad };
        assert_eq!(recover(&flow, &[0], &damaged), wanted, "byte {at}");
    }
}

/// Bytes that are no packet have no ICRC that is right, and no function minds.
#[test]
fn fewer_bytes_than_an_icrc_are_never_right() {
    for v6 in [false, true] {
        let flow = flow_of(v6, 1);
        for length in 0..ICRC_LEN {
            let bytes = vec![0; length];
            assert!(!verify(&flow, 0, &bytes) && !FlowIcrc::default().verify(&flow, 0, &bytes));
            assert_eq!(recover(&flow, &[0], &bytes), IcrcVerdict::Bad);
        }
    }
}
