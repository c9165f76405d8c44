//! UD (R7, R99, R100, B9, B27, A34).

use uroce_memory::Sge;
use uroce_transport::*;
use uroce_wire::{DropReason, Mtu, Opcode, Qpn, ud_grh_area};

use crate::harness::forge::*;
use crate::harness::*;

const QKEY: u32 = 0x1111;

fn ud() -> Pair {
    Pair::of(QpType::Ud)
}

#[test]
fn r7_another_qkey_is_dropped_silently() {
    let mut pair = ud();
    pair.post(1, 0, 256);
    for qkey in [0, QKEY + 1, QKEY | 1 << 31, u32::MAX] {
        assert_eq!(pair.reply(&Forged::ud(qkey, b"data")), []);
    }
    assert_eq!((pair.dropped(DropReason::QkeyMismatch), pair.received()), (4, vec![]));
    pair.give(&Forged::ud(QKEY, b"data"));
    assert_eq!(pair.received(), [(1, WcStatus::Success)]);
}

#[test]
fn r7_a_privileged_qkey_in_a_work_request_stands_for_the_qps_own() {
    for (given, sent) in
        [(0x2222, 0x2222), (0x8000_0000, QKEY), (u32::MAX, QKEY), (1 << 30, 1 << 30)]
    {
        let mut pair = ud();
        let to = pair.ud_to(1).map(|to| UdDestination { qkey: given, ..to });
        pair.nodes[0].send(&SendWr { ud: to, ..wr(1, SendOp::Send) }).unwrap();
        pair.run();
        let deth = pair.trace[0].packet().deth().unwrap();
        assert_eq!((deth.qkey, deth.src_qpn), (sent, Qpn::new(QPNS[0])), "{given:#x}");
    }
}

#[test]
fn v92_only_completions_of_ud_say_that_there_is_a_grh() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut pair = Pair::of(qp_type);
        for wr_id in 0..2 {
            pair.post(wr_id, 0, 1024);
        }
        let here = pair.nodes[0].va(0);
        // One short message and one of two packets, which takes the long way.
        for length in [64, if qp_type == QpType::Ud { 64 } else { 300 }] {
            let sges = [pair.nodes[0].sge(0, length)];
            let ud = pair.ud_to(1);
            pair.nodes[0].send(&SendWr { ud, ..wr_sges(here, SendOp::Send, &sges) }).unwrap();
        }
        pair.run();
        let flags: Vec<_> = pair.nodes[1].recvs().iter().map(|wc| wc.flags).collect();
        let due = if qp_type == QpType::Ud { WcFlags::GRH } else { WcFlags::empty() };
        assert_eq!(flags, [due; 2], "{qp_type:?}");
    }
}

#[test]
fn r99_the_grh_area_holds_an_ipv4_header_in_its_last_20_bytes() {
    let mut pair = ud();
    pair.nodes[1].fill(0, &[0xee; 128]);
    pair.post(1, 0, 128);
    let bytes = Forged::ud(QKEY, b"datagram!").bytes();
    let mut arrival = pair.arrival(1, bytes.len(), 0xb8);
    (arrival.ip_id, arrival.hop_limit) = (0x1234, 7);
    pair.receive_from(1, &arrival, &bytes);
    let area = pair.nodes[1].bytes(0, 40);
    assert_eq!(area[..20], [0; 20]);
    assert_eq!((area[20], area[21], area[28], area[29]), (0x45, 0xb8, 7, 17));
    assert_eq!((&area[32..36], &area[36..40]), (&IPS[0][..], &IPS[1][..]));
    let length = bytes.len() as u16 + 8;
    let same = ud_grh_area(arrival.src, arrival.dst, 0x1234, 7, 0xb8, length);
    assert_eq!(area, same);
    assert_eq!(pair.nodes[1].bytes(40, 9), b"datagram!");
    assert_eq!(pair.nodes[1].bytes(49, 79), [0xee; 79]);
    let wc = pair.nodes[1].recvs()[0];
    assert_eq!((wc.byte_len, wc.flags, wc.src_qpn), (49, WcFlags::GRH, QPNS[0]));
    assert_eq!(wc.src_ip, Some(arrival.src));
}

