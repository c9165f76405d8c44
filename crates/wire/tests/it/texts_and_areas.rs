//! What people and receive buffers see of a packet: lines, GIDs, the GRH area, and CNPs.

use std::net::IpAddr;

use proptest::prelude::*;
use uroce_wire::*;

use crate::spec::hex;

/// The line of a packet that is given as bytes in front of its ICRC.
fn line(bytes: &str) -> String {
    let mut bytes = hex(bytes);
    bytes.extend([0x78, 0x56, 0x34, 0x12]);
    Packet::parse(&bytes).expect("a packet").to_string()
}

#[test]
fn a_line_has_the_headers_of_the_packet_in_their_order() {
    let cases = [
        ("00 40 ffff 00 000011 00 00000a aabb", "RC_SEND_FIRST qpn 0x000011 psn 0xa payload 2"),
        (
            "0b 40 ffff 00 000011 00 00000a 0000000000001000 00000783 00000002 00000005 aabb0000",
            "RC_WRITE_ONLY_IMM qpn 0x000011 psn 0xa va 0x1000 rkey 0x783 len 2 imm 0x5 payload 4",
        ),
        (
            "0c 40 ffff 00 000011 00 00000a 0000000000001000 00000783 80000000",
            "RC_READ_REQUEST qpn 0x000011 psn 0xa va 0x1000 rkey 0x783 len 2147483648",
        ),
        (
            "17 40 ffff 00 000011 00 00000a 00000784",
            "RC_SEND_ONLY_INV qpn 0x000011 psn 0xa invalidate 0x784 payload 0",
        ),
        (
            "1c 40 ffff 00 000011 00 00000a 00000012 0000000000001000 00000783 00000000",
            "RC_FLUSH qpn 0x000011 psn 0xa placement 2 selectivity 1 va 0x1000 rkey 0x783 len 0",
        ),
        (
            "13 40 ffff 00 000011 00 00000a 0000000000001000 00000783 0000000000000007 0000000000000009",
            "RC_COMPARE_SWAP qpn 0x000011 psn 0xa va 0x1000 rkey 0x783 compare 0x9 swap 0x7",
        ),
        (
            "b4 40 ffff 00 000011 00 00000a 00000033 0000000000001000 00000783 0000000000000007 0000000000000000",
            "XRC_FETCH_ADD qpn 0x000011 psn 0xa srq 0x33 va 0x1000 rkey 0x783 add 0x7",
        ),
        (
            "12 40 ffff 00 000011 00 00000a 1f000003 00000000000000ff",
            "RC_ATOMIC_ACKNOWLEDGE qpn 0x000011 psn 0xa ack msn 3 original 0xff",
        ),
        (
            "64 40 ffff 00 ffffff 00 00000a 80010000 00000001",
            "UD_SEND_ONLY qpn 0xffffff psn 0xa from 0x000001 qkey 0x80010000 payload 0",
        ),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(line(bytes), wanted);
    }
}

#[test]
fn a_line_says_what_a_syndrome_means() {
    let of = |syndrome: u8| {
        let line = line(&format!("11 40 ffff 00 000011 00 00000a {syndrome:02x}000002"));
        line.trim_start_matches("RC_ACKNOWLEDGE qpn 0x000011 psn 0xa ").to_owned()
    };
    assert_eq!(of(0x1f), "ack msn 2");
    assert_eq!(of(0x00), "ack credits 0 msn 2");
    assert_eq!(of(0x05), "ack credits 6 msn 2");
    assert_eq!(of(0x2c), "rnr wait 640 us msn 2");
    assert_eq!(of(0x60), "nak PSN sequence error msn 2");
    assert_eq!(of(0x62), "nak remote access error msn 2");
    assert_eq!(of(0x7f), "nak reserved 31 msn 2");
    assert_eq!(of(0x9f), "syndrome 0x9f reserved msn 2");
}

#[test]
fn a_line_ends_with_the_marks_that_are_set_and_an_unusual_pkey() {
    let of = |head: &str| {
        line(&format!("04 {head} 00000a"))
            .replace("RC_SEND_ONLY qpn 0x000011 psn 0xa payload 0", "")
    };
    assert_eq!(of("40 ffff 00 000011 00"), "");
    assert_eq!(of("c0 ffff 00 000011 00"), " solicited");
    assert_eq!(of("40 ffff 00 000011 80"), " ackreq");
    assert_eq!(of("40 ffff 80 000011 00"), " fecn");
    assert_eq!(of("40 ffff 40 000011 00"), " becn");
    assert_eq!(of("40 7fff 00 000011 00"), " pkey 0x7fff");
    assert_eq!(of("c0 8001 ff 000011 ff"), " solicited ackreq fecn becn pkey 0x8001");
}

#[test]
fn a_line_gives_the_verdict_on_the_icrc_where_there_is_one() {
    let bytes = hex("04 40 ffff 00 000011 00 00000a 78563412");
    let packet = Packet::parse(&bytes).expect("a packet");
    let plain = "RC_SEND_ONLY qpn 0x000011 psn 0xa payload 0";
    assert_eq!(pretty::line(&packet, None).to_string(), plain);
    assert_eq!(pretty::line(&packet, Some(true)).to_string(), format!("{plain} icrc ok"));
    let bad = format!("{plain} icrc 0x12345678 bad");
    assert_eq!(pretty::line(&packet, Some(false)).to_string(), bad);
}

