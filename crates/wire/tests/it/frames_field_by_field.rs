//! Every value of each field that decides whether a frame is RoCE, and every place to cut one.

use proptest::prelude::*;
use uroce_wire::*;

const PORTS: UdpPorts = UdpPorts { src: 0xc000, dst: ROCE_PORT };
/// Bytes behind UDP in the frames here.
const TRANSPORT: usize = 20;

fn ipv4() -> Ipv4 {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    Ipv4 { src, dst, id: 7, ttl: 64, tos: 0, df: true }
}

fn ipv6() -> Ipv6 {
    let (src, dst) = ("fd00::1".parse().expect("v6"), "fd00::2".parse().expect("v6"));
    Ipv6 { src, dst, hop_limit: 64, traffic_class: 0, flow_label: 0 }
}

fn grh() -> Grh {
    let (src, dst) = (Gid::link_local([2; 6]), Gid::link_local([4; 6]));
    let (traffic_class, flow_label, payload_len, next_header, hop_limit) = (0, 0, 20, Grh::IBA, 1);
    Grh { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst }
}

/// A frame with an Ethertype, and where its network header is.
fn frame(ether_type: u16, vlan: Option<u16>) -> (Vec<u8>, usize) {
    let mut out = vec![0; 18 + 48];
    let at = write_ethernet(&mut out, [2; 6], [4; 6], vlan, ether_type).expect("room");
    let network = &mut out[at..];
    let length = match ether_type {
        0x0800 => write_ipv4_udp(network, &ipv4(), PORTS, TRANSPORT),
        0x86dd => write_ipv6_udp(network, &ipv6(), PORTS, TRANSPORT),
        _ => grh().write(network).map(|()| Grh::LEN),
    };
    out.truncate(at + length.expect("room"));
    out.resize(out.len() + TRANSPORT, 0x99);
    (out, at)
}

fn v4() -> Vec<u8> {
    frame(0x0800, None).0
}

fn v6() -> Vec<u8> {
    frame(0x86dd, None).0
}

/// What a frame with other 16 bits at `at` reads as; the frame stays as it is.
fn with(bytes: &mut [u8], at: usize, value: u16) -> Result<Option<UdpPorts>, FrameError> {
    let before = [bytes[at], bytes[at + 1]];
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    let read = parse_ethernet(bytes).map(|frame| frame.udp);
    bytes[at..at + 2].copy_from_slice(&before);
    read
}

/// Every value of 16 bits; Miri, which is some thousand times as slow, takes a few.
const STEP: usize = if cfg!(miri) { 1021 } else { 1 };

/// Cut after any byte, a frame of any kind names the header that was cut, or the length that does not hold.
#[test]
fn e5_a27_the_error_of_a_cut_frame_names_what_is_missing() {
    let kinds = [
        (0x0800, "IPv4", 20, "IPv4 total length", 2),
        (0x86dd, "IPv6", 40, "IPv6 payload length", 4),
        (ROCE_V1_ETHERTYPE, "GRH", 40, "GRH payload length", 4),
    ];
    for (ether_type, header, need, field, place) in kinds {
        for vlan in [None, Some(9)] {
            let (bytes, at) = frame(ether_type, vlan);
            for length in 0..bytes.len() {
                let wanted = if length < 14 {
                    FrameError::Truncated { header: "Ethernet", offset: 0, got: length, need: 14 }
                } else if length < at {
                    let got = length - 14;
                    FrameError::Truncated { header: "VLAN tag", offset: 14, got, need: 4 }
                } else if length < at + need {
                    FrameError::Truncated { header, offset: at, got: length - at, need }
                } else {
                    let (found, room) = (bytes.len() - at, length - at);
                    FrameError::LengthMismatch { field, offset: at + place, found, room }
                };
                assert_eq!(
                    parse_ethernet(&bytes[..length]),
                    Err(wanted),
                    "{header} cut to {length}"
                );
            }
            assert!(parse_ethernet(&bytes).is_ok());
        }
    }
}

