//! X1 to X5: what a target refuses, and whose memory a request may reach.

use uroce_memory::Rkey;
use uroce_transport::*;
use uroce_wire::{DropReason, Opcode};

use crate::harness::forge::*;
use crate::harness::*;

fn xrc() -> Pair {
    Pair::new(Setup::xrc())
}

fn acknowledged(psn: u32, syndrome: u8) -> Vec<Said> {
    vec![("XRC_ACKNOWLEDGE", psn, Some(syndrome))]
}

/// A second SRQ in `xrcd` that completes to the send CQ of node 1.
fn another_srq(pair: &mut Pair, xrcd: XrcdId) -> (SrqId, u32) {
    let node = &mut pair.nodes[1];
    let attr = SrqAttr { max_wr: 4, max_sge: 1, limit: 0 };
    let xrc = XrcSrq { xrcd, cq: node.send_cq };
    let id = node.srqs.insert(SharedReceiveQueue::new_xrc(node.pd, xrc, &attr).unwrap());
    (id, node.srqs.get(id).unwrap().number())
}

#[test]
fn x3_a_number_that_names_no_xrc_srq_of_the_domain_is_refused() {
    let foreign = |pair: &mut Pair| another_srq(pair, XrcdId(8)).1;
    let basic = |pair: &mut Pair| {
        let node = &mut pair.nodes[1];
        let attr = SrqAttr { max_wr: 4, max_sge: 1, limit: 0 };
        let id = node.srqs.insert(SharedReceiveQueue::new(node.pd, &attr).unwrap());
        node.srqs.get(id).unwrap().number()
    };
    let destroyed = |pair: &mut Pair| {
        let (id, number) = another_srq(pair, XRCD);
        pair.nodes[1].srqs.remove(id).unwrap();
        number
    };
    let wrong: [fn(&mut Pair) -> u32; 5] = [|_| 0, |_| XRC_SRQN + 1, foreign, basic, destroyed];
    for name in wrong {
        let mut pair = xrc();
        pair.post(5, 0, 64);
        let srqn = name(&mut pair);
        let answer = pair.reply(&Forged::send(EPSN, b"data").xrc(srqn));
        assert_eq!(answer, acknowledged(EPSN, NAK_INVALID), "{srqn:#x}");
        assert_eq!(pair.state(), QpState::Err);
        assert_eq!(pair.events(), [AsyncEvent::QpReqErr(pair.nodes[1].qp.qpn())]);
        assert_eq!(pair.received(), [], "the receive stays in its SRQ");
    }
}

#[test]
fn x3_the_requester_learns_that_the_number_was_wrong() {
    let mut pair = xrc();
    pair.nodes[0].send(&SendWr { srqn: Some(3), ..wr(1, SendOp::Send) }).unwrap();
    pair.nodes[0].send(&wr(2, SendOp::Send)).unwrap();
    pair.run();
    let done: Vec<_> = pair.nodes[0].sends().iter().map(|wc| wc.status).collect();
    assert_eq!(done, [WcStatus::RemInvReqErr, WcStatus::WrFlushErr]);
}

#[test]
fn x3_one_target_serves_all_srqs_of_its_domain() {
    let mut pair = xrc();
    let (id, number) = another_srq(&mut pair, XRCD);
    for wr_id in 0..4 {
        pair.nodes[1].recv(wr_id, &[]).unwrap();
        pair.nodes[1].srqs.get_mut(id).unwrap().post(&RecvWr::new(10 + wr_id, &[])).unwrap();
        let srqn = Some(if wr_id % 2 == 0 { XRC_SRQN } else { number });
        pair.nodes[0].send(&SendWr { srqn, ..wr(wr_id, SendOp::Send) }).unwrap();
    }
    pair.run();
    assert!(pair.nodes[1].recvs().iter().map(|wc| wc.wr_id).eq([0, 1]));
    assert!(pair.nodes[1].sends().iter().map(|wc| wc.wr_id).eq([10, 11]));
}

