use uroce_wire::{Aeth, Deth, MORE_PARTS, NakCode, Opcode, Qpn, Reth, Syndrome};

use super::scene::{ANSWERS, ASKS, MTU, Scene, back, fetch_add, management, request};
use crate::judge::EndKind;
use crate::{Encapsulation, IcrcStatus, Packet, sample};

const WRONG: IcrcStatus = IcrcStatus::Wrong { found: 1, expected: 2 };

fn one(packet: Packet) -> Scene {
    let mut scene = Scene::connected();
    scene.give(packet, &[]);
    scene
}

/// A request at the next PSN with a change.
fn changed(change: impl FnOnce(&mut Packet)) -> Scene {
    let mut packet = request(Opcode::RC_SEND_ONLY, 10, 100);
    change(&mut packet);
    one(packet)
}

#[test]
fn ordinary_traffic_is_clean() {
    Scene::connected().keeps_all();
    assert_eq!(Scene::connected().names(), [""; 0], "not even a note");
}

#[test]
fn a_wrong_icrc_is_told_with_its_frame_and_nothing_else_of_that_packet_is() {
    let scene = changed(|packet| {
        packet.icrc = WRONG;
        packet.bth.tver = 3;
    });
    let finding = scene.breaks("icrc-wrong");
    assert_eq!((finding.count, &finding.frames[..]), (1, &[21][..]));
    assert!(finding.text.contains("0x00000001"), "{}", finding.text);
    changed(|packet| {
        packet.icrc = WRONG;
        packet.bth.tver = 3;
    })
    .keeps("transport-version");
}

#[test]
fn a_rewritten_port_or_identification_is_a_note() {
    let port = |packet: &mut Packet| packet.icrc = IcrcStatus::RightWithSourcePort(9);
    changed(port).breaks("icrc-port-rewritten");
    changed(port).keeps_all();
    let id = |packet: &mut Packet| packet.icrc = IcrcStatus::RightWithIpId(9);
    changed(id).breaks("icrc-id-rewritten");
    changed(|_| ()).keeps("icrc-id-rewritten");
}

#[test]
fn icrcs_that_are_never_right_are_no_damage_if_the_peer_answers() {
    let all_wrong = |is_answered| {
        let mut scene = Scene::new();
        for psn in 0..20 {
            scene.give(Packet { icrc: WRONG, ..request(Opcode::RC_SEND_ONLY, psn, 8) }, &[]);
            if is_answered {
                scene.ack(psn, psn + 1);
            }
        }
        scene
    };
    all_wrong(true).breaks("icrc-never-right");
    all_wrong(true).keeps("icrc-wrong");
    all_wrong(false).breaks("icrc-wrong");
    all_wrong(false).keeps("icrc-never-right");
}

/// A packet as it is before the network card writes the ICRC.
fn unwritten(found: u32, packet: Packet) -> Packet {
    let icrc = IcrcStatus::Wrong { found, expected: packet.bth.psn.get() + 100 };
    Packet { icrc, ..packet }
}

#[test]
fn an_icrc_that_all_packets_have_alike_is_no_damage_though_nobody_answers() {
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::UC_SEND_ONLY, Opcode::UD_SEND_ONLY] {
        let flow = |psns: &[u32], found: fn(u32) -> u32| {
            let mut scene = Scene::new();
            for psn in psns {
                scene.give(unwritten(found(*psn), request(opcode, *psn, 8)), &[]);
            }
            scene
        };
        flow(&[0], |_| 0).keeps_all();
        let finding = flow(&[0], |_| 0).breaks("icrc-never-right");
        assert!(finding.text.contains("have 0x00000000"), "{}", finding.text);
        flow(&[0, 1, 2], |_| 0).keeps_all();
        flow(&[0, 1, 2], |_| 7).keeps_all();
        flow(&[0, 1, 2], |psn| psn).breaks("icrc-wrong");
        // Both copies of a packet may be damaged in the same way.
        flow(&[0, 0], |_| 7).breaks("icrc-wrong");
    }
    let mut others = Scene::connected();
    others.give(unwritten(0, request(Opcode::RC_SEND_ONLY, 10, 8)), &[]);
    others.breaks("icrc-wrong");
}

