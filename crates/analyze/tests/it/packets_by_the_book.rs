//! Frames of every kind cut after each byte, and what is said of packets in one line.

use uroce_analyze::{
    Dissector, DissectorConfig, Encapsulation, Frame, FrameKind, IcrcStatus, Iwarp, LinkType,
    Malformed, NotChecked, Packet, PacketSummary,
};
use uroce_wire::{Aeth, AtomicEth, Bth, Deth, Feth, HeaderSet, Opcode, Psn, Qpn, Reth, Syndrome};

use crate::capture::{
    captured, counting, covered, ethernet, frame, grh, ipv4, ipv6, management, sealed,
};

fn dissect(
    data: &[u8],
    link_type: LinkType,
    original: usize,
) -> (FrameKind, Option<(Packet, usize, usize)>) {
    let frame = Frame { original_len: original as u32, ..captured(data, link_type) };
    let mut seen = None;
    let kind = Dissector::new(DissectorConfig::default())
        .dissect(&frame, &mut |packet, payload, captured| {
            seen = Some((*packet, payload.len(), captured.len()))
        });
    (kind, seen)
}

/// Where UDP ends in a frame of each kind, and from which byte on its port can be told.
struct Kind {
    link_type: LinkType,
    data: Vec<u8>,
    bth: usize,
    told_from: usize,
    encapsulation: Encapsulation,
}

fn kinds(body: &[u8]) -> Vec<Kind> {
    let v1 = sealed(&grh(body.len()), false, body);
    let udp = |link_type, data, bth| Kind {
        link_type,
        data,
        bth,
        told_from: bth - 2,
        encapsulation: Encapsulation::RoceV2,
    };
    vec![
        udp(LinkType::Ethernet, ethernet(0x0800, None, &ipv4(1, body)), 42),
        udp(LinkType::Ethernet, ethernet(0x0800, Some(5), &ipv4(1, body)), 46),
        udp(LinkType::Ethernet, ethernet(0x86dd, None, &ipv6(body)), 62),
        udp(LinkType::RawIp, ipv4(1, body), 28),
        udp(LinkType::RawIp, ipv6(body), 48),
        udp(LinkType::Null, [&[2, 0, 0, 0][..], &ipv4(1, body)].concat(), 32),
        Kind {
            link_type: LinkType::Ethernet,
            data: ethernet(0x8915, None, &v1),
            bth: 54,
            told_from: 54,
            encapsulation: Encapsulation::RoceV1,
        },
    ]
}

/// Cut anywhere: nothing, a cut BTH, or a packet with the headers that are left.
#[test]
fn a_frame_that_is_cut_shows_the_headers_that_are_left() {
    let body = covered(0xab, 5, &counting(4 + 16 + 4 + 20));
    for kind in kinds(&body) {
        let whole = kind.data.len();
        for length in 0..=whole {
            let (found, packet) = dissect(&kind.data[..length], kind.link_type, whole);
            if length < kind.told_from {
                assert_eq!(found, FrameKind::Other, "{:?} cut to {length}", kind.link_type);
                continue;
            }
            if length < kind.bth + 12 {
                assert_eq!(
                    found,
                    FrameKind::RoceMalformed(Malformed::Cut),
                    "{:?} {length}",
                    kind.link_type
                );
                continue;
            }
            assert_eq!(found, FrameKind::Roce { packets: 1 });
            let (packet, payload, captured) = packet.expect("a packet");
            let there = length - kind.bth;
            assert_eq!((packet.encapsulation, captured), (kind.encapsulation, there));
            assert_eq!(packet.xrc_srqn.is_some(), there >= 16);
            assert_eq!(packet.reth.is_some(), there >= 32);
            assert_eq!(packet.immediate.is_some(), there >= 36);
            assert_eq!((packet.payload_len, payload), (20, there.saturating_sub(36).min(20)));
            assert_eq!(packet.is_cut, length < whole);
            let icrc = if length < whole {
                IcrcStatus::NotChecked(NotChecked::Cut)
            } else {
                IcrcStatus::Right
            };
            assert_eq!(packet.icrc, icrc, "{:?} {length}", kind.link_type);
        }
    }
}