#[test]
fn r99_the_grh_area_holds_an_ipv6_header() {
    let mut pair = ud();
    pair.post(1, 0, 128);
    let bytes = Forged::ud(QKEY, b"x").bytes();
    let mut arrival = pair.arrival(1, bytes.len(), 0);
    arrival.src = "fe80::1".parse().unwrap();
    arrival.dst = "fe80::2".parse().unwrap();
    pair.receive_from(1, &arrival, &bytes);
    let area = pair.nodes[1].bytes(0, 40);
    assert_eq!((area[0], area[6], area[23], area[39]), (0x60, 17, 1, 2));
}

#[test]
fn r99_no_receive_drops_the_datagram() {
    let mut pair = ud();
    assert_eq!(pair.reply(&Forged::ud(QKEY, b"lost")), []);
    assert_eq!(pair.dropped(DropReason::UdNoReceive), 1);
    pair.post(1, 0, 128);
    pair.give(&Forged::ud(QKEY, b"found"));
    assert_eq!((pair.received(), pair.state()), (vec![(1, WcStatus::Success)], QpState::Rts));
}

#[test]
fn r99_b9_too_long_for_the_receive_is_dropped_and_the_next_one_delivered() {
    for (posted, length, good) in [(48, 8, true), (47, 8, false), (40, 0, true), (39, 0, false)] {
        let mut pair = ud();
        pair.post(1, 0, posted);
        assert_eq!(pair.reply(&Forged::ud(QKEY, &vec![1; length])), []);
        assert_eq!(pair.dropped(DropReason::UdTooLong), u64::from(!good));
        assert_eq!(pair.state(), QpState::Rts);
        if good {
            assert_eq!(pair.received(), [(1, WcStatus::Success)]);
            continue;
        }
        assert_eq!((pair.received(), pair.events()), (vec![], vec![]));
        assert!(pair.memory().iter().all(|byte| *byte == 0));
        if posted >= 40 {
            pair.give(&Forged::ud(QKEY, b"short"));
            assert_eq!(pair.received(), [(1, WcStatus::Success)], "the same receive");
        }
    }
}

#[test]
fn r99_r116_b9_with_an_srq_the_long_datagram_uses_up_nothing() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 0 });
    let mut pair = Pair::new(Setup { qp_type: QpType::Ud, srq, ..Setup::default() });
    pair.post(1, 0, 64);
    pair.give(&Forged::ud(QKEY, &[1; 25]));
    let node = &pair.nodes[1];
    let waiting = node.srqs.get(node.qp.srq().unwrap()).unwrap().len();
    assert_eq!(waiting, 1, "another queue pair may take it");
    pair.give(&Forged::ud(QKEY, &[2; 24]));
    assert_eq!((pair.received(), pair.state()), (vec![(1, WcStatus::Success)], QpState::Rts));
}

#[test]
fn r90_b9_a_long_datagram_does_not_say_that_the_srq_runs_low() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 1 });
    let mut pair = Pair::new(Setup { qp_type: QpType::Ud, srq, ..Setup::default() });
    pair.post(1, 0, 64);
    pair.give(&Forged::ud(QKEY, &[1; 25]));
    assert_eq!((pair.dropped(DropReason::UdTooLong), pair.events()), (1, vec![]));
    pair.give(&Forged::ud(QKEY, &[2; 24]));
    let id = pair.nodes[1].qp.srq().unwrap();
    assert_eq!(pair.events(), [AsyncEvent::SrqLimitReached(id)], "when it is used up");
}

#[test]
fn r99_a34_up_to_the_port_mtu() {
    let mtu = Mtu::M4096.bytes();
    for (length, good) in [(0, true), (mtu, true), (mtu + 4, false), (2 * mtu, false)] {
        let mut pair = ud();
        pair.post(1, 0, 16_384);
        pair.give(&Forged::ud(QKEY, &vec![1; length]));
        let want = if good { vec![(1, WcStatus::Success)] } else { vec![] };
        assert_eq!((pair.received(), pair.state()), (want, QpState::Rts), "{length}");
    }
}

