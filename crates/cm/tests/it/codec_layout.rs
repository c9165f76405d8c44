//! The slow twin of the layouts: each field by the place that the specification's tables give it,
//! bit by bit, against the structures of the crate. And: any bytes can be read.

use std::net::IpAddr;

use proptest::prelude::*;
use uroce_cm::message::*;
use uroce_cm::*;
use uroce_wire::Gid;

const HEADER: usize = 24;

fn mad_of(attribute: Attribute, body: &[u8; BODY_LEN]) -> [u8; MAD_LEN] {
    let mut mad = [0; MAD_LEN];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[16..18].copy_from_slice(&attribute.0.to_be_bytes());
    mad[HEADER..].copy_from_slice(body);
    mad
}

fn read(attribute: Attribute, body: &[u8; BODY_LEN]) -> Message {
    Mad::parse(&mad_of(attribute, body)).expect("a MAD").message
}

/// `width` bits, the first of them `bit` bits below the top bit of byte `at`.
fn bits(body: &[u8; BODY_LEN], at: usize, bit: usize, width: usize) -> u128 {
    (at * 8 + bit..at * 8 + bit + width)
        .fold(0, |value, place| value << 1 | u128::from(body[place / 8] >> (7 - place % 8) & 1))
}

/// Byte, bit below its top bit, width, and how to get the field.
type Field<M> = (usize, usize, usize, fn(&M) -> u128);

fn check<M>(body: &[u8; BODY_LEN], message: &M, fields: &[Field<M>]) {
    for (at, bit, width, get) in fields {
        assert_eq!(get(message), bits(body, *at, *bit, *width), "{width} bits at {at}[{bit}]");
    }
}

fn gid(gid: Gid) -> u128 {
    u128::from_be_bytes(*gid.bytes())
}

const REQ: &[Field<Req>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (5, 0, 24, |m| m.vendor_id.into()),
    (8, 0, 64, |m| m.service_id.0.into()),
    (16, 0, 64, |m| m.local_ca_guid.into()),
    (28, 0, 32, |m| m.local_qkey.into()),
    (32, 0, 24, |m| m.local_qpn.get().into()),
    (35, 0, 8, |m| m.responder_resources.into()),
    (36, 0, 24, |m| m.local_eecn.into()),
    (39, 0, 8, |m| m.initiator_depth.into()),
    (40, 0, 24, |m| m.remote_eecn.into()),
    (43, 0, 5, |m| m.remote_response_timeout.into()),
    (43, 5, 2, |m| m.transport.0.into()),
    (43, 7, 1, |m| m.flow_control.into()),
    (44, 0, 24, |m| m.starting_psn.get().into()),
    (47, 0, 5, |m| m.local_response_timeout.into()),
    (47, 5, 3, |m| m.retry_count.into()),
    (48, 0, 16, |m| m.pkey.into()),
    (50, 0, 4, |m| m.path_mtu.into()),
    (50, 4, 1, |m| m.rdc_exists.into()),
    (50, 5, 3, |m| m.rnr_retry_count.into()),
    (51, 0, 4, |m| m.max_cm_retries.into()),
    (51, 4, 1, |m| m.srq.into()),
    (51, 5, 3, |m| m.extended_transport.into()),
    (52, 0, 16, |m| m.primary.local_lid.into()),
    (54, 0, 16, |m| m.primary.remote_lid.into()),
    (56, 0, 128, |m| gid(m.primary.local_gid)),
    (72, 0, 128, |m| gid(m.primary.remote_gid)),
    (88, 0, 20, |m| m.primary.flow_label.into()),
    (91, 2, 6, |m| m.primary.packet_rate.into()),
    (92, 0, 8, |m| m.primary.traffic_class.into()),
    (93, 0, 8, |m| m.primary.hop_limit.into()),
    (94, 0, 4, |m| m.primary.service_level.into()),
    (94, 4, 1, |m| m.primary.subnet_local.into()),
    (95, 0, 5, |m| m.primary.ack_timeout.into()),
    (96, 0, 16, |m| m.alternate.local_lid.into()),
    (98, 0, 16, |m| m.alternate.remote_lid.into()),
    (100, 0, 128, |m| gid(m.alternate.local_gid)),
    (116, 0, 128, |m| gid(m.alternate.remote_gid)),
    (132, 0, 20, |m| m.alternate.flow_label.into()),
    (135, 2, 6, |m| m.alternate.packet_rate.into()),
    (136, 0, 8, |m| m.alternate.traffic_class.into()),
    (137, 0, 8, |m| m.alternate.hop_limit.into()),
    (138, 0, 4, |m| m.alternate.service_level.into()),
    (138, 4, 1, |m| m.alternate.subnet_local.into()),
    (139, 0, 5, |m| m.alternate.ack_timeout.into()),
    (139, 5, 1, |m| m.sap_supported.into()),
    (140, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[91].into()),
];