#[test]
fn answers_without_a_right_icrc_are_no_damage_if_the_requester_goes_on() {
    let answers = |heeds: bool| {
        let mut scene = Scene::new();
        for psn in 0..20 {
            scene.send(if heeds { psn } else { 0 });
            let answered = if heeds { psn } else { 0 };
            let answer = sample::answer(ASKS, answered, Syndrome::ack(31));
            let icrc = IcrcStatus::Wrong { found: psn + 1, expected: answered };
            scene.give(Packet { icrc, ..answer }, &[]);
            scene.wait(std::time::Duration::from_millis(67));
        }
        scene
    };
    answers(true).keeps("icrc-wrong");
    answers(true).breaks("icrc-never-right");
    answers(false).breaks("icrc-wrong");
}

#[test]
fn an_icrc_that_is_nearly_right_by_chance_makes_the_others_no_damage() {
    let scene = || {
        let mut scene = Scene::new();
        for psn in 0..20 {
            let icrc = if psn == 9 { IcrcStatus::RightWithIpId(4) } else { WRONG };
            scene.give(Packet { icrc, ..request(Opcode::RC_SEND_ONLY, psn, 8) }, &[]);
            scene.ack(psn, psn + 1);
        }
        scene
    };
    scene().breaks("icrc-never-right");
    scene().keeps("icrc-wrong");
    scene().keeps("icrc-id-rewritten");
}

/// SEND 0 is refused by the first packet of its direction, and no ICRC is right so far.
fn refused_by_the_first_packet() -> Scene {
    let mut scene = Scene::new();
    scene.give(Packet { icrc: WRONG, ..request(Opcode::RC_SEND_ONLY, 0, 8) }, &[]);
    scene
        .give(Packet { icrc: WRONG, ..answer_to(ASKS, Syndrome::nak(NakCode::RemoteAccess)) }, &[]);
    scene
}

fn answer_to(qpn: u32, syndrome: Syndrome) -> Packet {
    let mut packet = back(Opcode::RC_ACKNOWLEDGE, 0, 0);
    packet.bth.dest_qpn = Qpn::new(qpn);
    Packet { aeth: Some(Aeth { syndrome, msn: 0 }), ..packet }
}

#[test]
fn a_nak_that_ends_a_queue_pair_is_believed_where_no_icrc_is_right() {
    refused_by_the_first_packet().breaks("fatal-nak");
    let [explanation] = &refused_by_the_first_packet().explanations()[..] else {
        panic!("one explanation")
    };
    assert_eq!((explanation.kind, explanation.frame), (EndKind::FatalNak, 2));
}

#[test]
fn a_nak_with_a_wrong_icrc_is_not_believed_where_others_are_right() {
    for qpn in [ASKS, ASKS + 1] {
        let scene = || {
            let mut scene = refused_by_the_first_packet();
            scene.give(answer_to(qpn, Syndrome::ack(31)), &[]);
            scene
        };
        scene().keeps("fatal-nak");
        assert_eq!(scene().explanations(), [], "a right ICRC to queue pair {qpn}");
    }
}

#[test]
fn pad_fills_up_to_4_and_only_where_a_payload_ends() {
    let pad = |opcode, bytes, pad| {
        let mut packet = request(opcode, 10, bytes);
        packet.bth.pad = pad;
        one(packet)
    };
    pad(Opcode::RC_SEND_ONLY, 101, 2).breaks("pad-wrong");
    pad(Opcode::RC_SEND_ONLY, 101, 3).keeps("pad-wrong");
    pad(Opcode::RC_SEND_FIRST, MTU - 1, 1).breaks("pad-wrong");
    pad(Opcode::RC_SEND_FIRST, MTU, 0).keeps("pad-wrong");
}

#[test]
fn versions_reserved_bits_and_hop_limits() {
    changed(|packet| packet.bth.tver = 1).breaks("transport-version");
    changed(|packet| packet.bth.reserved6 = 0x10).breaks("reserved-bits");
    changed(|packet| packet.bth.reserved7 = 0x10).breaks("reserved-bits");
    changed(|packet| packet.bth.reserved7 = 0x40).keeps("reserved-bits");
    changed(|packet| packet.bth.reserved7 = MORE_PARTS).breaks("reserved-bits");
    let reth = Some(Reth { va: 0x1000, rkey: 7, length: 100 });
    let mut part = Packet { reth, ..request(Opcode::RC_WRITE_ONLY, 10, 100) };
    part.bth.reserved7 = MORE_PARTS;
    one(part).keeps("reserved-bits");
    changed(|packet| packet.bth.reserved6 = 0x10).keeps_all();
    changed(|packet| packet.bth.becn = true).keeps("reserved-bits");
    changed(|packet| packet.hop_limit = 1).breaks("hop-limit-low");
    changed(|packet| packet.hop_limit = 2).keeps("hop-limit-low");
    let on_infiniband = |source: &'static str| {
        changed(move |packet| {
            (packet.encapsulation, packet.hop_limit) = (Encapsulation::Infiniband, 0);
            packet.source = source.parse().expect("an address");
        })
    };
    on_infiniband("[::7]:0").keeps("hop-limit-low");
    on_infiniband("[fe80::7]:0").breaks("hop-limit-low");
}