#[test]
fn a27_an_ip_packet_without_ethernet_counts_offsets_from_itself() {
    for (bytes, header, need) in [(v4(), "IPv4", 20), (v6(), "IPv6", 40)] {
        let packet = &bytes[14..];
        assert_eq!(parse_ip(packet).expect("a packet").transport, &[0x99; TRANSPORT]);
        for length in 1..need {
            let wanted = FrameError::Truncated { header, offset: 0, got: length, need };
            assert_eq!(parse_ip(&packet[..length]), Err(wanted));
        }
    }
    let nothing = FrameError::Truncated { header: "IP", offset: 0, got: 0, need: 20 };
    assert_eq!(parse_ip(&[]), Err(nothing));
    for found in (0..16u8).filter(|version| ![4, 6].contains(version)) {
        let mut bytes = v4()[14..].to_vec();
        bytes[0] = found << 4 | 5;
        assert_eq!(parse_ip(&bytes), Err(FrameError::BadVersion { offset: 0, found }));
    }
}

#[test]
fn e1_each_ethertype_is_one_of_ours_a_tag_or_something_else() {
    let mut frame = v4();
    for found in (0..=u16::MAX).step_by(STEP) {
        let wanted = match found {
            0x0800 => Ok(Some(PORTS)),
            // An IPv4 packet is none of the others.
            0x86dd | ROCE_V1_ETHERTYPE => Err(FrameError::BadVersion { offset: 14, found: 4 }),
            // The first bytes of the IPv4 header would be the tag and its Ethertype.
            0x8100 => Err(FrameError::NotRoce { field: "Ethertype", offset: 16, found: 48 }),
            0x88a8 | 0x9100 => Err(FrameError::StackedVlan { offset: 12 }),
            _ => Err(FrameError::NotRoce { field: "Ethertype", offset: 12, found }),
        };
        assert_eq!(with(&mut frame, 12, found), wanted, "{found:#06x}");
    }
}

/// Priority and drop eligibility are not of the id; 0 is a tag that only carries a priority.
#[test]
fn e2_each_value_of_a_vlan_tag() {
    let (tagged, _) = frame(0x0800, Some(1));
    for tag in (0..=u16::MAX).step_by(STEP) {
        let mut bytes = tagged.clone();
        bytes[14..16].copy_from_slice(&tag.to_be_bytes());
        assert_eq!(parse_ethernet(&bytes).map(|frame| frame.vlan), Ok(Some(tag & 0x0fff)));
    }
}

#[test]
fn e3_each_value_of_the_ipv4_fragment_field() {
    let mut bytes = v4();
    for value in (0..=u16::MAX).step_by(STEP) {
        let wanted = match value & 0x3fff {
            0 => Ok(Some(PORTS)),
            _ => Err(FrameError::Fragment { field: "IPv4 fragment offset", offset: 20 }),
        };
        assert_eq!(with(&mut bytes, 20, value), wanted, "{value:#06x}");
        bytes[20..22].copy_from_slice(&value.to_be_bytes());
        if let Ok(Frame { ip: Network::V4(ip), .. }) = parse_ethernet(&bytes) {
            assert_eq!(ip.df, value & 0x4000 != 0, "{value:#06x}");
        }
    }
}

#[test]
fn e5_each_value_of_each_length_field() {
    let (udp, room) = ("UDP length", 8 + TRANSPORT);
    let (mut v4, mut v6) = (v4(), v6());
    for found in (0..=u16::MAX).step_by(STEP).map(usize::from) {
        let wrong = |offset| Err(FrameError::LengthMismatch { field: udp, offset, found, room });
        let wanted = |offset| if found == room { Ok(Some(PORTS)) } else { wrong(offset) };
        assert_eq!(with(&mut v4, 38, found as u16), wanted(38), "UDP over IPv4 {found}");
        assert_eq!(with(&mut v6, 58, found as u16), wanted(58), "UDP over IPv6 {found}");
        let wanted = outer_length(found, 20, 34, "IPv4 total length", 16);
        assert_eq!(with(&mut v4, 16, found as u16), wanted, "IPv4 {found}");
        let wanted = outer_length(found + 40, 40, 54, "IPv6 payload length", 18);
        assert_eq!(with(&mut v6, 18, found as u16), wanted, "IPv6 {found}");
    }
}

