use uroce_wire::{Opcode, Psn, parse_ethernet};

use super::*;

const ENDS: FrameEnds =
    FrameEnds { source: [2; 6], destination: [4; 6], udp_port: uroce_wire::ROCE_PORT };

fn fresh(from: &str, to: &str) -> Frame {
    let ends = (from.parse().expect("an address"), to.parse().expect("an address"));
    let packet = Packet::new(Opcode::RC_WRITE_ONLY, 17, Psn::new(5), vec![7; 64]);
    Frame::new(ENDS, ends, &packet).expect("a frame")
}

fn both() -> [Frame; 2] {
    [fresh("192.0.2.2", "192.0.2.1"), fresh("2001:db8::2", "2001:db8::1")]
}

fn icrc_is_right(frame: &Frame) -> bool {
    parse_ethernet(&frame.bytes()).expect("well formed").icrc_is_right()
}

#[test]
fn what_the_icrc_leaves_out_may_change_and_nothing_else() {
    for frame in both() {
        let ipv4 = frame.is_ipv4();
        assert!(icrc_is_right(&frame));
        assert!(icrc_is_right(&frame.clone().traffic_class(0xff).hop_limit(1)));
        assert!(icrc_is_right(&frame.clone().bth_congestion(0xff).flow_label(0xf_ffff)));
        assert!(icrc_is_right(&frame.clone().tag(3, 0).padding(20)));
        assert!(!icrc_is_right(&frame.clone().source_port(1)));
        assert_eq!(icrc_is_right(&frame.ip_id(1)), !ipv4);
    }
}

#[test]
fn fields_stand_where_a_reader_finds_them() {
    for frame in both() {
        let changed = frame.traffic_class(0x6a).hop_limit(3).flow_label(0x1_2345);
        let bytes = changed.source_port(77).source_hardware([6; 6]).tag(5, 9).bytes();
        let read = parse_ethernet(&bytes).expect("well formed");
        assert_eq!((read.ip.traffic_class(), read.ip.hop_limit()), (0x6a, 3));
        assert_eq!((read.udp.map(|udp| udp.src), read.vlan), (Some(77), Some(9)));
        assert_eq!((&bytes[6..12], bytes[14] >> 5), (&[6; 6][..], 5));
    }
}

#[test]
fn lengths_that_lie_and_what_raw_readers_refuse_are_made_as_asked() {
    let [frame, _] = both();
    let parses = |frame: &Frame| parse_ethernet(&frame.bytes()).is_ok();
    assert!(!parses(&frame.clone().udp_length(frame.udp_bytes() - 4)));
    assert!(!parses(&frame.clone().options(&[1, 1, 1, 0])));
    let [first, second] = frame.clone().fragments(64);
    assert!(!parses(&first) && !parses(&second));
    let behind = |frame: &Frame| frame.bytes()[34..].to_vec();
    assert_eq!([behind(&first), behind(&second)].concat(), behind(&frame));
    assert_eq!((first.bytes()[20], second.bytes()[20..22].to_vec()), (0x60, vec![0x40, 8]));
}

/// Sums to 0xffff with its checksum in place (RFC 1071).
fn is_checked(bytes: &[u8]) -> bool {
    internet_checksum(bytes) == 0
}

#[test]
fn checksums_are_right_or_wrong_as_asked() {
    for frame in both() {
        let ip_bytes = frame.ip.len();
        let checked = |checksum| {
            let bytes = frame.clone().checksum(checksum).bytes();
            let addresses = if frame.is_ipv4() { 26..34 } else { 22..54 };
            let udp = &bytes[14 + ip_bytes..];
            let length = (udp.len() as u16).to_be_bytes();
            is_checked(&[&bytes[addresses], &[0, PROTOCOL_UDP], &length, udp].concat())
        };
        assert!(checked(UdpChecksum::Right) && !checked(UdpChecksum::Wrong));
    }
    let options = both()[0].clone().options(&[1, 1, 1, 0]).bytes();
    assert!(is_checked(&options[14..38]) && options[14] == 0x46);
}

#[test]
fn an_icmp_message_quotes_the_packet_that_it_is_about() {
    let ends = ("192.0.2.1".parse().expect("v4"), "192.0.2.2".parse().expect("v4"));
    let frame = Frame::unreachable(ENDS, ends, (77, &[5; 40])).expect("a message");
    let bytes = frame.bytes();
    assert!(is_checked(&bytes[14..34]) && is_checked(&bytes[34..]) && bytes[23] == 1);
    assert_eq!(bytes[26..34], [192, 0, 2, 2, 192, 0, 2, 1]);
    assert_eq!(bytes[54..66], [192, 0, 2, 1, 192, 0, 2, 2, 0, 77, 0x12, 0xb7]);
    assert_eq!(usize::from(u16::from_be_bytes([bytes[16], bytes[17]])), bytes.len() - 14);
    let mixed = (ends.0, "2001:db8::1".parse().expect("v6"));
    assert!(Frame::unreachable(ENDS, mixed, (77, &[5; 40])).is_none());
}
