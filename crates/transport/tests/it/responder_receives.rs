//! Receives, their completions, and invalidation (R37 to R42, B24).

use uroce_memory::{Access, MwBind, MwType, Rkey, Sge};
use uroce_transport::*;
use uroce_wire::{Opcode, rnr_timer_us};

use crate::harness::forge::*;
use crate::harness::*;

const FIRST: Opcode = Opcode::RC_WRITE_FIRST;
const MIDDLE: Opcode = Opcode::RC_WRITE_MIDDLE;

#[test]
fn r37_no_receive_draws_rnr_with_the_timer_and_psn() {
    for timer in [0, 1, 12, 25, 31] {
        let mut pair = Pair::new(Setup { min_rnr_timer: timer, ..Setup::default() });
        let (va, rkey) = pair.target(0);
        let with_imm = Forged::data(Opcode::RC_WRITE_ONLY_IMM, EPSN, &[5; 8]);
        let with_imm = with_imm.reth(va, rkey, 8).imm(9);
        for forged in [Forged::send(EPSN, b"hello"), with_imm.clone()] {
            let answers = pair.hit(&forged);
            assert_eq!(said(&answers), acknowledge(EPSN, 0x20 | timer));
            assert_eq!((msns(&answers), pair.expected()), (vec![0], EPSN));
            assert!(pair.memory().iter().all(|byte| *byte == 0));
        }
        pair.post(1, 64, 64);
        assert_eq!(pair.reply(&with_imm), acknowledge(EPSN, ACK));
        let wc = pair.nodes[1].recvs()[0];
        assert_eq!((wc.wr_id, wc.byte_len, wc.imm), (1, 8, Some(9)));
        assert_eq!(pair.nodes[1].bytes(0, 8), [5; 8]);
    }
}

#[test]
fn r37_a_long_write_with_immediate_waits_at_its_last_packet() {
    let mut pair = in_the_middle_of(true);
    pair.nodes[1].recvs();
    let mut pair2 = Pair::rc();
    let (va, rkey) = pair2.target(0);
    pair2.give(&Forged::data(FIRST, EPSN, &[1; 256]).reth(va, rkey, 260).no_ack());
    let last = Forged::data(Opcode::RC_WRITE_LAST_IMM, EPSN + 1, &[2; 4]).imm(3);
    assert_eq!(pair2.reply(&last), acknowledge(EPSN + 1, 0x20 | 12));
    pair2.post(1, 4096, 4);
    assert_eq!(pair2.reply(&last), acknowledge(EPSN + 1, ACK));
    assert_eq!(pair2.nodes[1].recvs()[0].byte_len, 260);
    // And with a receive there is no wait.
    let middle = Forged::data(MIDDLE, EPSN + 1, &[2; 256]).no_ack();
    pair.give(&middle);
    let last = Forged::data(Opcode::RC_WRITE_LAST_IMM, EPSN + 2, &[2; 256]).imm(3);
    assert_eq!(pair.reply(&last), acknowledge(EPSN + 2, ACK));
}

#[test]
fn r38_a_receive_with_a_bad_lkey() {
    let mut pair = Pair::rc();
    let good = pair.nodes[1].sge(0, 4);
    let bad = Sge { lkey: uroce_memory::Lkey(good.lkey.0 ^ 1), ..pair.nodes[1].sge(64, 64) };
    pair.nodes[1].recv(1, &[good, bad]).unwrap();
    pair.post(2, 128, 64);
    assert_eq!(pair.reply(&Forged::send(EPSN, &[1; 8])), acknowledge(EPSN, NAK_OPERATIONAL));
    assert_eq!(pair.received(), [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)]);
    assert!(pair.memory().iter().all(|byte| *byte == 0));
    assert_eq!(pair.events(), []);
}

#[test]
fn r38_a_receive_in_read_only_memory() {
    let mut pair = Pair::rc();
    let node = &mut pair.nodes[1];
    let (region, access) = (node.region.clone(), Access::REMOTE_READ);
    let read_only = node.mem.reg_mr(node.pd, region.clone(), region.addr(), access).unwrap();
    let sge = Sge { addr: region.addr(), length: 64, lkey: read_only.lkey };
    node.recv(1, &[sge]).unwrap();
    assert_eq!(pair.reply(&Forged::send(EPSN, b"x")), acknowledge(EPSN, NAK_OPERATIONAL));
    assert_eq!(pair.received(), [(1, WcStatus::LocProtErr)]);
}