/// What a frame reads as whose network header of `header` bytes announces `total`; UDP is at `udp_at`.
fn outer_length(
    total: usize,
    header: usize,
    udp_at: usize,
    field: &'static str,
    offset: usize,
) -> Result<Option<UdpPorts>, FrameError> {
    let (udp, right) = (8 + TRANSPORT, header + 8 + TRANSPORT);
    match total {
        _ if total == right => Ok(Some(PORTS)),
        _ if total > right => {
            Err(FrameError::LengthMismatch { field, offset, found: total, room: right })
        }
        _ if total < header + 8 => {
            let got = total.saturating_sub(header);
            Err(FrameError::Truncated { header: "UDP", offset: udp_at, got, need: 8 })
        }
        _ => {
            let (field, offset, room) = ("UDP length", udp_at + 4, total - header);
            Err(FrameError::LengthMismatch { field, offset, found: udp, room })
        }
    }
}

#[test]
fn e1_each_destination_port_but_ours_is_other_traffic() {
    for (mut bytes, offset) in [(v4(), 36), (v6(), 56)] {
        for found in (0..=u16::MAX).step_by(STEP) {
            let other = FrameError::NotRoce { field: "UDP destination port", offset, found };
            let ports = UdpPorts { dst: found, ..PORTS };
            let wanted = if found == ROCE_PORT { Ok(Some(ports)) } else { Err(other) };
            assert_eq!(with(&mut bytes, offset, found), wanted);
            bytes[offset..offset + 2].copy_from_slice(&found.to_be_bytes());
            assert_eq!(parse_ethernet_on(&bytes, found).map(|frame| frame.udp), Ok(Some(ports)));
        }
    }
}

/// Extension headers by number; their length is 8 bytes here, and UDP follows.
#[test]
fn e4_each_next_header_of_ipv6() {
    let extensions = [0, 43, 51, 60, 135, 139, 140, 253, 254];
    for found in 0..=255u8 {
        let mut bytes = v6();
        bytes[20] = found;
        // Read as an extension header: UDP next, no more than 8 bytes (0 as a length means that).
        (bytes[54], bytes[55]) = (17, 0);
        let (field, offset) = ("IPv6 next header", 20);
        let error = parse_ethernet(&bytes).err();
        match found {
            17 => assert_eq!(error, None),
            44 => assert_eq!(error, Some(FrameError::Fragment { field, offset })),
            _ if extensions.contains(&found) => {
                assert_eq!(error, Some(FrameError::IpOptions { field, offset, found }));
            }
            50 => assert!(error.is_some(), "encrypted: nothing can be said of what is inside"),
            _ => {
                let found = u16::from(found);
                assert_eq!(error, Some(FrameError::NotRoce { field, offset, found }));
            }
        }
    }
}

/// Lengths of extension headers: in units of 8 bytes without the first 8, of authentication in units of 4.
#[test]
fn e40_what_is_behind_extension_headers_is_found_by_their_lengths() {
    for (first, length, behind) in
        [(0, 0, 62), (0, 1, 70), (60, 1, 70), (51, 0, 62), (51, 1, 66), (51, 3, 74)]
    {
        for (last, found) in [(17, None), (58, Some(58)), (6, Some(6))] {
            let mut bytes = v6();
            (bytes[20], bytes[54], bytes[55]) = (first, 60, length);
            bytes[behind] = last;
            let error = parse_ethernet(&bytes).expect_err("extension headers");
            let field = "IPv6 next header";
            let wanted = match found {
                None => FrameError::IpOptions { field, offset: 20, found: first },
                Some(found) => FrameError::NotRoce { field, offset: behind, found },
            };
            assert_eq!(error, wanted, "{first} of length {length}, then {last}");
        }
    }
}