#[test]
fn r102_a_cnp_is_a_bth_with_becn_and_16_zeros() {
    for qpn in [0, 1, 0x12_3456, 0xff_ffff] {
        let mut out = [0xa5; CNP_LEN + ICRC_LEN];
        assert_eq!(write_cnp(&mut out, Qpn::new(qpn)), Some(28));
        let wanted = hex(&format!("81 40 ffff 40 {qpn:06x} 00 000000 {}", "00".repeat(16)));
        assert_eq!(out[..28], wanted);
        assert_eq!(out[28..], [0xa5; 4]);
        let packet = Packet::parse(&out).expect("a CNP");
        assert_eq!((packet.payload(), packet.info.payload), (&[0; 16][..], PayloadRule::Exact(16)));
    }
    for length in 0..CNP_LEN {
        let mut out = vec![0xa5; length];
        assert_eq!(write_cnp(&mut out, Qpn::new(1)), None);
        assert!(out.iter().all(|byte| *byte == 0xa5), "nothing is written where all does not fit");
    }
}

proptest! {
    /// By the checksum a receiver tells the two layouts apart, as the kernel does.
    #[test]
    fn e12_the_grh_area_of_ipv4_is_20_zeros_and_the_header_as_it_was_sent(
        src: u32, dst: u32, id: u16, ttl: u8, tos: u8, transport in 0usize..5000,
    ) {
        let ip = Ipv4 { src: src.into(), dst: dst.into(), id, ttl, tos, df: true };
        let mut sent = [0; 28];
        let ports = UdpPorts { src: 0xc000, dst: ROCE_PORT };
        write_ipv4_udp(&mut sent, &ip, ports, transport).expect("room");
        let udp_len = transport as u16 + 8;
        let area = ud_grh_area(ip.src.into(), ip.dst.into(), id, ttl, tos, udp_len);
        prop_assert_eq!(&area[..20], &[0; 20]);
        prop_assert_eq!(&area[20..], &sent[..20]);
    }

    #[test]
    fn e12_the_grh_area_of_ipv6_is_the_header_without_its_label(
        src: u128, dst: u128, id: u16, hop_limit: u8, traffic_class: u8, transport in 0usize..5000,
    ) {
        let ip = Ipv6 { src: src.into(), dst: dst.into(), hop_limit, traffic_class, flow_label: 0 };
        let mut sent = [0; 48];
        let ports = UdpPorts { src: 0xc000, dst: ROCE_PORT };
        write_ipv6_udp(&mut sent, &ip, ports, transport).expect("room");
        let udp_len = transport as u16 + 8;
        let area = ud_grh_area(ip.src.into(), ip.dst.into(), id, hop_limit, traffic_class, udp_len);
        prop_assert_eq!(&area[..], &sent[..40]);
        prop_assert_eq!(area.len(), GRH_AREA_LEN);
    }

    #[test]
    fn e9_a_gid_survives_each_of_its_texts(bytes: [u8; 16], v4: u32) {
        for gid in [Gid::new(bytes), Gid::from_ip(IpAddr::V4(v4.into()))] {
            prop_assert_eq!(Gid::from_wire_hex(&gid.to_wire_hex()), Ok(gid));
            prop_assert_eq!(gid.to_string().parse(), Ok(gid));
            prop_assert_eq!(Gid::from_ip(gid.to_ip()), gid);
        }
        prop_assert_eq!(Gid::from_ip(IpAddr::V4(v4.into())).to_ip(), IpAddr::V4(v4.into()));
    }

    #[test]
    fn e9_no_text_makes_the_gid_parser_panic(text in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let read: Result<Gid, BadGid> = text.parse();
        prop_assert!(read.is_err() || text.contains(':') || text.contains('.') || text.len() == 32);
        let digits = bytes.len() == 32 && bytes.iter().all(u8::is_ascii_hexdigit);
        prop_assert_eq!(Gid::from_wire_hex(&bytes).is_ok(), digits);
    }
}

#[test]
fn e9_texts_of_gids_by_hand() {
    let gid = |text: &str| text.parse::<Gid>();
    assert_eq!(gid("::ffff:10.0.0.1"), gid("10.0.0.1"));
    assert_eq!(gid("00000000000000000000FFFF0A000001"), gid("10.0.0.1"), "digits of either case");
    assert_eq!(gid("::").map(|gid| gid.is_zero()), Ok(true));
    assert_eq!(gid("::1").map(|gid| gid.is_zero()), Ok(false));
    for bad in
        ["10.0.0", "10.0.0.256", "fe80", "fe80::1%eth0", "0x00000000000000000000ffff0a0000", "+1"]
    {
        assert_eq!(gid(bad), Err(BadGid), "{bad}");
    }
    let words = "not a GID: 32 hexadecimal digits, or an IP address, are expected";
    assert_eq!(BadGid.to_string(), words);
}

#[test]
fn e9_a_link_local_gid_has_the_universal_bit_turned_and_fffe_in_the_middle() {
    let gid = Gid::link_local([0x00, 0x11, 0x22, 0x33, 0x44, 0x55]);
    assert_eq!(gid.bytes().to_vec(), hex("fe80 0000 0000 0000 0211 22ff fe33 4455"));
    let gid = Gid::link_local([0xff; 6]);
    assert_eq!(gid.bytes().to_vec(), hex("fe80 0000 0000 0000 fdff ffff feff ffff"));
}