/// Every opcode has the headers that its table names, and nothing that it does not.
#[test]
fn each_opcode_is_dissected_into_its_headers() {
    for info in (0..=255u8).filter_map(|byte| Opcode(byte).info()) {
        let extensions = info.header_len - 12;
        let data = frame(1, &covered(info.opcode.0, 5, &counting(extensions + 8)));
        let (_, packet) = dissect(&data, LinkType::Ethernet, data.len());
        let (packet, payload, _) = packet.expect(info.name);
        let has = |set| info.headers.contains(set);
        assert_eq!(packet.xrc_srqn.is_some(), has(HeaderSet::XRCETH), "{}", info.name);
        assert_eq!(packet.deth.is_some(), has(HeaderSet::DETH), "{}", info.name);
        assert_eq!(packet.feth.is_some(), has(HeaderSet::FETH), "{}", info.name);
        assert_eq!(packet.reth.is_some(), has(HeaderSet::RETH), "{}", info.name);
        assert_eq!(packet.atomic_eth.is_some(), has(HeaderSet::ATOMIC_ETH), "{}", info.name);
        assert_eq!(packet.aeth.is_some(), has(HeaderSet::AETH), "{}", info.name);
        assert_eq!(packet.atomic_ack.is_some(), has(HeaderSet::ATOMIC_ACK_ETH), "{}", info.name);
        assert_eq!(packet.immediate.is_some(), has(HeaderSet::IMMDT), "{}", info.name);
        assert_eq!(packet.invalidate_rkey.is_some(), has(HeaderSet::IETH), "{}", info.name);
        assert_eq!(
            (packet.payload_len, payload, packet.icrc),
            (8, 8, IcrcStatus::Right),
            "{}",
            info.name
        );
        let wire = uroce_wire::Packet::parse(&data[42..]).expect(info.name);
        assert_eq!(
            (packet.reth, packet.aeth, packet.deth),
            (wire.reth(), wire.aeth(), wire.deth())
        );
        assert_eq!((packet.immediate, packet.invalidate_rkey), (wire.immdt(), wire.ieth()));
    }
}

#[test]
fn facts_of_the_network_come_with_a_packet() {
    let body = covered(0x11, 5, &[0x1f, 0, 0, 3]);
    let facts = |data: &[u8], link_type| {
        let (packet, ..) = dissect(data, link_type, data.len()).1.expect("a packet");
        let (from, to) = (packet.source.to_string(), packet.destination.to_string());
        (from, to, packet.traffic_class, packet.hop_limit)
    };
    let v4 = facts(&frame(1, &body), LinkType::Ethernet);
    assert_eq!(v4, ("10.0.0.1:49443".into(), "10.0.0.2:4791".into(), 0x6a, 64));
    let v6 = facts(&ipv6(&body), LinkType::RawIp);
    assert_eq!(v6, ("[fe80::1]:49443".into(), "[fe80::2]:4791".into(), 0x6a, 63));
    let v1 =
        facts(&ethernet(0x8915, None, &sealed(&grh(body.len()), false, &body)), LinkType::Ethernet);
    assert_eq!(v1, ("[fe80::1]:0".into(), "[fe80::2]:0".into(), 0x6a, 63));
}

/// A packet of 10.0.0.1 with its ICRC right.
fn packet(opcode: Opcode) -> Packet {
    Packet {
        icrc: IcrcStatus::Right,
        ..Packet::new(Bth::new(opcode, Qpn::new(0x11), Psn::new(0x1a2b)))
    }
}

fn line(packet: &Packet) -> String {
    PacketSummary::new(packet, &[]).to_string()
}