const REP: &[Field<Rep>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (8, 0, 32, |m| m.local_qkey.into()),
    (12, 0, 24, |m| m.local_qpn.get().into()),
    (15, 0, 8, |m| (m.vendor_id >> 16).into()),
    (16, 0, 24, |m| m.local_eecn.into()),
    (19, 0, 8, |m| (m.vendor_id >> 8 & 0xff).into()),
    (20, 0, 24, |m| m.starting_psn.get().into()),
    (23, 0, 8, |m| (m.vendor_id & 0xff).into()),
    (24, 0, 8, |m| m.responder_resources.into()),
    (25, 0, 8, |m| m.initiator_depth.into()),
    (26, 0, 5, |m| m.target_ack_delay.into()),
    (26, 5, 2, |m| m.failover_accepted.into()),
    (26, 7, 1, |m| m.flow_control.into()),
    (27, 0, 3, |m| m.rnr_retry_count.into()),
    (27, 3, 1, |m| m.srq.into()),
    (28, 0, 64, |m| m.local_ca_guid.into()),
    (36, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[195].into()),
];

const RTU: &[Field<Rtu>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (8, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[223].into()),
];

const DREQ: &[Field<Dreq>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (8, 0, 24, |m| m.remote_qpn.get().into()),
    (12, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[219].into()),
];

const DREP: &[Field<Drep>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (8, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[223].into()),
];

const MRA: &[Field<Mra>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (8, 0, 2, |m| m.message.0.into()),
    (9, 0, 5, |m| m.service_timeout.into()),
    (10, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[221].into()),
];

const REJ: &[Field<Rej>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (8, 0, 2, |m| m.message.0.into()),
    (9, 0, 7, |m| m.info_len.into()),
    (10, 0, 16, |m| m.reason.0.into()),
    (12, 0, 8, |m| m.info[0].into()),
    (83, 0, 8, |m| m.info[71].into()),
    (84, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[147].into()),
];

const SIDR_REQ: &[Field<SidrReq>] = &[
    (0, 0, 32, |m| m.request_id.into()),
    (4, 0, 16, |m| m.pkey.into()),
    (8, 0, 64, |m| m.service_id.0.into()),
    (16, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[215].into()),
];

const SIDR_REP: &[Field<SidrRep>] = &[
    (0, 0, 32, |m| m.request_id.into()),
    (4, 0, 8, |m| m.status.0.into()),
    (5, 0, 8, |m| m.info_len.into()),
    (6, 0, 16, |m| (m.vendor_id >> 8).into()),
    (8, 0, 24, |m| m.qpn.get().into()),
    (11, 0, 8, |m| (m.vendor_id & 0xff).into()),
    (12, 0, 64, |m| m.service_id.0.into()),
    (20, 0, 32, |m| m.qkey.into()),
    (24, 0, 8, |m| m.info[0].into()),
    (95, 0, 8, |m| m.info[71].into()),
    (96, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[135].into()),
];

const LAP: &[Field<Lap>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (12, 0, 24, |m| m.remote_qpn.get().into()),
    (15, 0, 5, |m| m.remote_response_timeout.into()),
    (20, 0, 16, |m| m.alternate.local_lid.into()),
    (22, 0, 16, |m| m.alternate.remote_lid.into()),
    (24, 0, 128, |m| gid(m.alternate.local_gid)),
    (40, 0, 128, |m| gid(m.alternate.remote_gid)),
    (56, 0, 20, |m| m.alternate.flow_label.into()),
    (59, 0, 8, |m| m.alternate.traffic_class.into()),
    (60, 0, 8, |m| m.alternate.hop_limit.into()),
    (61, 2, 6, |m| m.alternate.packet_rate.into()),
    (62, 0, 4, |m| m.alternate.service_level.into()),
    (62, 4, 1, |m| m.alternate.subnet_local.into()),
    (63, 0, 5, |m| m.alternate.ack_timeout.into()),
    (64, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[167].into()),
];

const APR: &[Field<Apr>] = &[
    (0, 0, 32, |m| m.local_comm_id.0.into()),
    (4, 0, 32, |m| m.remote_comm_id.0.into()),
    (8, 0, 8, |m| m.info_len.into()),
    (9, 0, 8, |m| m.status.into()),
    (12, 0, 8, |m| m.info[0].into()),
    (83, 0, 8, |m| m.info[71].into()),
    (84, 0, 8, |m| m.private_data.bytes()[0].into()),
    (231, 0, 8, |m| m.private_data.bytes()[147].into()),
];

fn check_message(body: &[u8; BODY_LEN], message: &Message) {
    match message {
        Message::Req(m) => check(body, m, REQ),
        Message::Mra(m) => check(body, m, MRA),
        Message::Rej(m) => check(body, m, REJ),
        Message::Rep(m) => check(body, m, REP),
        Message::Rtu(m) => check(body, m, RTU),
        Message::Dreq(m) => check(body, m, DREQ),
        Message::Drep(m) => check(body, m, DREP),
        Message::SidrReq(m) => check(body, m, SIDR_REQ),
        Message::SidrRep(m) => check(body, m, SIDR_REP),
        Message::Lap(m) => check(body, m, LAP),
        Message::Apr(m) => check(body, m, APR),
    }
}