#[test]
fn e40_each_protocol_of_ipv4_but_udp_is_other_traffic() {
    for found in (0..=255u8).filter(|protocol| *protocol != 17) {
        for first in [0x45, 0x46, 0x4f] {
            let mut bytes = v4();
            (bytes[14], bytes[23]) = (first, found);
            let (field, offset, found) = ("IPv4 protocol", 23, u16::from(found));
            let wanted = Err(FrameError::NotRoce { field, offset, found });
            assert_eq!(parse_ethernet(&bytes), wanted, "options or not, it is no RoCE");
        }
    }
}

/// Every kind of error, its words and its counter.
#[test]
fn each_frame_error_in_words() {
    let cases: [(FrameError, &str, DropReason); 7] = [
        (
            FrameError::Truncated { header: "UDP", offset: 34, got: 3, need: 8 },
            "UDP header at offset 34: 8 bytes needed, 3 left; the frame was cut",
            DropReason::TooShort,
        ),
        (
            FrameError::NotRoce { field: "Ethertype", offset: 12, found: 0x0806 },
            "Ethertype at offset 12 is 0x0806: not a RoCE packet",
            DropReason::NotRoce,
        ),
        (
            FrameError::StackedVlan { offset: 12 },
            "VLAN tag at offset 12 is a service tag or has another behind it; only one 802.1Q tag is read",
            DropReason::NotRoce,
        ),
        (
            FrameError::BadVersion { offset: 14, found: 5 },
            "IP version at offset 14 is 5, which does not belong here",
            DropReason::NotRoce,
        ),
        (
            FrameError::IpOptions { field: "IPv4 IHL", offset: 14, found: 6 },
            "IPv4 IHL at offset 14 is 6: RoCE uses no IP options or extension headers",
            DropReason::IpOptions,
        ),
        (
            FrameError::Fragment { field: "IPv6 next header", offset: 20 },
            "IPv6 next header at offset 20 marks a fragment; RoCE sets DF, so something on the way cut the packet",
            DropReason::Fragment,
        ),
        (
            FrameError::LengthMismatch { field: "UDP length", offset: 38, found: 29, room: 28 },
            "UDP length at offset 38 announces 29 bytes, but there are 28",
            DropReason::BadLength,
        ),
    ];
    for (error, words, reason) in cases {
        assert_eq!((error.to_string().as_str(), error.drop_reason()), (words, reason));
    }
}

proptest! {
    /// What is written is read again, and the IPv4 checksum is one.
    #[test]
    fn a27_ipv4_headers_are_read_as_written(
        src: u32, dst: u32, id: u16, ttl: u8, tos: u8, df: bool, port: u16, length in 0usize..200, padding in 0usize..40,
    ) {
        let ip = Ipv4 { src: src.into(), dst: dst.into(), id, ttl, tos, df };
        let ports = UdpPorts { src: port, dst: ROCE_PORT };
        let mut out = vec![0; 28];
        prop_assert_eq!(write_ipv4_udp(&mut out, &ip, ports, length), Some(28));
        let words = out[..20].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        prop_assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the header with its checksum sums to ones");
        prop_assert_eq!(&out[26..28], &[0, 0], "no UDP checksum");
        out.resize(28 + length + padding, 0x42);
        let frame = parse_ip(&out).expect("a packet");
        prop_assert_eq!((frame.ip, frame.udp, frame.vlan), (Network::V4(ip), Some(ports), None));
        prop_assert_eq!(frame.transport.len(), length);
        let network = frame.ip;
        prop_assert_eq!((network.ip_id(), network.traffic_class(), network.hop_limit()), (Some(id), tos, ttl));
        prop_assert_eq!(frame.addresses(), (ip.src.into(), ip.dst.into()));
        let (src, dst) = frame.addresses();
        prop_assert_eq!(frame.flow(), Some(Flow { src, dst, src_port: port, dst_port: ROCE_PORT }));
    }

    #[test]
    fn a27_ipv6_headers_are_read_as_written(
        src: u128, dst: u128, hop_limit: u8, traffic_class: u8, flow_label in 0u32..1 << 20, port: u16,
        length in 0usize..200, padding in 0usize..40,
    ) {
        let ip = Ipv6 { src: src.into(), dst: dst.into(), hop_limit, traffic_class, flow_label };
        let ports = UdpPorts { src: port, dst: ROCE_PORT };
        let mut out = vec![0; 48];
        prop_assert_eq!(write_ipv6_udp(&mut out, &ip, ports, length), Some(48));
        out.resize(48 + length + padding, 0x42);
        let frame = parse_ip(&out).expect("a packet");
        prop_assert_eq!((frame.ip, frame.udp), (Network::V6(ip), Some(ports)));
        prop_assert_eq!(frame.transport.len(), length);
        let network = frame.ip;
        prop_assert_eq!((network.ip_id(), network.traffic_class()), (None, traffic_class));
        prop_assert_eq!((network.hop_limit(), network.src(), network.dst()), (hop_limit, ip.src.into(), ip.dst.into()));
    }
}