#[test]
fn r38_the_buffers_of_an_srq_belong_to_the_srqs_domain() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 2, limit: 0 });
    let mut pair = Pair::new(Setup { srq, ..Setup::default() });
    let node = &mut pair.nodes[1];
    let pd = node.mem.alloc_pd().unwrap();
    let region = node.region.clone();
    let mr = node.mem.reg_mr(pd, region.clone(), region.addr(), all_access()).unwrap();
    // The SRQ is of the QP's domain here: a buffer of another domain is refused.
    let sge = Sge { addr: region.addr(), length: 64, lkey: mr.lkey };
    node.recv(1, &[sge]).unwrap();
    assert_eq!(pair.reply(&Forged::send(EPSN, b"x")), acknowledge(EPSN, NAK_OPERATIONAL));
    // The other way round: an SRQ of domain `pd` under a QP of another domain.
    pair.reconnect();
    let id = pair.nodes[1].qp.srq().unwrap();
    let attr = SrqAttr { max_wr: 8, max_sge: 2, limit: 0 };
    *pair.nodes[1].srqs.get_mut(id).unwrap() = SharedReceiveQueue::new(pd, &attr).unwrap();
    pair.nodes[1].recv(2, &[sge]).unwrap();
    assert_eq!(pair.reply(&Forged::send(EPSN, b"y")), acknowledge(EPSN, ACK));
    assert_eq!(pair.nodes[1].bytes(0, 1), b"y");
}

#[test]
fn r39_r40_data_is_there_before_completion_and_ack_and_in_order() {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 1024, 64);
    pair.post(2, 2048, 64);
    pair.give(&Forged::write(EPSN, va, rkey, b"first"));
    assert_eq!(pair.received(), []);
    pair.give(&Forged::send(EPSN + 1, b"second"));
    assert_eq!(pair.nodes[1].bytes(1024, 6), b"second");
    let with_imm = Forged::data(Opcode::RC_WRITE_ONLY_IMM, EPSN + 2, b"third");
    pair.give(&with_imm.reth(va + 64, rkey, 5).imm(7));
    pair.give(&Forged::read(EPSN + 3, va, rkey, 69));
    let done: Vec<_> =
        pair.nodes[1].recvs().iter().map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.imm)).collect();
    let want = [(1, WcOpcode::Recv, 6, None), (2, WcOpcode::RecvRdmaWithImm, 5, Some(7))];
    assert_eq!(done, want);
    let answers = pair.collect();
    assert_eq!(said(&answers)[0], ("RC_ACKNOWLEDGE", EPSN + 2, Some(ACK)));
    let read = answers[1].packet().payload().to_vec();
    assert_eq!((&read[..5], &read[64..]), (&b"first"[..], &b"third"[..]));
}

/// What a SEND_WITH_INVALIDATE of `rkey` does to a fresh pair prepared by `make`.
fn invalidate(make: impl FnOnce(&mut Pair) -> Rkey) -> (u8, Vec<(u64, WcStatus)>) {
    let mut pair = Pair::rc();
    let rkey = make(&mut pair);
    pair.post(1, 0, 64);
    let answers = pair.hit(&Forged::send_inv(EPSN, rkey, b"data"));
    assert_eq!(answers.len(), 1);
    // After the data (R41): it is there in any case.
    assert_eq!(pair.nodes[1].bytes(0, 4), b"data");
    (answers[0].syndrome().unwrap(), pair.received())
}

fn bound(pair: &mut Pair, mw_type: MwType, qpn: u32) -> Rkey {
    let (va, mr) = (pair.nodes[1].va(4096), pair.nodes[1].mr.lkey);
    let node = &mut pair.nodes[1];
    let mw = node.mem.alloc_mw(node.pd, mw_type).unwrap();
    let new_rkey = Rkey((mw.rkey.0 & !0xff) | (mw.rkey.0.wrapping_add(1) & 0xff));
    let access = Access::REMOTE_WRITE;
    let bind = MwBind { mw: mw.id, mr, new_rkey, va, length: 4096, access, pd: node.pd, qpn };
    node.mem.bind_mw(&bind).unwrap()
}

