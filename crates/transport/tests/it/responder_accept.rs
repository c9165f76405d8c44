//! Which packets a responder accepts (R1 to R14).

use uroce_transport::*;
use uroce_wire::{DropReason, Opcode, Qpn, Service};

use crate::harness::forge::*;
use crate::harness::*;

#[test]
fn r1_reserved_bits_and_ecn_bits_are_ignored() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let mut forged = Forged::write(EPSN, va, rkey, b"data");
    forged.bth.fecn = true;
    forged.bth.becn = true;
    forged.bth.reserved6 = 0x3f;
    forged.bth.reserved7 = 0x7f;
    assert_eq!(pair.reply(&forged), acknowledge(EPSN, ACK));
    assert_eq!(pair.nodes[1].bytes(0, 4), b"data");
}

#[test]
fn r1_we_send_reserved_bits_as_zero() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for answer in pair.hit(&Forged::read(EPSN, va, rkey, 600)) {
        let bth = answer.packet().bth;
        assert!(!bth.fecn && !bth.becn && bth.reserved6 == 0 && bth.reserved7 == 0);
    }
}

#[test]
fn r2_another_transport_version_is_dropped() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for tver in 1..16 {
        let mut forged = Forged::write(EPSN, va, rkey, b"data");
        forged.bth.tver = tver;
        assert_eq!(pair.reply(&forged), []);
    }
    assert_eq!(pair.dropped(DropReason::BadTransportVersion), 15);
    assert_eq!((pair.state(), pair.expected()), (QpState::Rts, EPSN));
}

#[test]
fn r3_a_service_that_is_not_the_qps_is_dropped() {
    let services = [Service::Rc, Service::Uc, Service::Ud, Service::Xrc];
    let opcodes = services.map(|service| Opcode::RC_SEND_ONLY.of_service(service));
    let types = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni];
    for (own, qp_type) in types.into_iter().enumerate() {
        let mut pair = Pair::of(qp_type);
        for (other, opcode) in opcodes.into_iter().enumerate() {
            if other != own {
                let mut forged = Forged::ud(0x1111, b"");
                forged.bth.opcode = opcode;
                assert_eq!(pair.reply(&forged), []);
            }
        }
        assert_eq!(pair.dropped(DropReason::ServiceMismatch), 3);
        assert_eq!(pair.nodes[1].counters.rcvd_pkts, 0);
    }
}

#[test]
fn r3_a35_xrc_opcodes_are_dropped_silently_by_rc() {
    let mut pair = Pair::rc();
    for opcode in (0xa0..=0xbd).map(Opcode).filter(|opcode| opcode.info().is_some()) {
        let mut bytes = Forged::new(opcode, EPSN).bytes();
        bytes.resize(80, 0);
        pair.receive(1, &bytes, 0);
    }
    assert_eq!(pair.dropped(DropReason::ServiceMismatch), 25);
    assert_eq!((pair.collect().len(), pair.state()), (0, QpState::Rts));
}

#[test]
fn r5_states_that_take_no_request_drop_it() {
    let mut pair = Pair::unconnected(Setup::default());
    let (va, rkey) = pair.target(0);
    let forged = Forged::write(EPSN, va, rkey, b"data");
    assert_eq!(pair.reply(&forged), []);
    pair.enter_init(1).unwrap();
    assert_eq!(pair.reply(&forged), []);
    assert_eq!(pair.dropped(DropReason::QpState), 2);
    pair.enter_rtr(1).unwrap();
    assert_eq!(pair.reply(&forged), acknowledge(EPSN, ACK));
    assert_eq!(pair.nodes[1].event(), Some(AsyncEvent::CommEst(Qpn::new(QPNS[1]))));
    pair.enter_rts(1).unwrap();
    pair.nodes[1].enter_state(QpState::Sqd).unwrap();
    assert_eq!(pair.reply(&Forged::write(EPSN + 1, va, rkey, b"")), acknowledge(EPSN + 1, ACK));
    pair.nodes[1].enter_state(QpState::Err).unwrap();
    assert_eq!(pair.reply(&Forged::write(EPSN + 2, va, rkey, b"")), []);
    assert_eq!(pair.dropped(DropReason::ErrorState), 1);
}

#[test]
fn r5_a_response_to_a_qp_in_rtr_is_dropped() {
    let mut pair = Pair::unconnected(Setup::default());
    pair.enter_init(1).unwrap();
    pair.enter_rtr(1).unwrap();
    let mut bytes = Forged::new(Opcode::RC_ACKNOWLEDGE, 0x900).bytes();
    bytes.resize(20, 0);
    pair.receive(1, &bytes, 0);
    assert_eq!(pair.dropped(DropReason::QpState), 1);
}

