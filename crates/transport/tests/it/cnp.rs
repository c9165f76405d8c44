//! Congestion notification (R13, R102, R103, R107, A24, A25).

use uroce_transport::*;
use uroce_wire::{Bth, DropReason, Opcode, Psn, Qpn};

use crate::harness::forge::*;
use crate::harness::*;

const CE: u8 = 3;

fn cnp(bytes: usize) -> Vec<u8> {
    let mut forged = Forged::new(Opcode::CNP, 0);
    forged.bth.becn = true;
    forged.payload = vec![0; bytes];
    forged.bytes()
}

fn marked(pair: &mut Pair, forged: &Forged, class: u8) -> Vec<&'static str> {
    pair.receive(1, &forged.bytes(), class);
    pair.collect().iter().map(|seen| seen.name()).collect()
}

#[test]
fn r13_a_cnp_is_counted_by_every_kind_of_qp_and_has_no_psn() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut pair = Pair::of(qp_type);
        for _ in 0..3 {
            pair.receive(1, &cnp(16), 0);
        }
        assert_eq!(pair.nodes[1].counters.rcvd_cnp, 3);
        assert_eq!((pair.collect().len(), pair.state()), (0, QpState::Rts));
        if qp_type != QpType::Ud {
            assert_eq!(pair.expected(), EPSN);
        }
    }
}

#[test]
fn r13_a24_a_cnp_is_believed_only_from_the_peer() {
    let mut pair = Pair::rc();
    let bytes = cnp(16);
    let mut arrival = pair.arrival(1, bytes.len(), 0);
    arrival.src = [10, 0, 0, 99].into();
    pair.receive_from(1, &arrival, &bytes);
    assert_eq!(pair.nodes[1].counters.rcvd_cnp, 0);
    assert_eq!(pair.dropped(DropReason::WrongPeer), 1);
}

/// Nothing lowers a rate (R104), so a flood by somebody who spoofs the peer costs what counting costs.
#[test]
fn a24_r104_r105_r106_a_flood_of_cnps_by_the_peer_slows_nothing_down() {
    let took = |cnps: usize| {
        let mut pair = Pair::rc();
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let source = pair.nodes[0].sge(0, 64 * 256);
        pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
        let mut forged = Forged::new(Opcode::CNP, 0);
        forged.bth.becn = true;
        forged.bth.dest_qpn = Qpn::new(QPNS[0]);
        forged.payload = vec![0; 16];
        let bytes = forged.bytes();
        (0..cnps).for_each(|_| pair.receive(0, &bytes, 0));
        pair.run();
        assert!(pair.nodes[0].sends()[0].is_ok());
        assert_eq!(pair.nodes[0].counters.rcvd_cnp, cnps as u64);
        (pair.now, pair.trace.len())
    };
    assert_eq!(took(10_000), took(0), "the same packets at the same times");
}

#[test]
fn r13_a_cnp_has_16_bytes() {
    let mut pair = Pair::rc();
    for length in [0, 15, 17, 64] {
        pair.receive(1, &cnp(length), 0);
    }
    assert_eq!(pair.nodes[1].counters.rcvd_cnp, 0);
    assert_eq!(pair.dropped(DropReason::BadLength), 4);
}

#[test]
fn r102_e17_a_marked_packet_draws_a_cnp_of_the_right_form() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.receive(1, &Forged::write(EPSN, va, rkey, b"x").bytes(), CE);
    let seen = pair.collect();
    assert_eq!((seen[0].name(), seen[1].name()), ("CNP", "RC_ACKNOWLEDGE"));
    let packet = seen[0].packet();
    assert_eq!(seen[0].path.traffic_class, 48 << 2, "DSCP 48, whatever the data have");
    assert_ne!(seen[1].path.traffic_class, 48 << 2);
    let mut bth = Bth::new(Opcode::CNP, Qpn::new(QPNS[0]), Psn::new(0));
    bth.becn = true;
    assert_eq!(packet.bth, bth);
    assert_eq!((packet.payload(), seen[0].bytes.len()), (&[0u8; 16][..], 12 + 16 + 4));
    assert_eq!(seen[0].path.dst, pair.nodes[0].ip);
}

#[test]
fn r102_only_ce_counts_and_only_on_data() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    for (offset, class) in [0, 1, 2, 0xb8, 0xb9, 0xba].into_iter().enumerate() {
        let write = Forged::write(EPSN + offset as u32, va, rkey, b"x").no_ack();
        assert_eq!(marked(&mut pair, &write, class), [""; 0], "{class:#x}");
    }
    let write = Forged::write(EPSN + 6, va, rkey, b"x").no_ack();
    assert_eq!(marked(&mut pair, &write, 0xbb), ["CNP"]);
    // A CNP and an ACK do not react to ECN.
    let mut pair = Pair::rc();
    pair.receive(1, &cnp(16), CE);
    let mut ack = Forged::new(Opcode::RC_ACKNOWLEDGE, 0x8ff).bytes();
    ack.resize(20, 0);
    pair.receive(1, &ack, CE);
    assert_eq!(pair.collect().len(), 0);
}

#[test]
fn r102_a_marked_read_response_draws_a_cnp_too() {
    let mut pair = Pair::rc();
    pair.traffic_class = CE;
    let (va, rkey) = pair.target(0);
    let into = pair.nodes[0].sge(0, 4096);
    pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &[into])).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!((pair.seen(0, "CNP").len(), pair.seen(1, "CNP").len()), (1, 1));
}

#[test]
fn r102_r103_a25_at_most_one_per_50_us() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let mut sent = vec![];
    for offset in 0..2000 {
        let write = Forged::write(EPSN + offset, va, rkey, b"x").no_ack();
        if !marked(&mut pair, &write, CE).is_empty() {
            sent.push(pair.now);
        }
        pair.run_for(1_000);
    }
    assert!(sent.windows(2).all(|two| two[1].since(two[0]) >= limits::CNP_INTERVAL_NS));
    assert_eq!(sent.len(), 2_000_000 / limits::CNP_INTERVAL_NS as usize);
}

#[test]
fn r102_a_stranger_draws_no_cnp() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    let bytes = Forged::write(EPSN, va, rkey, b"x").bytes();
    let mut arrival = pair.arrival(1, bytes.len(), CE);
    arrival.src = [10, 0, 0, 99].into();
    pair.receive_from(1, &arrival, &bytes);
    assert_eq!(pair.collect().len(), 0);
}

#[test]
fn r107_a_nak_and_a_cnp_in_either_order() {
    for cnp_first in [true, false] {
        let mut pair = Pair::rc();
        let (va, rkey) = pair.target(0);
        let source = pair.nodes[0].sge(0, 600);
        pair.filter(|_| Fate::Drop);
        pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &[source])).unwrap();
        pair.run_for(1_000);
        let mut nak = pair.forge(0, Opcode::RC_ACKNOWLEDGE, EPSN + 1, |_, _| {}, &[]);
        nak.splice(12..16, [NAK_SEQUENCE, 0, 0, 0, 0, 0, 0, 0]);
        let mut bth = cnp(16);
        bth[7] = QPNS[0] as u8;
        let order = if cnp_first { [bth, nak] } else { [nak, bth] };
        pair.no_filter();
        for bytes in &order {
            pair.receive(0, bytes, 0);
        }
        let counters = &pair.nodes[0].counters;
        assert_eq!((counters.rcvd_cnp, counters.rcvd_seq_err), (1, 1));
        assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
    }
}
