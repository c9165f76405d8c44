//! What the management agents of QP 1 answer, byte by byte.

use std::time::Duration;

use proptest::prelude::*;
use uroce_cm::{AgentRequest, CmLimits, Mad, MadError, PortCounters, addressee};
use uroce_wire::DropReason;

use crate::world::*;

const GET: u8 = 1;
const SET: u8 = 2;
const PM: [u8; 2] = [4, 1];
const CM: [u8; 2] = [7, 2];
const TID: [u8; 8] = [0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8];
const MODIFIER: [u8; 4] = [0xa1, 0xa2, 0xa3, 0xa4];

const COUNTERS: PortCounters = PortCounters {
    link_downed: 0x21,
    rcv_errors: 0x3132,
    xmit_discards: 0x4142,
    xmit_bytes: 4 * 0x5152_5354 + 3,
    rcv_bytes: 4 * 0x6162_6364 + 1,
    xmit_pkts: 0x7172_7374,
    rcv_pkts: 0x8182_8384,
};
const MANY: PortCounters = PortCounters {
    link_downed: 0x100,
    rcv_errors: 0x1_0000,
    xmit_discards: u64::MAX,
    xmit_bytes: 4 * 0x11_1213_1415_1617,
    rcv_bytes: 4 * 0x21_2223_2425_2627,
    xmit_pkts: 0x3132_3334_3536_3738,
    rcv_pkts: 0x4142_4344_4546_4748,
};

fn request(class: [u8; 2], method: u8, attribute: u16, port: u8) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, class[0], class[1], method]);
    mad[8..16].copy_from_slice(&TID);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[20..24].copy_from_slice(&MODIFIER);
    // What a requester leaves in the fields that a Get does not look at is not sent back.
    mad[24..].fill(0xee);
    mad[65] = port;
    mad
}

fn answer(mad: &[u8; 256], counters: &PortCounters) -> [u8; 256] {
    AgentRequest::parse(mad).expect("a request").respond(counters)
}