#[test]
fn r11_a_wrong_pad_is_dropped() {
    let mut pair = ud();
    pair.post(1, 0, 128);
    pair.give(&Forged::ud(QKEY, &[1; 5]).pad(1));
    pair.give(&Forged::ud(QKEY, &[1; 4]).pad(3));
    assert_eq!((pair.received(), pair.dropped(DropReason::BadPad)), (vec![], 2));
}

#[test]
fn r99_psns_mean_nothing() {
    let mut pair = ud();
    for (wr_id, psn) in [5, 5, 0xff_ffff, 0, 3].into_iter().enumerate() {
        pair.post(wr_id as u64, 0, 128);
        let mut forged = Forged::ud(QKEY, b"x");
        forged.bth.psn = uroce_wire::Psn::new(psn);
        assert_eq!(pair.reply(&forged), []);
    }
    assert_eq!(pair.received().len(), 5);
}

#[test]
fn r42_immediate_and_solicited_datagrams() {
    let mut pair = ud();
    pair.post(1, 0, 128);
    pair.post(2, 0, 128);
    let cq = pair.nodes[1].recv_cq;
    pair.nodes[1].cqs.get_mut(cq).unwrap().arm(Notify::Solicited);
    let mut forged = Forged::ud(QKEY, b"x").imm(0xfeed_beef);
    forged.bth.opcode = Opcode::UD_SEND_ONLY_IMM;
    pair.give(&forged);
    assert_eq!(pair.nodes[1].cqs.pop_event(), None);
    pair.give(&forged.solicited());
    assert_eq!(pair.nodes[1].cqs.pop_event(), Some(cq));
    let wcs = pair.nodes[1].recvs();
    assert!(wcs.iter().all(|wc| wc.imm == Some(0xfeed_beef) && wc.byte_len == 41));
    assert!(wcs.iter().all(|wc| wc.flags == WcFlags::GRH | WcFlags::WITH_IMM));
}

#[test]
fn r38_a_bad_lkey_is_the_receivers_own_error() {
    let mut pair = ud();
    let bad = Sge { lkey: uroce_memory::Lkey(5), ..pair.nodes[1].sge(0, 64) };
    pair.nodes[1].recv(1, &[bad]).unwrap();
    assert_eq!(pair.reply(&Forged::ud(QKEY, b"x")), []);
    assert_eq!(pair.received(), [(1, WcStatus::LocProtErr)]);
    assert!(pair.memory().iter().all(|byte| *byte == 0));
}

#[test]
fn b27_a_multicast_datagram_passes_whatever_its_addresses() {
    let mut pair = ud();
    pair.post(1, 0, 128);
    let mut forged = Forged::ud(QKEY, b"to all");
    forged.bth.dest_qpn = Qpn::MULTICAST;
    let bytes = forged.bytes();
    let mut arrival = pair.arrival(1, bytes.len(), 0);
    (arrival.src, arrival.dst) = ([10, 9, 9, 9].into(), [239, 1, 2, 3].into());
    pair.receive_from(1, &arrival, &bytes);
    let wc = pair.nodes[1].recvs()[0];
    assert_eq!((wc.qpn, wc.src_ip), (QPNS[1], Some(arrival.src)));
    assert_eq!(pair.nodes[1].bytes(36, 4), [239, 1, 2, 3]);
}

#[test]
fn r8_any_peer_may_send_a_datagram() {
    let mut pair = ud();
    for last in 1..5u8 {
        pair.post(last.into(), 0, 128);
        let bytes = Forged::ud(QKEY, b"x").bytes();
        let mut arrival = pair.arrival(1, bytes.len(), 0);
        arrival.src = [192, 168, 0, last].into();
        pair.receive_from(1, &arrival, &bytes);
        assert_eq!(pair.nodes[1].recvs()[0].src_ip, Some(arrival.src));
    }
}