#[test]
fn a_line_has_each_header_in_the_words_of_its_fields() {
    let reth = Some(Reth { va: 0x1000, rkey: 0x783, length: 65_536 });
    let atomic = |swap_add, compare| Some(AtomicEth { va: 0x8, rkey: 0x9, swap_add, compare });
    let aeth = |syndrome| Some(Aeth { syndrome: Syndrome(syndrome), msn: 7 });
    let cases = [
        (
            Packet { reth, payload_len: 1024, ..packet(Opcode::RC_WRITE_FIRST) },
            "RC_WRITE_FIRST qp 0x000011 psn 0x1a2b va 0x1000 rkey 0x783 len 65536 payload 1024 icrc ok",
        ),
        (
            Packet {
                xrc_srqn: Some(0x33),
                immediate: Some(0xab),
                payload_len: 3,
                ..packet(Opcode::XRC_SEND_ONLY_IMM)
            },
            "XRC_SEND_ONLY_IMM qp 0x000011 psn 0x1a2b srq 0x33 imm 0xab payload 3 icrc ok",
        ),
        (
            Packet {
                deth: Some(Deth { qkey: 0x11, src_qpn: Qpn::new(5) }),
                ..packet(Opcode::UD_SEND_ONLY)
            },
            "UD_SEND_ONLY qp 0x000011 psn 0x1a2b from 0x000005 qkey 0x11 icrc ok",
        ),
        (
            Packet {
                feth: Some(Feth { placement: 1, selectivity: 0 }),
                reth,
                ..packet(Opcode::RC_FLUSH)
            },
            "RC_FLUSH qp 0x000011 psn 0x1a2b placement 1 selectivity 0 va 0x1000 rkey 0x783 len 65536 icrc ok",
        ),
        (
            Packet { atomic_eth: atomic(2, 3), ..packet(Opcode::RC_COMPARE_SWAP) },
            "RC_COMPARE_SWAP qp 0x000011 psn 0x1a2b va 0x8 rkey 0x9 compare 0x3 swap 0x2 icrc ok",
        ),
        (
            Packet { atomic_eth: atomic(2, 3), ..packet(Opcode::RC_FETCH_ADD) },
            "RC_FETCH_ADD qp 0x000011 psn 0x1a2b va 0x8 rkey 0x9 add 0x2 icrc ok",
        ),
        (
            Packet {
                aeth: aeth(0x1f),
                atomic_ack: Some(0xff),
                ..packet(Opcode::RC_ATOMIC_ACKNOWLEDGE)
            },
            "RC_ATOMIC_ACKNOWLEDGE qp 0x000011 psn 0x1a2b ack msn 7 original 0xff icrc ok",
        ),
        (
            Packet { aeth: aeth(0x21), ..packet(Opcode::RC_ACKNOWLEDGE) },
            "RC_ACKNOWLEDGE qp 0x000011 psn 0x1a2b rnr wait 10 us msn 7 icrc ok",
        ),
        (
            Packet { aeth: aeth(0x63), ..packet(Opcode::RC_ACKNOWLEDGE) },
            "RC_ACKNOWLEDGE qp 0x000011 psn 0x1a2b nak remote operational error msn 7 icrc ok",
        ),
        (
            Packet { invalidate_rkey: Some(0x77), ..packet(Opcode::RC_SEND_ONLY_INV) },
            "RC_SEND_ONLY_INV qp 0x000011 psn 0x1a2b invalidate 0x77 icrc ok",
        ),
    ];
    for (packet, wanted) in cases {
        assert_eq!(line(&packet), wanted);
    }
}

