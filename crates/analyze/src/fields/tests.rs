use uroce_cm::message::{Dreq, Lap, Mra, Rej, SidrRep};
use uroce_cm::{Mad, Message};

use super::*;
use crate::{Direction, LinkType, Timestamp};

fn frame(data: &[u8], link_type: LinkType) -> Frame<'_> {
    Frame {
        number: 3,
        interface: 0,
        time: Timestamp::from_nanos(1_500_000_007),
        link_type,
        direction: Some(Direction::Inbound),
        original_len: data.len() as u32,
        data,
        comment: "a \u{1b}[2J comment",
    }
}

fn value(layers: &[Layer], name: &str) -> Option<String> {
    layers.iter().flat_map(|layer| layer.values(name)).next().map(str::to_owned)
}

/// IPv4 and UDP in front of `transport`, on a raw link.
fn packet(transport: &[u8]) -> Vec<u8> {
    let total = (28 + transport.len()) as u16;
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes.extend([0xc0, 0, 0x12, 0xb7]);
    bytes.extend((total - 20).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(transport);
    bytes
}

fn acknowledge(syndrome: u8) -> Vec<u8> {
    packet(&[0x11, 0x40, 0xff, 0xff, 0xc5, 0, 0, 7, 0, 0, 0, 9, syndrome, 0, 0, 2, 1, 2, 3, 4])
}

fn mad(body: &[u8; 256]) -> Vec<u8> {
    let head = [0x64, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 9, 0x80, 1, 0, 0, 0, 0, 0, 1];
    packet(&[&head[..], body, &[0; 4]].concat())
}

#[test]
fn the_frame_tells_time_and_a_comment_that_is_safe_to_print() {
    let data = acknowledge(0x1f);
    let layers = fields(&frame(&data, LinkType::RawIp), &DissectorConfig::default());
    assert_eq!(value(&layers, "frame.time_epoch").as_deref(), Some("1.500000007"));
    assert_eq!(value(&layers, "frame.comment").as_deref(), Some("a \u{fffd}[2J comment"));
    let names: Vec<_> = layers.iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["frame", "ip", "udp", "infiniband"]);
}

#[test]
fn all_names_are_listed() {
    let data = acknowledge(0x61);
    let names = field_names();
    for layer in fields(&frame(&data, LinkType::RawIp), &DissectorConfig::default()) {
        layer.visit(&mut |field| assert!(names.contains(&field.name), "{}", field.name));
    }
    assert!(names.contains(&"infiniband.cm.req.prim_flowlabel") && names.len() > 200);
}

#[test]
fn congestion_marks_have_names_of_our_own() {
    let data = acknowledge(0x1f);
    let layers = fields(&frame(&data, LinkType::RawIp), &DissectorConfig::default());
    let marks = ["uroce.bth.fecn", "uroce.bth.becn", "uroce.bth.reserved6"];
    assert_eq!(marks.map(|name| value(&layers, name).unwrap()), ["1", "1", "5"]);
}

#[test]
fn an_aeth_says_what_its_syndrome_means() {
    let of = |syndrome, name| {
        let data = acknowledge(syndrome);
        value(&fields(&frame(&data, LinkType::RawIp), &DissectorConfig::default()), name)
    };
    assert_eq!(of(0x1f, "infiniband.aeth.syndrome.credit_count").as_deref(), Some("31"));
    assert_eq!(of(0x2c, "infiniband.aeth.syndrome.timer").as_deref(), Some("12"));
    assert_eq!(of(0x61, "infiniband.aeth.syndrome.error_code").as_deref(), Some("1"));
    assert_eq!(of(0x41, "infiniband.aeth.syndrome.reserved_value").as_deref(), Some("1"));
    assert_eq!(of(0x61, "infiniband.aeth.syndrome.timer"), None);
}

#[test]
fn a_wrong_icrc_comes_with_what_would_be_right() {
    let data = acknowledge(0x1f);
    let layers = fields(&frame(&data, LinkType::RawIp), &DissectorConfig::default());
    assert_eq!(value(&layers, "infiniband.invariant.crc").as_deref(), Some("0x01020304"));
    let status = value(&layers, "uroce.icrc.status").expect("a verdict");
    let expected = value(&layers, "uroce.icrc.expected").expect("a wrong ICRC");
    assert_eq!(status, format!("wrong: 0x01020304, expected {expected}"));
}

/// The tables of the messages are held against the codec of connection management.
#[test]
fn messages_are_read_as_the_codec_reads_them() {
    for attribute in 0x10..=0x1a {
        let mut bytes: [u8; 256] = std::array::from_fn(|at| (at as u8).wrapping_mul(37));
        bytes[..24].fill(0);
        (bytes[0], bytes[1], bytes[2], bytes[3], bytes[17]) = (1, 7, 2, 3, attribute);
        let parsed = Mad::parse(&bytes).expect("a message").message;
        let data = mad(&bytes);
        let layers = fields(&frame(&data, LinkType::RawIp), &DissectorConfig::default());
        for (name, expected) in expectations(&parsed) {
            assert_eq!(value(&layers, name), Some(expected), "{name}");
        }
    }
}

