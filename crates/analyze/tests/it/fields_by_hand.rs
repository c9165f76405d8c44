//! Each field of each header, set by hand in a frame and read back in the form of tshark.

use uroce_analyze::{DissectorConfig, Frame, Layer, LinkType, Timestamp, field_names, fields};

use crate::capture::{captured, covered, ethernet, frame, grh, ipv4, ipv6, management, sealed};

fn layers_of(data: &[u8], link_type: LinkType) -> Vec<Layer> {
    let frame = Frame {
        number: 3,
        interface: 2,
        time: Timestamp::from_nanos(1_000_000_007),
        original_len: data.len() as u32 + 4,
        ..captured(data, link_type)
    };
    fields(&frame, &DissectorConfig::default())
}

/// All values of a field in a frame.
fn values(data: &[u8], link_type: LinkType, name: &str) -> Vec<String> {
    let layers = layers_of(data, link_type);
    layers.iter().flat_map(|layer| layer.values(name)).map(str::to_owned).collect()
}

/// How a value is written.
#[derive(Debug, Clone, Copy)]
enum As {
    /// A decimal number.
    Dec,
    /// A decimal number in units of so many.
    Times(u64),
    /// `0x` and so many digits.
    Hex(usize),
}

/// Name, first bit in the header, width, and form.
type Row = (&'static str, usize, usize, As);

/// Puts ones, zeros and a pattern into each field of a header at byte `at` of `base`, and reads them back.
fn check(base: &[u8], link_type: LinkType, at: usize, rows: &[Row]) {
    for (name, bit, width, form) in rows {
        let ones = u64::MAX >> (64 - width);
        for value in [0, ones, 0x5a5a_5a5a_5a5a_5a5a & ones, 1] {
            let mut data = base.to_vec();
            for place in 0..*width {
                let (at, mask) = (at + (bit + place) / 8, 0x80 >> ((bit + place) % 8));
                data[at] &= !mask;
                data[at] |= if value >> (width - 1 - place) & 1 == 1 { mask } else { 0 };
            }
            let wanted = match form {
                As::Dec => value.to_string(),
                As::Times(unit) => (value * unit).to_string(),
                As::Hex(digits) => format!("{value:#0width$x}", width = digits + 2),
            };
            let found = values(&data, link_type, name);
            assert!(found.contains(&wanted), "{name}: {found:?}, not {wanted}");
        }
    }
}

/// A packet of that opcode on an Ethernet: its BTH begins at byte 42.
fn packet(opcode: u8) -> Vec<u8> {
    frame(7, &covered(opcode, 9, &[0; 64]))
}

const BTH: usize = 42;

#[test]
fn bth_fields() {
    check(
        &packet(0x04),
        LinkType::Ethernet,
        BTH,
        &[
            ("infiniband.bth.se", 8, 1, As::Dec),
            ("infiniband.bth.m", 9, 1, As::Dec),
            ("infiniband.bth.padcnt", 10, 2, As::Dec),
            ("infiniband.bth.tver", 12, 4, As::Dec),
            ("infiniband.bth.p_key", 16, 16, As::Dec),
            ("uroce.bth.fecn", 32, 1, As::Dec),
            ("uroce.bth.becn", 33, 1, As::Dec),
            ("uroce.bth.reserved6", 34, 6, As::Dec),
            ("infiniband.bth.destqp", 40, 24, As::Hex(6)),
            ("infiniband.bth.a", 64, 1, As::Dec),
            ("infiniband.bth.reserved7", 65, 7, As::Dec),
            ("infiniband.bth.psn", 72, 24, As::Dec),
        ],
    );
    for opcode in 0..=255u8 {
        let found = values(&packet(opcode), LinkType::Ethernet, "infiniband.bth.opcode");
        assert_eq!(found, [opcode.to_string()]);
    }
}

#[test]
fn datagram_header_fields() {
    check(
        &packet(0x65),
        LinkType::Ethernet,
        BTH + 12,
        &[
            ("infiniband.deth.q_key", 0, 32, As::Hex(16)),
            ("infiniband.deth.srcqp", 40, 24, As::Hex(8)),
        ],
    );
}

#[test]
fn remote_memory_fields() {
    let reth = [
        ("infiniband.reth.va", 0, 64, As::Hex(16)),
        ("infiniband.reth.r_key", 64, 32, As::Hex(8)),
        ("infiniband.reth.dmalen", 96, 32, As::Dec),
    ];
    check(&packet(0x06), LinkType::Ethernet, BTH + 12, &reth);
    check(&packet(0x0c), LinkType::Ethernet, BTH + 12, &reth);
    check(&packet(0xaa), LinkType::Ethernet, BTH + 16, &reth);
    check(&packet(0x1c), LinkType::Ethernet, BTH + 16, &reth);
    check(
        &packet(0x1c),
        LinkType::Ethernet,
        BTH + 12,
        &[
            ("infiniband.feth.reserved27", 0, 26, As::Dec),
            ("infiniband.feth.sel", 26, 2, As::Dec),
            ("infiniband.feth.plt", 28, 4, As::Dec),
        ],
    );
}

#[test]
fn atomic_fields() {
    let atomic = [
        ("infiniband.reth.va", 0, 64, As::Hex(16)),
        ("infiniband.reth.r_key", 64, 32, As::Hex(8)),
        ("infiniband.atomiceth.swapdt", 96, 64, As::Dec),
        ("infiniband.atomiceth.cmpdt", 160, 64, As::Dec),
    ];
    check(&packet(0x13), LinkType::Ethernet, BTH + 12, &atomic);
    check(&packet(0xb4), LinkType::Ethernet, BTH + 16, &atomic);
    let answer = [("infiniband.atomicacketh.origremdt", 32, 64, As::Dec)];
    check(&packet(0x12), LinkType::Ethernet, BTH + 12, &answer);
}

#[test]
fn other_extension_header_fields() {
    check(&packet(0xa0), LinkType::Ethernet, BTH + 12, &[("uroce.xrceth.srqn", 8, 24, As::Hex(6))]);
    check(
        &packet(0x41),
        LinkType::Ethernet,
        BTH + 12,
        &[("infiniband.rdeth.eecnxt", 8, 24, As::Dec)],
    );
    let aeth =
        [("infiniband.aeth.syndrome", 0, 8, As::Dec), ("infiniband.aeth.msn", 8, 24, As::Dec)];
    check(&packet(0x11), LinkType::Ethernet, BTH + 12, &aeth);
    check(&packet(0x0d), LinkType::Ethernet, BTH + 12, &aeth);
    let mut with_imm = packet(0x03);
    with_imm[54..58].copy_from_slice(&[1, 0xa2, 3, 4]);
    assert_eq!(values(&with_imm, LinkType::Ethernet, "infiniband.immdt"), ["01a20304"]);
    let mut with_key = packet(0x17);
    with_key[54..58].copy_from_slice(&[1, 0xa2, 3, 4]);
    assert_eq!(values(&with_key, LinkType::Ethernet, "infiniband.ieth"), ["01a20304"]);
}

#[test]
fn ethernet_and_vlan_fields() {
    let data = ethernet(0x0800, Some(77), &ipv4(1, &covered(0x11, 5, &[0x1f, 0, 0, 3])));
    check(
        &data,
        LinkType::Ethernet,
        14,
        &[
            ("vlan.priority", 0, 3, As::Dec),
            ("vlan.dei", 3, 1, As::Dec),
            ("vlan.id", 4, 12, As::Dec),
        ],
    );
    let of = |name| values(&data, LinkType::Ethernet, name);
    assert_eq!(of("eth.src"), ["02:00:0a:00:00:01"]);
    assert_eq!(of("eth.dst"), ["02:00:0a:00:00:02"]);
    assert_eq!((of("eth.type"), of("vlan.etype")), (vec!["0x8100".into()], vec!["0x0800".into()]));
}

#[test]
fn ipv4_and_udp_fields() {
    let data = ipv4(1, &covered(0x11, 5, &[0x1f, 0, 0, 3]));
    check(
        &data,
        LinkType::RawIp,
        0,
        &[
            ("ip.dsfield", 8, 8, As::Hex(2)),
            ("ip.dsfield.dscp", 8, 6, As::Dec),
            ("ip.dsfield.ecn", 14, 2, As::Dec),
            ("ip.len", 16, 16, As::Dec),
            ("ip.id", 32, 16, As::Hex(4)),
            ("ip.flags.rb", 48, 1, As::Dec),
            ("ip.flags.df", 49, 1, As::Dec),
            ("ip.flags.mf", 50, 1, As::Dec),
            ("ip.frag_offset", 51, 13, As::Times(8)),
            ("ip.ttl", 64, 8, As::Dec),
            ("ip.proto", 72, 8, As::Dec),
            ("ip.checksum", 80, 16, As::Hex(4)),
        ],
    );
    check(
        &data,
        LinkType::RawIp,
        20,
        &[
            ("udp.srcport", 0, 16, As::Dec),
            ("udp.dstport", 16, 16, As::Dec),
            ("udp.length", 32, 16, As::Dec),
            ("udp.checksum", 48, 16, As::Hex(4)),
        ],
    );
    let of = |name| values(&data, LinkType::RawIp, name);
    assert_eq!((of("ip.src"), of("ip.dst")), (vec!["10.0.0.1".into()], vec!["10.0.0.2".into()]));
    assert_eq!((of("ip.version"), of("ip.hdr_len")), (vec!["4".into()], vec!["20".into()]));
}

#[test]
fn ipv6_fields() {
    let data = ipv6(&covered(0x11, 5, &[0x1f, 0, 0, 3]));
    check(
        &data,
        LinkType::RawIp,
        0,
        &[
            ("ipv6.tclass", 4, 8, As::Hex(8)),
            ("ipv6.tclass.dscp", 4, 6, As::Dec),
            ("ipv6.tclass.ecn", 10, 2, As::Dec),
            ("ipv6.flow", 12, 20, As::Hex(6)),
            ("ipv6.plen", 32, 16, As::Dec),
            ("ipv6.nxt", 48, 8, As::Dec),
            ("ipv6.hlim", 56, 8, As::Dec),
        ],
    );
    let of = |name| values(&data, LinkType::RawIp, name);
    assert_eq!((of("ipv6.src"), of("ipv6.dst")), (vec!["fe80::1".into()], vec!["fe80::2".into()]));
}

#[test]
fn grh_and_lrh_fields() {
    let body = covered(0x11, 5, &[0x1f, 0, 0, 3]);
    let global = sealed(&grh(body.len()), false, &body);
    let grh_rows = [
        ("infiniband.grh.tclass", 4, 8, As::Dec),
        ("infiniband.grh.flowlabel", 12, 20, As::Dec),
        ("infiniband.grh.paylen", 32, 16, As::Dec),
        ("infiniband.grh.nxthdr", 48, 8, As::Dec),
        ("infiniband.grh.hoplmt", 56, 8, As::Dec),
    ];
    check(&ethernet(0x8915, None, &global), LinkType::Ethernet, 14, &grh_rows);
    let infiniband = [&[0, 3, 0, 9, 0, 17, 0, 8][..], &global].concat();
    check(&infiniband, LinkType::Infiniband, 8, &grh_rows);
    check(
        &infiniband,
        LinkType::Infiniband,
        0,
        &[
            ("infiniband.lrh.vl", 0, 4, As::Hex(2)),
            ("infiniband.lrh.lver", 4, 4, As::Dec),
            ("infiniband.lrh.sl", 8, 4, As::Dec),
            ("infiniband.lrh.reserved2", 12, 2, As::Dec),
            ("infiniband.lrh.lnh", 14, 2, As::Hex(2)),
            ("infiniband.lrh.dlid", 16, 16, As::Dec),
            ("infiniband.lrh.reserved5", 32, 5, As::Dec),
            ("infiniband.lrh.pktlen", 37, 11, As::Dec),
            ("infiniband.lrh.slid", 48, 16, As::Dec),
        ],
    );
}

#[test]
fn cooked_capture_fields() {
    let ip = ipv4(1, &covered(0x11, 5, &[0x1f, 0, 0, 3]));
    let old = [&[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], &ip].concat();
    check(
        &old,
        LinkType::LinuxSll,
        0,
        &[
            ("sll.pkttype", 0, 16, As::Dec),
            ("sll.hatype", 16, 16, As::Dec),
            ("sll.halen", 32, 16, As::Dec),
            ("sll.etype", 112, 16, As::Hex(4)),
        ],
    );
    let new = [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ip].concat();
    check(
        &new,
        LinkType::LinuxSll2,
        0,
        &[
            ("sll.etype", 0, 16, As::Hex(4)),
            ("sll.ifindex", 32, 32, As::Dec),
            ("sll.hatype", 64, 16, As::Dec),
            ("sll.pkttype", 80, 8, As::Dec),
            ("sll.halen", 88, 8, As::Dec),
        ],
    );
}

/// The header of a MAD begins behind BTH and DETH.
const MAD: usize = BTH + 20;
/// The body of a message of connection management behind that.
const BODY: usize = MAD + 24;

#[test]
fn management_header_fields() {
    let data = frame(1, &management(4, 1, 0x30, &[0; 232]));
    check(
        &data,
        LinkType::Ethernet,
        MAD,
        &[
            ("infiniband.mad.baseversion", 0, 8, As::Hex(2)),
            ("infiniband.mad.mgmtclass", 8, 8, As::Hex(2)),
            ("infiniband.mad.classversion", 16, 8, As::Hex(2)),
            ("infiniband.mad.method", 24, 8, As::Hex(2)),
            ("infiniband.mad.status", 32, 16, As::Hex(4)),
            ("infiniband.mad.classspecific", 48, 16, As::Hex(4)),
            ("infiniband.mad.transactionid", 64, 64, As::Hex(16)),
            ("infiniband.mad.attributeid", 128, 16, As::Hex(4)),
            ("infiniband.mad.attributemodifier", 160, 32, As::Hex(8)),
        ],
    );
}

#[test]
fn req_fields() {
    let data = frame(1, &management(7, 3, 0x10, &[0; 232]));
    check(
        &data,
        LinkType::Ethernet,
        BODY,
        &[
            ("infiniband.cm.req", 0, 32, As::Hex(8)),
            ("infiniband.cm.req.serviceid", 64, 64, As::Hex(16)),
            ("infiniband.cm.req.localcaguid", 128, 64, As::Hex(16)),
            ("infiniband.cm.req.localqkey", 224, 32, As::Hex(8)),
            ("infiniband.cm.req.localqpn", 256, 24, As::Hex(6)),
            ("infiniband.cm.req.responderres", 280, 8, As::Hex(2)),
            ("infiniband.cm.req.initdepth", 312, 8, As::Hex(2)),
            ("infiniband.cm.req.remoteresptout", 344, 5, As::Hex(2)),
            ("infiniband.cm.req.transpsvctype", 349, 2, As::Hex(2)),
            ("infiniband.cm.req.e2eflowctrl", 351, 1, As::Hex(2)),
            ("infiniband.cm.req.startpsn", 352, 24, As::Hex(6)),
            ("infiniband.cm.req.localresptout", 376, 5, As::Hex(2)),
            ("infiniband.cm.req.retrcount", 381, 3, As::Hex(2)),
            ("infiniband.cm.req.pkey", 384, 16, As::Hex(4)),
            ("infiniband.cm.req.pppmtu", 400, 4, As::Hex(2)),
            ("infiniband.cm.req.rnrretrcount", 405, 3, As::Hex(2)),
            ("infiniband.cm.req.maxcmretr", 408, 4, As::Hex(2)),
            ("infiniband.cm.req.srq", 412, 1, As::Hex(2)),
            ("infiniband.cm.req.prim_locallid", 416, 16, As::Dec),
            ("infiniband.cm.req.prim_remotelid", 432, 16, As::Dec),
            ("infiniband.cm.req.prim_flowlabel", 704, 20, As::Hex(5)),
            ("infiniband.cm.req.prim_pktrate", 730, 6, As::Hex(2)),
            ("infiniband.cm.req.prim_tfcclass", 736, 8, As::Hex(2)),
            ("infiniband.cm.req.prim_hoplim", 744, 8, As::Hex(2)),
            ("infiniband.cm.req.prim_sl", 752, 4, As::Hex(2)),
            ("infiniband.cm.req.prim_subnetlocal", 756, 1, As::Hex(2)),
            ("infiniband.cm.req.prim_localacktout", 760, 5, As::Hex(2)),
            ("infiniband.cm.req.alt_locallid", 768, 16, As::Dec),
        ],
    );
}

#[test]
fn rep_and_other_message_fields() {
    let message = |attribute| frame(1, &management(7, 3, attribute, &[0; 232]));
    check(
        &message(0x13),
        LinkType::Ethernet,
        BODY,
        &[
            ("infiniband.cm.rep", 0, 32, As::Hex(8)),
            ("infiniband.cm.rep.remotecommid", 32, 32, As::Hex(8)),
            ("infiniband.cm.rep.localqkey", 64, 32, As::Hex(8)),
            ("infiniband.cm.rep.localqpn", 96, 24, As::Hex(6)),
            ("infiniband.cm.rep.startpsn", 160, 24, As::Hex(6)),
            ("infiniband.cm.rep.respres", 192, 8, As::Hex(2)),
            ("infiniband.cm.rep.initdepth", 200, 8, As::Hex(2)),
            ("infiniband.cm.rep.tgtackdelay", 208, 5, As::Hex(2)),
            ("infiniband.cm.rep.failoveracc", 213, 2, As::Hex(2)),
            ("infiniband.cm.rep.e2eflowctrl", 215, 1, As::Hex(2)),
            ("infiniband.cm.rep.rnrretrcount", 216, 3, As::Hex(2)),
            ("infiniband.cm.rep.srq", 219, 1, As::Hex(2)),
            ("infiniband.cm.rep.localcaguid", 224, 64, As::Hex(16)),
        ],
    );
    check(
        &message(0x12),
        LinkType::Ethernet,
        BODY,
        &[
            ("infiniband.cm.rej.localcommid", 0, 32, As::Hex(8)),
            ("infiniband.cm.rej.remotecommid", 32, 32, As::Hex(8)),
            ("infiniband.cm.rej.msgrej", 64, 2, As::Hex(2)),
            ("infiniband.cm.rej.rejinfolen", 72, 7, As::Hex(2)),
            ("infiniband.cm.rej.reason", 80, 16, As::Hex(4)),
        ],
    );
    check(
        &message(0x15),
        LinkType::Ethernet,
        BODY,
        &[
            ("infiniband.cm.dreq.localcommid", 0, 32, As::Hex(8)),
            ("infiniband.cm.dreq.remotecommid", 32, 32, As::Hex(8)),
            ("infiniband.cm.req.remoteqpneecn", 64, 24, As::Hex(6)),
        ],
    );
    check(
        &message(0x14),
        LinkType::Ethernet,
        BODY,
        &[("infiniband.cm.rtu.localcommid", 0, 32, As::Hex(8))],
    );
    check(
        &message(0x16),
        LinkType::Ethernet,
        BODY,
        &[("infiniband.cm.drsp.remotecommid", 32, 32, As::Hex(8))],
    );
}

/// What numbers mean is said behind them.
#[test]
fn numbers_have_words_where_there_are_some() {
    let text = |data: &[u8], name: &str| {
        let layers = layers_of(data, LinkType::Ethernet);
        let mut found = String::new();
        for layer in &layers {
            layer.visit(&mut |field| {
                if field.name == name {
                    field.text.clone_into(&mut found);
                }
            });
        }
        found
    };
    let with = |opcode, at: usize, byte: u8| {
        let mut data = packet(opcode);
        data[BTH + at] = byte;
        data
    };
    let syndrome = |byte| text(&with(0x11, 12, byte), "infiniband.aeth.syndrome");
    assert_eq!(syndrome(0x1f), "Syndrome: 31 (ACK)");
    assert_eq!(syndrome(0x2c), "Syndrome: 44 (RNR NAK, wait 640 us)");
    assert_eq!(syndrome(0x62), "Syndrome: 98 (NAK, remote access error)");
    assert_eq!(syndrome(0x7f), "Syndrome: 127 (NAK with a reserved code, 31)");
    assert_eq!(syndrome(0x80), "Syndrome: 128 (reserved)");
    let credits = |byte| text(&with(0x11, 12, byte), "infiniband.aeth.syndrome.credit_count");
    assert_eq!(
        (credits(0x1f), credits(0x05)),
        ("Credit code: 31 (no limit)".into(), "Credit code: 5 (6)".into())
    );
    let opcode = text(&packet(0x0b), "infiniband.bth.opcode");
    assert_eq!(opcode, "Opcode: 11 (RC_WRITE_ONLY_IMM)");
    let mut to_gsi = packet(0x64);
    to_gsi[BTH + 7] = 1;
    assert_eq!(
        text(&to_gsi, "infiniband.bth.destqp"),
        "Destination queue pair: 0x000001 (general services)"
    );
    assert_eq!(
        text(&with(0x1c, 15, 0x12), "infiniband.feth.plt"),
        "Placement type: 2 (persistence)"
    );
    assert_eq!(text(&with(0x1c, 15, 0x12), "infiniband.feth.sel"), "Selectivity: 1 (whole region)");
    assert_eq!(text(&packet(4), "ip.dsfield.ecn"), "ECN: 2 (ECT(0))");
    assert_eq!(text(&packet(4), "eth.type"), "Type: 0x0800 (IPv4)");
}

#[test]
fn the_frame_itself_has_number_interface_time_and_lengths() {
    let data = packet(4);
    let of = |name| values(&data, LinkType::Ethernet, name).remove(0);
    assert_eq!((of("frame.number"), of("frame.interface_id")), ("3".into(), "2".into()));
    assert_eq!(of("frame.time_epoch"), "1.000000007");
    assert_eq!(of("frame.cap_len"), data.len().to_string());
    assert_eq!(of("frame.len"), (data.len() + 4).to_string());
    assert!(values(&data, LinkType::Ethernet, "frame.comment").is_empty());
}

/// Names are sorted and unique, and every field that a frame can give is among them.
#[test]
fn the_list_of_names_is_a_list_of_all() {
    let names = field_names();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    for opcode in 0..=255u8 {
        for layer in layers_of(&packet(opcode), LinkType::Ethernet) {
            layer.visit(&mut |field| {
                assert!(names.binary_search(&field.name).is_ok(), "{}", field.name)
            });
        }
    }
}

/// A field within another one lies in its bytes, and those of one header do not overlap.
#[test]
fn fields_lie_one_behind_the_other() {
    for opcode in [0x04, 0x0b, 0x11, 0x13, 0x1c, 0x65, 0xab, 0xb2, 0x81] {
        for layer in layers_of(&packet(opcode), LinkType::Ethernet) {
            for field in layer.fields.iter().filter(|field| !field.range.is_empty()) {
                assert!(
                    layer.range.start <= field.range.start && field.range.end <= layer.range.end
                );
                for child in field.children.iter().filter(|child| !child.range.is_empty()) {
                    let inside = field.range.start <= child.range.start
                        && child.range.end <= field.range.end;
                    assert!(inside, "{} in {}", child.name, field.name);
                }
                let starts: Vec<_> = field.children.iter().map(|child| child.range.start).collect();
                assert!(starts.is_sorted(), "{}", field.name);
            }
        }
    }
}