#[test]
fn a_line_has_marks_and_the_verdict_on_the_icrc() {
    let marked = |change: &dyn Fn(&mut Packet)| {
        let mut packet = packet(Opcode::RC_SEND_ONLY);
        change(&mut packet);
        line(&packet).trim_start_matches("RC_SEND_ONLY qp 0x000011 psn 0x1a2b").to_owned()
    };
    assert_eq!(marked(&|packet| packet.bth.solicited = true), " solicited icrc ok");
    assert_eq!(marked(&|packet| packet.bth.ack_req = true), " ackreq icrc ok");
    assert_eq!(marked(&|packet| packet.bth.fecn = true), " fecn icrc ok");
    assert_eq!(marked(&|packet| packet.bth.becn = true), " becn icrc ok");
    assert_eq!(marked(&|packet| packet.traffic_class = 3), " ce icrc ok");
    assert_eq!(marked(&|packet| packet.traffic_class = 2), " icrc ok");
    assert_eq!(marked(&|packet| packet.bth.tver = 2), " tver 2 icrc ok");
    assert_eq!(marked(&|packet| packet.bth.pkey = 0x7fff), " pkey 0x7fff icrc ok");
    let icrc = |icrc| marked(&|packet| packet.icrc = icrc);
    let (found, expected) = (0x12, 0xab);
    assert_eq!(
        icrc(IcrcStatus::Wrong { found, expected }),
        " icrc wrong: 0x00000012, expected 0x000000ab"
    );
    assert_eq!(icrc(IcrcStatus::RightWithSourcePort(5)), " icrc ok with source port 5");
    assert_eq!(icrc(IcrcStatus::RightWithIpId(5)), " icrc ok with IPv4 identification 0x0005");
    assert_eq!(
        icrc(IcrcStatus::NotChecked(NotChecked::Cut)),
        " icrc not checked: the packet is cut"
    );
    let offloaded = " icrc not checked: segmentation offload made this frame of several packets";
    assert_eq!(icrc(IcrcStatus::NotChecked(NotChecked::Offloaded)), offloaded);
}

/// A MAD is named by its message, or as another one; too few bytes are no MAD.
#[test]
fn a_line_names_the_message_of_connection_management() {
    let of = |class: u8, attribute: u8| {
        let data = frame(1, &management(class, 3, attribute, &counting(232)));
        let (packet, ..) = dissect(&data, LinkType::Ethernet, data.len()).1.expect("a packet");
        let payload = &data[62..62 + 256];
        (
            PacketSummary::new(&packet, payload).to_string(),
            uroce_analyze::cm_message(&packet, payload),
        )
    };
    let names =
        ["REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"];
    for (attribute, name) in (0x10..).zip(names) {
        let (line, message) = of(7, attribute);
        assert_eq!(message, Some(name));
        assert!(line.contains(&format!(" cm {name}")), "{line}");
    }
    let (line, message) = of(4, 0x12);
    assert!(line.contains(" other management datagram") && message.is_none(), "{line}");
}

#[test]
fn what_is_malformed_is_said_with_its_numbers() {
    let words = [
        (Malformed::Fragment, "an IP fragment: RoCE has none, and NICs drop them"),
        (Malformed::TooShort { got: 15, need: 16 }, "15 bytes, but BTH and ICRC take 16"),
        (Malformed::Cut, "cut within the BTH: capture with a larger snap length"),
        (
            Malformed::HeadersDoNotFit { name: "RC_FLUSH", got: 20, need: 36 },
            "RC_FLUSH: 20 bytes, but headers, pad and ICRC take 36",
        ),
    ];
    for (malformed, wanted) in words {
        assert_eq!(malformed.to_string(), wanted);
    }
}

#[test]
fn each_opcode_of_iwarp_has_its_name() {
    let names = [
        "RDMA Write",
        "RDMA Read Request",
        "RDMA Read Response",
        "Send",
        "Send with Invalidate",
        "Send with Solicited Event",
        "Send with Solicited Event and Invalidate",
        "Terminate",
        "Immediate Data",
        "Immediate Data with Solicited Event",
        "Atomic Request",
        "Atomic Response",
    ];
    for (opcode, name) in (0..).zip(names) {
        assert_eq!(Iwarp::Fpdu(opcode).to_string(), format!("iWARP {name}"));
    }
    assert_eq!(Iwarp::Fpdu(12).name(), "RDMAP opcode that is not defined");
    assert_eq!((Iwarp::MpaRequest.name(), Iwarp::MpaReply.name()), ("MPA request", "MPA reply"));
}