/// A field of each part of a message.
fn expectations(message: &Message) -> Vec<(&'static str, String)> {
    match message {
        Message::Req(req) => vec![
            ("infiniband.cm.req", format!("{:#010x}", req.local_comm_id.0)),
            ("infiniband.cm.req.localqpn", format!("{:#08x}", req.local_qpn.get())),
            ("infiniband.cm.req.startpsn", format!("{:#08x}", req.starting_psn.get())),
            ("infiniband.cm.req.retrcount", format!("{:#04x}", req.retry_count)),
            ("infiniband.cm.req.pppmtu", format!("{:#04x}", req.path_mtu)),
            ("infiniband.cm.req.maxcmretr", format!("{:#04x}", req.max_cm_retries)),
            ("infiniband.cm.req.prim_flowlabel", format!("{:#07x}", req.primary.flow_label)),
            ("infiniband.cm.req.prim_pktrate", format!("{:#04x}", req.primary.packet_rate)),
            ("infiniband.cm.req.alt_remotegid", req.alternate.remote_gid.to_string()),
            ("infiniband.cm.req.alt_localacktout", format!("{:#04x}", req.alternate.ack_timeout)),
        ],
        Message::Rep(rep) => vec![
            ("infiniband.cm.rep.localqpn", format!("{:#08x}", rep.local_qpn.get())),
            ("infiniband.cm.rep.rnrretrcount", format!("{:#04x}", rep.rnr_retry_count)),
            ("infiniband.cm.rep.localcaguid", format!("{:#018x}", rep.local_ca_guid)),
        ],
        Message::Mra(Mra { service_timeout, message, .. }) => vec![
            ("uroce.cm.mra.svctimeout", format!("{service_timeout:#04x}")),
            ("uroce.cm.mra.msg", format!("{:#04x}", message.0)),
        ],
        Message::Rej(Rej { reason, info_len, .. }) => vec![
            ("infiniband.cm.rej.reason", format!("{:#06x}", reason.0)),
            ("infiniband.cm.rej.rejinfolen", format!("{info_len:#04x}")),
        ],
        Message::Dreq(Dreq { remote_qpn, .. }) => {
            vec![("infiniband.cm.req.remoteqpneecn", format!("{:#08x}", remote_qpn.get()))]
        }
        Message::SidrRep(SidrRep { qpn, qkey, service_id, .. }) => vec![
            ("uroce.cm.sidr_rep.qpn", format!("{:#08x}", qpn.get())),
            ("uroce.cm.sidr_rep.qkey", format!("{qkey:#010x}")),
            ("uroce.cm.sidr_rep.serviceid", format!("{:#018x}", service_id.0)),
        ],
        Message::SidrReq(req) => {
            vec![("uroce.cm.sidr_req.serviceid", format!("{:#018x}", req.service_id.0))]
        }
        Message::Lap(Lap { remote_qpn, alternate, .. }) => vec![
            ("uroce.cm.lap.remoteqpn", format!("{:#08x}", remote_qpn.get())),
            ("uroce.cm.lap.alt_remotegid", alternate.remote_gid.to_string()),
            ("uroce.cm.lap.alt_tfcclass", format!("{:#04x}", alternate.traffic_class)),
            ("uroce.cm.lap.alt_hoplim", format!("{:#04x}", alternate.hop_limit)),
            ("uroce.cm.lap.alt_pktrate", format!("{:#04x}", alternate.packet_rate)),
            ("uroce.cm.lap.alt_localacktout", format!("{:#04x}", alternate.ack_timeout)),
        ],
        Message::Apr(apr) => vec![("uroce.cm.apr.status", format!("{:#04x}", apr.status))],
        Message::Rtu(rtu) => {
            vec![("infiniband.cm.rtu.remotecommid", format!("{:#010x}", rtu.remote_comm_id.0))]
        }
        Message::Drep(drep) => {
            vec![("infiniband.cm.drsp.localcommid", format!("{:#010x}", drep.local_comm_id.0))]
        }
    }
}

#[test]
fn every_range_lies_in_the_frame_wherever_it_is_cut() {
    let data = mad(&std::array::from_fn(|at| at as u8));
    for length in 0..data.len() {
        let cut =
            Frame { original_len: data.len() as u32, ..frame(&data[..length], LinkType::RawIp) };
        for layer in fields(&cut, &DissectorConfig::default()) {
            assert!(layer.range.end <= length && layer.range.start <= layer.range.end);
            layer.visit(&mut |field| assert!(field.range.end <= length, "{}", field.name));
        }
    }
}
