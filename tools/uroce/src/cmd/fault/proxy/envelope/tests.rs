use uroce_device::wire::{
    Ipv4, UdpPorts, icrc, parse_ethernet, verify_frame_icrc, write_ethernet, write_ipv4_udp,
};

use super::*;

/// An IPv4 frame for UDP port 4791 with `payload` bytes of transport, behind a tag if asked.
pub fn frame(vlan: Option<u16>, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; 18 + 28 + payload];
    let ip = Ipv4 {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        id: 7,
        ttl: 63,
        tos: 2,
        df: true,
    };
    let at = write_ethernet(&mut bytes, [2; 6], [4; 6], vlan, 0x0800).expect("room");
    let ports = UdpPorts { src: 50_000, dst: 4791 };
    write_ipv4_udp(&mut bytes[at..], &ip, ports, payload).expect("room");
    let start = at + 28;
    bytes.truncate(start + payload);
    bytes[start] = 0x0a;
    bytes[start + 2..start + 4].fill(0xff);
    let flow = Flow { src: ip.src.into(), dst: ip.dst.into(), src_port: 50_000, dst_port: 4791 };
    let end = start + payload - 4;
    let right = icrc(&flow, 7, &bytes[start..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&right);
    bytes
}

fn opened(bytes: &[u8]) -> Opened<'_> {
    Opened::read(bytes, &Offload::NONE, 4791).expect("RoCEv2")
}

fn wrapped(bytes: &[u8], change: impl FnOnce(&mut PacketFields)) -> Vec<u8> {
    let opened = opened(bytes);
    let (ip_id, packet) = opened.packet(0);
    let Opened { flow, traffic_class, flow_label, .. } = opened;
    let mut fields = PacketFields { flow, ip_id, traffic_class, flow_label };
    change(&mut fields);
    let mut out = Vec::new();
    opened.envelope.wrap(&fields, packet, &mut out);
    out
}

/// Over header and pseudo-header it is all ones with a right checksum.
fn ipv4_sum(frame: &[u8], at: usize) -> u16 {
    fold(sum(&frame[at..at + 20]))
}

#[test]
fn an_untouched_packet_is_wrapped_into_its_own_frame() {
    for vlan in [None, Some(7)] {
        let bytes = frame(vlan, 48);
        assert_eq!(wrapped(&bytes, |_| {}), bytes);
    }
}

#[test]
fn another_traffic_class_has_a_right_header_checksum() {
    let marked = wrapped(&frame(None, 48), |fields| fields.traffic_class |= 3);
    assert_eq!((marked[15], ipv4_sum(&marked, 14)), (3, 0xffff));
    assert!(verify_frame_icrc(&parse_ethernet(&marked).expect("a frame")));
}

#[test]
fn a_udp_checksum_is_made_right_where_there_was_one() {
    let mut bytes = frame(None, 49);
    assert_eq!(wrapped(&bytes, |_| {})[40..42], [0, 0], "none");
    bytes[40] = 1;
    let out = wrapped(&bytes, |_| {});
    let pseudo = sum(&out[26..34]) + PROTOCOL + 57;
    assert_eq!(fold(pseudo + sum(&out[34..])), 0xffff);
}

#[test]
fn an_answer_goes_back_to_the_hardware_address_that_asked() {
    let answer = wrapped(&frame(None, 48), |fields| {
        std::mem::swap(&mut fields.flow.src, &mut fields.flow.dst);
    });
    assert_eq!((&answer[..6], &answer[6..12]), (&[2; 6][..], &[4; 6][..]));
    assert_eq!((&answer[26..30], &answer[30..34]), (&[10, 0, 0, 2][..], &[10, 0, 0, 1][..]));
    assert_eq!(ipv4_sum(&answer, 14), 0xffff);
}

#[test]
fn packets_of_one_flow_have_one_envelope() {
    let (short, long) = (frame(None, 48), frame(None, 80));
    let mut envelopes = Envelopes::default();
    let numbers = [&short, &long, &frame(Some(7), 48)]
        .map(|bytes| envelopes.number(&opened(bytes).envelope).expect("room"));
    assert_eq!(numbers, [0, 0, 1]);
    assert_eq!(envelopes.get(0), Some(&opened(&long).envelope));
    assert_eq!(envelopes.get(2), None);
}

/// An IPv6 frame with that flow label, by hand.
fn frame_v6(flow_label: u32) -> Vec<u8> {
    let mut bytes = frame(None, 48);
    let transport = bytes.split_off(14 + 20);
    bytes.truncate(12);
    bytes.extend([0x86, 0xdd]);
    bytes.extend((0x6020_0000 | flow_label).to_be_bytes());
    bytes.extend([0, transport.len() as u8, 17, 63]);
    bytes.extend([0xfd; 16]);
    bytes.extend([0xfe; 16]);
    bytes.extend(transport);
    bytes
}

/// Linux gives each socket a flow label of its own: 4096 of them must not use up the envelopes.
#[test]
fn flow_labels_use_up_no_envelopes_and_come_back() {
    let mut envelopes = Envelopes::default();
    for flow_label in [0, 1, 0xf_ffff, 0x1_2345] {
        let bytes = frame_v6(flow_label);
        assert_eq!(opened(&bytes).flow_label, flow_label);
        assert_eq!(envelopes.number(&opened(&bytes).envelope), Some(0));
        let mut out = wrapped(&bytes, |_| {});
        // The checksum of UDP, which IPv6 asks for.
        out[14 + 40 + 6..14 + 40 + 8].fill(0);
        assert_eq!(out, bytes);
    }
}

#[test]
fn what_is_no_rocev2_is_not_opened() {
    let read = |bytes: &[u8]| Opened::read(bytes, &Offload::NONE, 4791).is_some();
    let bytes = frame(None, 48);
    assert!(read(&bytes));
    for (at, value) in [(12, 0x86), (14, 0x46), (20, 0x20), (23, 6), (36, 0)] {
        let mut other = bytes.clone();
        other[at] = value;
        assert!(!read(&other), "byte {at}");
    }
    (0..bytes.len()).for_each(|length| assert!(!read(&bytes[..length])));
}