#[test]
fn x3_a_message_stays_with_the_srq_that_it_began_with() {
    for first in [Opcode::RC_SEND_FIRST, Opcode::RC_WRITE_FIRST] {
        let mut pair = xrc();
        let (_, other) = another_srq(&mut pair, XRCD);
        let (va, rkey) = pair.target(0);
        pair.post(5, 4096, 4096);
        let write = first == Opcode::RC_WRITE_FIRST;
        let begin = Forged::data(first, EPSN, &[1; 256]);
        let begin = if write { begin.reth(va, rkey, 768) } else { begin };
        assert_eq!(pair.reply(&begin.xrc(XRC_SRQN)), acknowledged(EPSN, ACK));
        let middle = Opcode(first.0 + 1);
        let next = Forged::data(middle, EPSN + 1, &[1; 256]).xrc(other);
        assert_eq!(pair.reply(&next), acknowledged(EPSN + 1, NAK_INVALID));
        let failed = if write { vec![] } else { vec![(5, WcStatus::RemInvReqErr)] };
        assert_eq!(pair.received(), failed);
    }
}

#[test]
fn x3_a_destroyed_srq_cuts_its_message_short() {
    let mut pair = xrc();
    pair.post(5, 4096, 4096);
    let begin = Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]).xrc(XRC_SRQN);
    assert_eq!(pair.reply(&begin), acknowledged(EPSN, ACK));
    let node = &mut pair.nodes[1];
    let id = node.xrc_srq.unwrap();
    node.srqs.remove(id).unwrap();
    node.qp.forget_srq(id);
    // A new queue at the same place is not the old one.
    let (again, number) = another_srq(&mut pair, XRCD);
    assert!(again == id && number != XRC_SRQN);
    let next = Forged::data(Opcode::RC_SEND_LAST, EPSN + 1, &[1; 9]).xrc(XRC_SRQN);
    assert_eq!(pair.reply(&next), acknowledged(EPSN + 1, NAK_INVALID));
    assert_eq!((pair.received(), pair.nodes[1].sends().len()), (vec![], 0));
}

#[test]
fn x3_keys_belong_to_the_protection_domain_of_the_srq() {
    // A region of another protection domain: not reached through this SRQ.
    let requests: [Forge; 4] = [
        |va, rkey| Forged::write(EPSN, va, rkey, b"data"),
        |va, rkey| Forged::read(EPSN, va, rkey, 4),
        |va, rkey| Forged::fetch_add(EPSN, va, rkey, 1),
        |va, rkey| Forged::atomic_write(EPSN, va, rkey, 8, &[1; 8]),
    ];
    for request in requests {
        let mut pair = xrc();
        let node = &mut pair.nodes[1];
        let pd = node.mem.alloc_pd().unwrap();
        let foreign = node.mem.reg_mr(pd, node.region.clone(), node.va(0), all_access()).unwrap();
        let (va, rkey) = pair.target(0);
        let own = pair.hit(&request(va, rkey).xrc(XRC_SRQN));
        assert!(own[0].syndrome() == Some(ACK), "{own:?}");
        let mut next = request(va, foreign.rkey).xrc(XRC_SRQN);
        next.bth.psn = next.bth.psn.add(1);
        assert_eq!(pair.reply(&next), acknowledged(EPSN + 1, NAK_ACCESS));
    }
}

#[test]
fn x3_the_protection_domain_of_the_target_itself_reaches_nothing() {
    let mut pair = xrc();
    let node = &mut pair.nodes[1];
    let pd = node.qp.init().pd;
    let own = node.mem.reg_mr(pd, node.region.clone(), node.va(0), all_access()).unwrap();
    let va = node.va(0);
    let write = Forged::write(EPSN, va, own.rkey, b"data").xrc(XRC_SRQN);
    assert_eq!(pair.reply(&write), acknowledged(EPSN, NAK_ACCESS));
}

#[test]
fn x4_r58_a_repeated_read_is_checked_under_the_keys_of_its_first_time() {
    let mut pair = xrc();
    let (va, rkey) = pair.target(0);
    let read = Forged::read(EPSN, va, rkey, 600).xrc(XRC_SRQN);
    let first = said(&pair.hit(&read));
    assert_eq!(first.len(), 3);
    // Other requests for other SRQs come in between; the repetition does not depend on them.
    let (id, number) = another_srq(&mut pair, XRCD);
    pair.nodes[1].srqs.get_mut(id).unwrap().post(&RecvWr::new(1, &[])).unwrap();
    assert_eq!(pair.reply(&Forged::send(EPSN + 3, b"").xrc(number)), acknowledged(EPSN + 3, ACK));
    assert_eq!(pair.reply(&read), first);
    let wrong = Forged::read(EPSN, va, Rkey(rkey.0 ^ 0x100), 600).xrc(XRC_SRQN);
    assert_eq!(pair.reply(&wrong), []);
    assert_eq!(pair.dropped(DropReason::DuplicateReadInvalid), 1);
}