#[test]
fn r41_v93_b24_what_a_peer_may_invalidate() {
    let own = QPNS[1];
    assert_eq!(invalidate(|p| bound(p, MwType::Type2B, own)), (ACK, vec![(1, WcStatus::Success)]));
    let refused = (NAK_ACCESS, vec![(1, WcStatus::MwBindErr)]);
    let node = |pair: &mut Pair| pair.nodes[1].mr;
    assert_eq!(invalidate(|p| node(p).rkey), refused, "a registered region");
    assert_eq!(invalidate(|p| Rkey(node(p).lkey.0)), refused, "its lkey");
    assert_eq!(invalidate(|p| Rkey(node(p).rkey.0 ^ 0x80)), refused, "a wrong variant");
    assert_eq!(invalidate(|_| Rkey(0)), refused, "key 0");
    assert_eq!(invalidate(|p| bound(p, MwType::Type1, own)), refused, "a type 1 window");
    assert_eq!(invalidate(|p| bound(p, MwType::Type2B, own + 1)), refused, "of another QP");
    let wrong = |p: &mut Pair| Rkey(bound(p, MwType::Type2B, own).0 ^ 1);
    assert_eq!(invalidate(wrong), refused, "a wrong variant of a window");
    let unbound = |p: &mut Pair| {
        let node = &mut p.nodes[1];
        node.mem.alloc_mw(node.pd, MwType::Type2B).unwrap().rkey
    };
    assert_eq!(invalidate(unbound), refused, "a window that is not bound");
}

#[test]
fn r41_an_invalidated_window_gives_no_access_and_a_repetition_does_no_harm() {
    let mut pair = Pair::rc();
    let rkey = bound(&mut pair, MwType::Type2B, QPNS[1]);
    pair.post(1, 0, 64);
    let va = pair.nodes[1].va(4096);
    let send = Forged::send_inv(EPSN + 1, rkey, b"data");
    assert_eq!(pair.reply(&Forged::write(EPSN, va, rkey, b"in")), acknowledge(EPSN, ACK));
    assert_eq!(pair.reply(&send), acknowledge(EPSN + 1, ACK));
    let wc = pair.nodes[1].recvs()[0];
    assert_eq!((wc.invalidated, wc.flags), (Some(rkey.0), WcFlags::WITH_INV));
    assert_eq!(pair.reply(&send), acknowledge(EPSN + 1, ACK));
    let late = Forged::write(EPSN + 2, va, rkey, b"no");
    assert_eq!(pair.reply(&late), acknowledge(EPSN + 2, NAK_ACCESS));
    assert_eq!(pair.nodes[1].bytes(4096, 2), b"in");
}

#[test]
fn r42_only_the_solicited_bit_of_the_last_packet_raises_a_solicited_event() {
    let mut pair = Pair::rc();
    for wr_id in 0..4 {
        pair.post(wr_id, 0, 512);
    }
    let cq = pair.nodes[1].recv_cq;
    pair.nodes[1].cqs.get_mut(cq).unwrap().arm(Notify::Solicited);
    pair.give(&Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]).solicited());
    pair.give(&Forged::data(Opcode::RC_SEND_LAST, EPSN + 1, b"x"));
    pair.give(&Forged::send(EPSN + 2, b"x"));
    assert_eq!(pair.nodes[1].cqs.pop_event(), None);
    let (va, rkey) = pair.target(0);
    pair.give(&Forged::write(EPSN + 3, va, rkey, b"x").solicited());
    assert_eq!(pair.nodes[1].cqs.pop_event(), None, "a plain WRITE completes nothing");
    pair.give(&Forged::send(EPSN + 4, b"x").solicited());
    assert_eq!(pair.nodes[1].cqs.pop_event(), Some(cq));
    pair.give(&Forged::send(EPSN + 5, b"x").solicited());
    assert_eq!(pair.nodes[1].cqs.pop_event(), None, "once per arming");
    // An error counts as solicited.
    pair.post(9, 0, 0);
    pair.nodes[1].cqs.get_mut(cq).unwrap().arm(Notify::Solicited);
    pair.give(&Forged::send(EPSN + 6, b"too long"));
    assert_eq!(pair.nodes[1].cqs.pop_event(), Some(cq));
}

#[test]
fn b29_rnr_timer_code_25_is_61440_us() {
    assert_eq!(rnr_timer_us(25), 61_440);
}