const FIRST: u16 = Attribute::REQ.0;
const LAST: u16 = Attribute::APR.0;

fn body() -> impl Strategy<Value = [u8; BODY_LEN]> {
    proptest::collection::vec(any::<u8>(), BODY_LEN)
        .prop_map(|bytes| bytes.try_into().expect("as many as asked for"))
}

proptest! {
    #[test]
    fn every_field_is_where_the_tables_say(attribute in FIRST..=LAST, body in body()) {
        let message = read(Attribute(attribute), &body);
        prop_assert_eq!(message.attribute(), Attribute(attribute));
        check_message(&body, &message);
    }

    /// Arbitrary bytes give arbitrary values of all fields, so this is a round trip of values too.
    #[test]
    fn what_is_written_is_read_again(attribute in FIRST..=LAST, body in body(), tid: u64) {
        let mad = Mad { tid, message: read(Attribute(attribute), &body) };
        let bytes = mad.emit();
        prop_assert_eq!(Mad::parse(&bytes), Ok(mad));
        let written = bytes[HEADER..].try_into().expect("232 bytes");
        check_message(&written, &mad.message);
    }

    /// The options of a vendor are in the attribute modifier of REQ and REP; other messages have none.
    #[test]
    fn options_of_a_vendor_are_in_the_attribute_modifier(body in body(), options: u32) {
        for attribute in FIRST..=LAST {
            let mut bytes = Mad { tid: 1, message: read(Attribute(attribute), &body) }.emit();
            bytes[20..24].copy_from_slice(&options.to_be_bytes());
            let mad = Mad::parse(&bytes).expect("a message");
            let found = match mad.message {
                Message::Req(req) => Some(req.vendor_options),
                Message::Rep(rep) => Some(rep.vendor_options),
                _ => None,
            };
            prop_assert_eq!(found.unwrap_or(options), options);
            let written = if found.is_some() { options } else { 0 };
            prop_assert_eq!(&mad.emit()[20..24], &written.to_be_bytes());
        }
    }

    #[test]
    fn a22_any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let valid = bytes.len() == MAD_LEN && bytes[..6] == [1, 7, 2, 3, 0, 0];
        prop_assert!(valid || Mad::parse(&bytes).is_err());
    }

    #[test]
    fn ip_headers_round_trip(source_port: u16, source: u128, destination: u128, v4: bool) {
        let ip = |bits: u128| if v4 {
            IpAddr::V4((bits as u32).into())
        } else {
            IpAddr::V6(bits.into())
        };
        let header = IpCm { source_port, source: ip(source), destination: ip(destination) };
        prop_assert_eq!(IpCm::read(&header.write()), Ok(header));
    }

    #[test]
    fn any_bytes_are_an_ip_header_or_not(bytes: [u8; 36]) {
        let valid = bytes[0] == 0 && matches!(bytes[1] >> 4, 4 | 6);
        prop_assert_eq!(IpCm::read(&bytes).is_ok(), valid);
    }
}

#[test]
fn c7_a22_b50_what_is_not_on_the_white_list_is_refused() {
    let good = mad_of(Attribute::RTU, &[0; BODY_LEN]);
    assert!(Mad::parse(&good).is_ok());
    for (at, wanted) in [(0, "BaseVersion"), (1, "Class("), (2, "ClassVersion"), (3, "Method")] {
        for value in (0..=255).filter(|value| *value != good[at]) {
            let mut bad = good;
            bad[at] = value;
            let error = Mad::parse(&bad).expect_err("it is not ours");
            assert!(format!("{error:?}").starts_with(wanted), "{error:?}");
        }
    }
    let mut bad = good;
    bad[5] = 1;
    assert_eq!(Mad::parse(&bad), Err(MadError::Status(1)));
    for attribute in (0..=u16::MAX).filter(|id| !(FIRST..=LAST).contains(id)) {
        let bad = mad_of(Attribute(attribute), &[0; BODY_LEN]);
        assert_eq!(Mad::parse(&bad), Err(MadError::Attribute(attribute)));
    }
    assert_eq!(Mad::parse(&good[..255]), Err(MadError::Length(255)));
    assert_eq!(Mad::parse(&[&good[..], &[0]].concat()), Err(MadError::Length(257)));
}

#[test]
fn the_guid_of_a_timeout() {
    let mut body = [0; BODY_LEN];
    body[12..20].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    for (info_len, wanted) in [(7, None), (8, Some(0x0102_0304_0506_0708))] {
        body[9] = info_len << 1;
        let Message::Rej(rej) = read(Attribute::REJ, &body) else { panic!("a REJ") };
        assert_eq!(rej.guid(), wanted);
    }
}