#[test]
fn x1_requests_to_an_initiator_and_responses_to_a_target_are_dropped() {
    let mut pair = xrc();
    let mut bytes = Forged::send(0x900, b"data").xrc(XRC_SRQN).bytes();
    pair.receive(0, &bytes, 0);
    assert_eq!(pair.nodes[0].dropped(DropReason::XrcDirection), 1);
    for opcode in [Opcode::XRC_ACKNOWLEDGE, Opcode::XRC_READ_RESPONSE_ONLY] {
        bytes = Forged::new(opcode, EPSN).bytes();
        bytes.resize(20, 0);
        pair.receive(1, &bytes, 0);
    }
    assert_eq!(pair.dropped(DropReason::XrcDirection), 2);
    assert_eq!((pair.state(), pair.expected()), (QpState::Rts, EPSN));
}

#[test]
fn x1_r3_rc_opcodes_are_dropped_by_both_ends() {
    let mut pair = xrc();
    for opcode in (0..=0x1d).map(Opcode).filter(|opcode| opcode.info().is_some()) {
        let mut bytes = Forged::new(opcode, EPSN).bytes();
        bytes.resize(80, 0);
        pair.receive(0, &bytes, 0);
        pair.receive(1, &bytes, 0);
    }
    assert_eq!(pair.dropped(DropReason::ServiceMismatch), 25);
    assert_eq!(pair.nodes[0].dropped(DropReason::ServiceMismatch), 25);
    assert_eq!((pair.collect().len(), pair.expected()), (0, EPSN));
}

#[test]
fn x5_r91_reset_forgets_completions_in_the_cqs_of_all_srqs() {
    let mut pair = xrc();
    let (id, number) = another_srq(&mut pair, XRCD);
    pair.nodes[1].recv(1, &[]).unwrap();
    pair.nodes[1].srqs.get_mut(id).unwrap().post(&RecvWr::new(2, &[])).unwrap();
    pair.nodes[0].send(&wr(1, SendOp::Send)).unwrap();
    pair.nodes[0].send(&SendWr { srqn: Some(number), ..wr(2, SendOp::Send) }).unwrap();
    pair.run();
    pair.nodes[1].enter_state(QpState::Reset).unwrap();
    assert!(pair.nodes[1].recvs().is_empty() && pair.nodes[1].sends().is_empty());
}

#[test]
fn x5_r66_an_overflowing_cq_of_the_srq_takes_the_target_down() {
    let mut pair = Pair::new(Setup { cqe: 1, ..Setup::xrc() });
    for id in 0..2 {
        pair.nodes[1].recv(id, &[]).unwrap();
        let quiet = SendWr { flags: SendFlags::empty(), ..wr(id, SendOp::Send) };
        pair.nodes[0].send(&quiet).unwrap();
    }
    pair.run_for(50_000);
    let cq = pair.nodes[1].recv_cq;
    assert_eq!(pair.state(), QpState::Err);
    assert!(pair.events().contains(&AsyncEvent::CqErr(cq)));
}

#[test]
fn x5_x7_r87_an_error_flushes_the_receive_in_use_and_leaves_the_others_to_the_srq() {
    let mut pair = xrc();
    pair.post(5, 4096, 4096);
    pair.post(6, 4096, 4096);
    let begin = Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256]).xrc(XRC_SRQN);
    assert_eq!(pair.reply(&begin), acknowledged(EPSN, ACK));
    pair.nodes[1].enter_state(QpState::Err).unwrap();
    assert_eq!(pair.received(), [(5, WcStatus::WrFlushErr)]);
    let id = pair.nodes[1].xrc_srq.unwrap();
    assert_eq!(pair.nodes[1].srqs.get(id).unwrap().len(), 1);
    assert_eq!(pair.events(), [], "the SRQ serves other targets");
}