/// The response's bytes: header, then `fields` at their places, all others 0.
fn response(class: [u8; 2], status: u16, attribute: u16, fields: &[(usize, &[u8])]) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, class[0], class[1], 0x81]);
    mad[4..6].copy_from_slice(&status.to_be_bytes());
    mad[8..16].copy_from_slice(&TID);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[20..24].copy_from_slice(&MODIFIER);
    for (at, bytes) in fields {
        mad[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    mad
}

#[test]
fn c60_class_port_info_of_both_classes() {
    // Performance management: behind 40 reserved bytes; AllPortSelect, extended counters without IETF's.
    let info: &[(usize, &[u8])] = &[(64, &[1, 1, 0x05, 0x00, 0, 0, 0, 18])];
    assert_eq!(answer(&request(PM, GET, 1, 0), &COUNTERS), response(PM, 0, 1, info));
    // Connection management: behind the header; RC, UC, SIDR.
    let info: &[(usize, &[u8])] = &[(24, &[1, 2, 0x32, 0x00, 0, 0, 0, 18])];
    assert_eq!(answer(&request(CM, GET, 1, 0), &COUNTERS), response(CM, 0, 1, info));
}

#[test]
fn c61_port_counters() {
    for port in [1, 255] {
        let fields: &[(usize, &[u8])] = &[
            (65, &[port]),
            (71, &[0x21]),
            (72, &[0x31, 0x32]),
            (78, &[0x41, 0x42]),
            (88, &[0x51, 0x52, 0x53, 0x54]),
            (92, &[0x61, 0x62, 0x63, 0x64]),
            (96, &[0x71, 0x72, 0x73, 0x74]),
            (100, &[0x81, 0x82, 0x83, 0x84]),
        ];
        let got = answer(&request(PM, GET, 0x12, port), &COUNTERS);
        assert_eq!(got, response(PM, 0, 0x12, fields));
    }
}

#[test]
fn c61_port_counters_stop_at_their_largest_value() {
    let fields: &[(usize, &[u8])] =
        &[(65, &[1]), (71, &[0xff]), (72, &[0xff; 2]), (78, &[0xff; 2]), (88, &[0xff; 16])];
    assert_eq!(answer(&request(PM, GET, 0x12, 1), &MANY), response(PM, 0, 0x12, fields));
}

#[test]
fn c62_port_counters_extended() {
    for port in [1, 255] {
        let fields: &[(usize, &[u8])] = &[
            (65, &[port]),
            (72, &[0x00, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17]),
            (80, &[0x00, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27]),
            (88, &[0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38]),
            (96, &[0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48]),
        ];
        let got = answer(&request(PM, GET, 0x1d, port), &MANY);
        assert_eq!(got, response(PM, 0, 0x1d, fields));
    }
}

#[test]
fn c63_what_an_agent_does_not_have_is_answered_with_the_status() {
    let refused = |class, version, method, attribute, port, status| {
        let got = answer(&request([class, version], method, attribute, port), &COUNTERS);
        let own = if class == 4 { PM } else { CM };
        assert_eq!(got, response(own, status, attribute, &[]), "{class} {method} {attribute:#x}");
    };
    // Method with attribute.
    for attribute in [0x01, 0x12, 0x1d] {
        refused(4, 1, SET, attribute, 1, 0x0c);
    }
    refused(7, 2, SET, 0x01, 0, 0x0c);
    for attribute in [0x00, 0x02, 0x10, 0x11, 0x13, 0x1e, 0xffff] {
        refused(4, 1, GET, attribute, 1, 0x0c);
        refused(4, 1, SET, attribute, 1, 0x0c);
        refused(7, 2, GET, attribute, 0, 0x0c);
    }
    // Connection management has no counters.
    refused(7, 2, GET, 0x12, 1, 0x0c);
    // Port.
    for port in [0, 2, 254] {
        refused(4, 1, GET, 0x12, port, 0x1c);
        refused(4, 1, GET, 0x1d, port, 0x1c);
    }
    // Class version.
    refused(4, 2, GET, 0x12, 1, 0x04);
    refused(7, 1, GET, 0x01, 0, 0x04);
}

#[test]
fn c64_only_a_get_or_set_of_the_two_classes_is_a_request() {
    let bytes = request(PM, GET, 0x12, 1);
    assert_eq!(AgentRequest::parse(&bytes[..255]), None);
    assert_eq!(AgentRequest::parse(&[&bytes[..], &[0]].concat()), None);
    let changed = |at: usize, value: u8| {
        let mut mad = bytes;
        mad[at] = value;
        mad
    };
    // Base version; classes: subnet management, administration, vendor; Send, Trap, Report, responses; status.
    let others = [(0, 2), (1, 1), (1, 3), (1, 0x81), (1, 0x30), (3, 0), (3, 3), (3, 5), (3, 6)];
    for (at, value) in others.into_iter().chain([(3, 0x81), (3, 0x82), (4, 1), (5, 4)]) {
        let mad = changed(at, value);
        assert_eq!(AgentRequest::parse(&mad), None, "byte {at} = {value:#x}");
        let error = Mad::parse(&mad).expect_err("no message either");
        assert_eq!(error.drop_reason(), DropReason::MadHeader);
    }
    assert_eq!(addressee(&bytes), None, "whoever gets it answers for itself");
    let send = request(CM, 3, 1, 0);
    assert_eq!(AgentRequest::parse(&send), None);
    assert_eq!(Mad::parse(&send), Err(MadError::Attribute(1)));
}

#[test]
fn c64_a26_responses_share_the_budget_of_answers_to_strangers() {
    let limits = CmLimits { strays_per_source: 3, strays_per_second: 4, ..CmLimits::default() };
    let mut world = World::with_limits(limits);
    let mut allowed = |now, source| (0..10).filter(|_| world.b.cm.may_answer(now, source)).count();
    assert_eq!((allowed(Duration::ZERO, A), allowed(Duration::ZERO, C)), (3, 1));
    assert_eq!(allowed(Duration::from_secs(1), A), 3);
}

proptest! {
    #[test]
    fn a22_any_request_draws_one_response_of_its_length(
        mut bytes in proptest::collection::vec(any::<u8>(), 256),
        class in prop::sample::select(vec![4u8, 7]),
        method in 1u8..=2,
    ) {
        (bytes[0], bytes[1], bytes[3]) = (1, class, method);
        bytes[4..6].fill(0);
        let request = AgentRequest::parse(&bytes).expect("a request");
        let response = request.respond(&COUNTERS);
        prop_assert_eq!(response.len(), bytes.len());
        prop_assert_eq!(&response[8..18], &bytes[8..18]);
        prop_assert_eq!(AgentRequest::parse(&response), None);
        prop_assert!(Mad::parse(&response).is_err());
    }
}