#[test]
fn opcodes_that_nobody_defines_and_those_of_other_services() {
    one(request(Opcode(0x15), 10, 0)).breaks("opcode-undefined");
    one(request(Opcode(0x44), 10, 0)).breaks("opcode-not-judged");
    one(request(Opcode(0xc1), 10, 0)).keeps_all();
    one(request(Opcode::RC_SEND_ONLY_INV, 10, 0)).keeps("opcode-undefined");
}

#[test]
fn payloads_that_an_opcode_does_not_allow() {
    one(request(Opcode::RC_READ_REQUEST, 10, 4)).breaks("payload-of-opcode");
    one(request(Opcode::RC_ATOMIC_WRITE, 10, 4)).breaks("payload-of-opcode");
    one(request(Opcode::RC_ATOMIC_WRITE, 10, 8)).keeps("payload-of-opcode");
    one(request(Opcode::RC_SEND_LAST, 10, 0)).breaks("payload-of-opcode");
    one(request(Opcode::RC_SEND_ONLY, 10, 0)).keeps("payload-of-opcode");
    one(request(Opcode::RC_SEND_ONLY, 10, 4100)).breaks("payload-too-long");
    one(request(Opcode::RC_SEND_ONLY, 10, 4096)).keeps("payload-too-long");
}

#[test]
fn lengths_and_addresses_of_remote_memory() {
    let read = |length| {
        let reth = Some(Reth { va: 0, rkey: 0, length });
        one(Packet { reth, ..request(Opcode::RC_READ_REQUEST, 10, 0) })
    };
    read((1 << 31) + 1).breaks("dma-length");
    read(1 << 31).keeps("dma-length");
    one(fetch_add(10, 1, 12)).breaks("atomic-misaligned");
    one(fetch_add(10, 1, 16)).keeps("atomic-misaligned");
}

#[test]
fn syndromes_that_mean_nothing_and_responses_that_refuse() {
    let answer = |syndrome| one(sample::answer(super::scene::ASKS, 9, Syndrome(syndrome)));
    answer(0x45).breaks("syndrome-reserved");
    answer(0x6a).breaks("syndrome-reserved");
    answer(0x80).breaks("syndrome-reserved");
    answer(0x1f).keeps("syndrome-reserved");
    let response = |opcode, syndrome| {
        let aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn: 0 });
        one(Packet { aeth, ..back(opcode, 9, 0) })
    };
    response(Opcode::RC_READ_RESPONSE_ONLY, 0x62).breaks("response-with-nak");
    response(Opcode::RC_READ_RESPONSE_ONLY, 0x05).keeps("response-with-nak");
    response(Opcode::RC_ATOMIC_ACKNOWLEDGE, 0x62).keeps("response-with-nak");
}

#[test]
fn what_is_sent_to_special_queue_pairs() {
    let to = |opcode, qpn| {
        let mut packet = request(opcode, 10, 256);
        packet.bth.dest_qpn = qpn;
        one(packet)
    };
    to(Opcode::RC_SEND_ONLY, Qpn::GSI).breaks("gsi-service");
    to(Opcode::RC_SEND_ONLY, Qpn::MULTICAST).breaks("multicast-service");
    to(Opcode::UD_SEND_ONLY, Qpn::MULTICAST).keeps("multicast-service");
    to(Opcode::UD_SEND_ONLY, Qpn::new(ANSWERS)).keeps("gsi-service");
    let mad = |qkey, payload_len| {
        let deth = Some(Deth { qkey, src_qpn: Qpn::GSI });
        one(Packet { deth, payload_len, ..management(false) })
    };
    mad(0x8001_0001, 256).breaks("gsi-qkey");
    mad(0x8001_0000, 252).breaks("gsi-length");
    mad(0x8001_0000, 256).keeps_all();
}
