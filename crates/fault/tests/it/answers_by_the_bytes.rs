//! Answers byte by byte: to which packets, from whom, with which ICRC.

use uroce_fault::{Direction, Refusal, Verdict};
use uroce_wire::{Opcode, Service};

use crate::packets::{LOCAL, LOCAL_QP, Out, REMOTE, REMOTE_QP, TestPacket, Wire, data, send};

/// An injector that knows the connection of the two hosts.
fn connected(rules: &str) -> Wire {
    let mut wire = Wire::new(rules);
    wire.injector.learn_peer((LOCAL.into(), LOCAL_QP), (REMOTE.into(), REMOTE_QP));
    wire
}

/// The answer to a packet.
fn answer(rules: &str, packet: &TestPacket) -> Out {
    let mut wire = connected(rules);
    wire.give(packet);
    wire.out.pop().expect("an answer")
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// CRC-32 one bit at a time, over the frame of an answer from the remote host to the local one.
fn icrc_of_answer(covered: &[u8]) -> [u8; 4] {
    let udp = (covered.len() + 12) as u16;
    let mut stream = vec![0xff; 8];
    stream.extend(hex("45ff 0000 0000 4000 ff11 ffff c0000202 c0000201 c000 12b7 0000 ffff"));
    stream[10..12].copy_from_slice(&(udp + 20).to_be_bytes());
    stream[32..34].copy_from_slice(&udp.to_be_bytes());
    stream.extend_from_slice(covered);
    stream[40] = 0xff;
    let crc = stream.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    });
    (!crc).to_le_bytes()
}

/// BTH and AETH of each answer, and its ICRC.
#[test]
fn acknowledgements_are_these_bytes() {
    let cases: Vec<(String, u8)> = [("ack".to_owned(), 0x1f)]
        .into_iter()
        .chain((0..32).map(|code| (format!("nak:{code}"), 0x60 | code)))
        .chain((0..32).map(|timer| (format!("rnr:{timer}"), 0x20 | timer)))
        .collect();
    for (kind, syndrome) in cases {
        let out = answer(&format!("tx -> answer:{kind}"), &send(0x12_3456));
        // Only an acknowledgement completes the message, which its MSN counts.
        let msn = u32::from(syndrome == 0x1f);
        let wanted = hex(&format!("11 40 ffff 00 000011 00 123456 {syndrome:02x} {msn:06x}"));
        let (covered, icrc) = out.packet.bytes.split_at(16);
        assert_eq!(covered, wanted, "answer:{kind}");
        assert_eq!(icrc, icrc_of_answer(covered), "answer:{kind}");
        assert_eq!(out.faults, format!("fault: answered with {kind} by rule 1"));
    }
}

#[test]
fn a_cnp_is_these_bytes() {
    let out = answer("tx -> answer:cnp", &send(0x12_3456));
    let wanted = hex("81 40 ffff 40 000011 00 000000 00000000 00000000 00000000 00000000");
    let (covered, icrc) = out.packet.bytes.split_at(28);
    assert_eq!((covered, icrc), (&wanted[..], &icrc_of_answer(covered)[..]));
}

/// An answer goes the way back: addresses swapped, to the RoCE port, with nothing of the IP header of the request.
#[test]
fn an_answer_goes_back_where_the_packet_came_from() {
    let request = send(1);
    let meta = answer("tx -> answer:ack", &request).packet.meta;
    assert_eq!(meta.direction, Direction::Rx);
    assert_eq!((meta.flow.src, meta.flow.dst), (request.meta.flow.dst, request.meta.flow.src));
    assert_eq!((meta.flow.dst_port, meta.ip_id, meta.traffic_class), (4791, 0, 0));
    assert_eq!(meta.tag, request.meta.tag);
}

/// Requests of RC and XRC are acknowledged, with the opcode of their service; nothing else is.
#[test]
fn each_opcode_is_acknowledged_or_refused() {
    for info in (0..=255u8).filter_map(|byte| Opcode(byte).info()) {
        let packet = data(info.opcode, 5);
        let mut wire = connected("tx -> answer:ack");
        let verdict = wire.give(&packet);
        let reliable = matches!(info.service, Service::Rc | Service::Xrc);
        if reliable && info.is_request() {
            let out = wire.out.pop().expect("an answer");
            let opcode = if info.service == Service::Rc { 0x11 } else { 0xb1 };
            assert_eq!(
                (verdict, out.packet.opcode().0),
                (Verdict::Dropped, opcode),
                "{}",
                info.name
            );
            assert_eq!(out.packet.psn(), 5);
            // Only the last packet of a message completes it.
            let msn =
                u32::from_be_bytes(out.packet.bytes[12..16].try_into().expect("4")) & 0xff_ffff;
            assert_eq!(msn, u32::from(info.ends()), "{}", info.name);
        } else {
            assert_eq!((verdict, wire.out.len()), (Verdict::Pass, 1), "{}", info.name);
            let report = wire.injector.report().next().expect("a rule");
            assert_eq!(report.reason, Some(Refusal::NotARequest), "{}", info.name);
        }
    }
}

/// A datagram names its sender itself; any other packet needs the connection.
#[test]
fn a_cnp_goes_to_the_queue_pair_that_a_datagram_names() {
    let mut datagram = data(Opcode::UD_SEND_ONLY, 1);
    datagram.bytes[17..20].copy_from_slice(&[0xab, 0xcd, 0xef]);
    let mut wire = Wire::new("any -> answer:cnp");
    assert_eq!(wire.give(&datagram), Verdict::Pass);
    assert_eq!(wire.out[1].packet.bytes[5..8], [0xab, 0xcd, 0xef]);
    let mut wire = Wire::new("any -> answer:cnp");
    assert_eq!(wire.give(&send(1)), Verdict::Pass);
    let report = wire.injector.report().next().expect("a rule");
    assert_eq!((wire.out.len(), report.reason), (1, Some(Refusal::PeerUnknown)));
}

/// What an action cannot do leaves the packet to the next rule, with none of the other actions done.
#[test]
fn a_rule_that_cannot_answer_does_nothing_of_the_rest() {
    let mut wire = Wire::new("tx -> answer:nak:1, set:psn=9, ce; tx -> dup");
    assert_eq!(wire.give(&send(1)), Verdict::Pass);
    assert_eq!(wire.psns(), [1, 1]);
    assert_eq!(wire.out[1].packet.meta.traffic_class, 2, "not marked");
    let report: Vec<_> =
        wire.injector.report().map(|rule| (rule.applied, rule.not_applied)).collect();
    assert_eq!(report, [(0, 1), (1, 0)]);
}