#[test]
fn headers_that_cannot_be_written_are_none() {
    let (v4, v6) = (ipv4(), ipv6());
    for length in 0..28 {
        assert_eq!(write_ipv4_udp(&mut vec![0; length], &v4, PORTS, 16), None, "{length} bytes");
    }
    for length in 0..48 {
        assert_eq!(write_ipv6_udp(&mut vec![0; length], &v6, PORTS, 16), None, "{length} bytes");
    }
    for length in 0..14 {
        let mut out = vec![0; length];
        assert_eq!(write_ethernet(&mut out, [2; 6], [4; 6], None, 0x0800), None);
    }
    for length in 14..18 {
        let mut out = vec![0; length];
        assert_eq!(write_ethernet(&mut out, [2; 6], [4; 6], Some(1), 0x0800), None);
    }
    let mut out = [0; 48];
    let label = Ipv6 { flow_label: 1 << 20, ..v6 };
    assert_eq!(write_ipv6_udp(&mut out, &label, PORTS, 16), None, "a label has 20 bits");
}

/// The length fields have 16 bits: IPv4 counts its own header, IPv6 does not.
#[test]
fn a_packet_is_as_long_as_its_length_fields_can_say() {
    let mut out = [0; 48];
    let longest = usize::from(u16::MAX);
    assert_eq!(write_ipv4_udp(&mut out, &ipv4(), PORTS, longest - 28), Some(28));
    assert_eq!((&out[2..4], &out[24..26]), (&[0xff, 0xff][..], &[0xff, 0xeb][..]));
    assert_eq!(write_ipv6_udp(&mut out, &ipv6(), PORTS, longest - 8), Some(48));
    assert_eq!((&out[4..6], &out[44..46]), (&[0xff, 0xff][..], &[0xff, 0xff][..]));
    for too_long in [longest - 27, longest, usize::MAX] {
        assert_eq!(write_ipv4_udp(&mut out, &ipv4(), PORTS, too_long), None);
    }
    for too_long in [longest - 7, longest, usize::MAX - 7, usize::MAX] {
        assert_eq!(write_ipv6_udp(&mut out, &ipv6(), PORTS, too_long), None);
    }
}

#[test]
fn e14_a_roce_v1_frame_has_gids_for_addresses_and_no_ports() {
    let (bytes, _) = frame(ROCE_V1_ETHERTYPE, Some(3));
    let frame = parse_ethernet(&bytes).expect("a frame");
    let (src, dst) = (Gid::link_local([2; 6]).to_ip(), Gid::link_local([4; 6]).to_ip());
    assert_eq!((frame.addresses(), frame.vlan), ((src, dst), Some(3)));
    assert_eq!((frame.udp, frame.flow(), frame.ip.ip_id()), (None, None, None));
    assert_eq!((frame.ip.traffic_class(), frame.ip.hop_limit()), (0, 1));
    // Asked for another port, the frame is the same: it has none.
    assert_eq!(parse_ethernet_on(&bytes, 1), Ok(frame));
}