#[test]
fn r6_b53_pkey_low_15_bits_decide() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for pkey in [0x7ffe, 0xfffe, 0, 0x8000, 0x2a00, 0xaa00] {
        let mut forged = Forged::write(EPSN, va, rkey, b"data");
        forged.bth.pkey = pkey;
        assert_eq!(pair.reply(&forged), [], "{pkey:#x}");
    }
    assert_eq!(pair.dropped(DropReason::PkeyMismatch), 6);
    for (psn, pkey) in [(EPSN, 0xffff), (EPSN + 1, 0x7fff)] {
        let mut forged = Forged::write(psn, va, rkey, b"data");
        forged.bth.pkey = pkey;
        assert_eq!(pair.reply(&forged), acknowledge(psn, ACK), "{pkey:#x}");
    }
}

#[test]
fn r8_a10_a_stranger_gets_no_reply_and_changes_nothing() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let before = pair.memory();
    for psn in [EPSN - 1, EPSN, EPSN + 1] {
        let bytes = Forged::write(psn, va, rkey, b"data").bytes();
        let mut arrival = pair.arrival(1, bytes.len(), 3);
        arrival.src = [10, 0, 0, 3].into();
        pair.receive_from(1, &arrival, &bytes);
        arrival.src = [10, 0, 0, 1].into();
        arrival.dst = [10, 0, 0, 9].into();
        pair.receive_from(1, &arrival, &bytes);
    }
    assert_eq!(pair.collect().len(), 0);
    assert_eq!(pair.dropped(DropReason::WrongPeer), 3);
    assert_eq!(pair.dropped(DropReason::WrongDestination), 3);
    assert_eq!((pair.expected(), pair.memory() == before), (EPSN, true));
}

#[test]
fn r10_b2_b3_shorter_than_headers_pad_and_icrc_is_dropped_for_every_opcode() {
    let mut pair = Pair::rc();
    let mut short = 0;
    for opcode in (0..=255).map(Opcode) {
        let Some(info) = opcode.info() else { continue };
        for pad in 0..4u8 {
            let need = info.header_len + usize::from(pad) + 4;
            let mut forged = Forged::new(opcode, EPSN);
            forged.bth.pad = pad;
            let mut bytes = forged.pad(pad).bytes();
            bytes.resize(need - 1, 0);
            for length in 16..need {
                pair.receive(1, &bytes[..length], 0);
                short += 1;
            }
        }
    }
    assert_eq!(pair.dropped(DropReason::BadLength), short);
    assert_eq!((pair.collect().len(), pair.expected()), (0, EPSN));
}

#[test]
fn r11_pad_belongs_to_the_end_of_a_payload() {
    // A pad count on a packet without payload is no packet at all.
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    assert_eq!(pair.reply(&Forged::read(EPSN, va, rkey, 4).pad(1)), []);
    assert_eq!(pair.dropped(DropReason::BadPad), 1);
    // FIRST and MIDDLE never have one, since the path MTU is a multiple of four.
    for pad in 1..4u8 {
        let mut pair = Pair::rc();
        let data = vec![1; 256 - usize::from(pad)];
        let first = Forged::data(Opcode::RC_WRITE_FIRST, EPSN, &data).reth(va, rkey, 512).pad(pad);
        assert_eq!(pair.reply(&first), acknowledge(EPSN, NAK_INVALID));
    }
    // ONLY: the pad that fills up to a multiple of four passes, any other does not.
    for length in 1..9usize {
        for pad in 0..4u8 {
            let mut pair = Pair::rc();
            let (va, rkey) = pair.target(0);
            let forged = Forged::write(EPSN, va, rkey, &vec![1; length]).pad(pad);
            let right = (length + usize::from(pad)) % 4 == 0;
            let syndrome = if right { ACK } else { NAK_INVALID };
            assert_eq!(pair.reply(&forged), acknowledge(EPSN, syndrome), "{length} + {pad}");
        }
    }
}

#[test]
fn r12_migreq_is_ignored() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for (psn, migreq) in [(EPSN, false), (EPSN + 1, true), (EPSN + 2, false)] {
        let mut forged = Forged::write(psn, va, rkey, b"data");
        forged.bth.migreq = migreq;
        assert_eq!(pair.reply(&forged), acknowledge(psn, ACK));
    }
    assert_eq!(pair.state(), QpState::Rts);
}

#[test]
fn r14_the_multicast_qpn_is_for_ud_only() {
    for (qp_type, taken) in [(QpType::Rc, 0), (QpType::XrcIni, 0), (QpType::Uc, 0), (QpType::Ud, 1)]
    {
        let mut pair = Pair::of(qp_type);
        pair.post(1, 0, 256);
        let mut forged = match qp_type {
            QpType::Rc => Forged::send(EPSN, b"data"),
            QpType::XrcIni | QpType::XrcTgt => Forged::send(EPSN, b"data").xrc(XRC_SRQN),
            QpType::Uc => Forged::data(Opcode::UC_SEND_ONLY, EPSN, b"data"),
            QpType::Ud => Forged::ud(0x1111, b"data"),
        };
        forged.bth.dest_qpn = Qpn::MULTICAST;
        assert_eq!(pair.reply(&forged), []);
        assert_eq!(pair.nodes[1].recvs().len(), taken);
        assert_eq!(pair.dropped(DropReason::MulticastNotUd), 1 - taken as u64);
    }
}
