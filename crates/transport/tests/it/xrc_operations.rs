//! X1, X2, X4, X5: every operation of an extended reliable connection, with its bytes.

use uroce_memory::{Access, MwBind, MwType, Rkey};
use uroce_transport::*;
use uroce_wire::{DropReason, Opcode, Service};

use crate::harness::*;

fn xrc() -> Pair {
    Pair::new(Setup::xrc())
}

#[test]
fn x4_send_write_and_read_at_every_interesting_length() {
    for length in [0, 1, 3, 255, 256, 257, 512, 4095, 60_000] {
        let mut pair = xrc();
        pair.move_bytes(length);
        assert_eq!(pair.nodes[0].counters.completer_retry_err, 0);
    }
}

#[test]
fn x1_x2_requests_name_the_srq_right_behind_the_bth_and_answers_do_not() {
    let mut pair = xrc();
    pair.move_bytes(1000);
    assert!(!pair.seen(1, "READ_RESPONSE").is_empty() && !pair.seen(1, "ACKNOWLEDGE").is_empty());
    for seen in &pair.trace {
        let packet = seen.packet();
        assert_eq!((packet.info.service, packet.bth.opcode.0 & 0xe0), (Service::Xrc, 0xa0));
        let named = packet.xrceth().map(|xrceth| xrceth.srqn);
        assert_eq!(named, (seen.from == 0).then_some(XRC_SRQN), "{}", seen.name());
        if seen.from == 0 {
            assert_eq!(seen.bytes[12..16], XRC_SRQN.to_be_bytes());
        }
    }
}

#[test]
fn x5_a_receive_completes_to_the_cq_of_the_srq_with_the_number_of_the_target() {
    let mut pair = xrc();
    pair.nodes[1].recv(5, &[]).unwrap();
    pair.nodes[0].send(&wr(1, SendOp::Send)).unwrap();
    pair.run();
    let id = pair.nodes[1].xrc_srq.unwrap();
    let xrc = pair.nodes[1].srqs.get(id).unwrap().xrc().unwrap();
    assert_eq!((xrc.cq, xrc.xrcd), (pair.nodes[1].recv_cq, XRCD));
    assert_ne!(pair.nodes[1].qp.recv_cq(), xrc.cq, "the target has no CQ that anybody polls");
    let got = pair.nodes[1].recvs();
    assert_eq!((got[0].wr_id, got[0].qpn, got[0].src_qpn), (5, QPNS[1], QPNS[0]));
}

#[test]
fn x4_atomics_atomic_write_and_flush() {
    let mut pair = xrc();
    let (va, rkey) = (pair.nodes[1].va(64), pair.nodes[1].rkey());
    pair.nodes[1].region.store_u64(64, 40).unwrap();
    let sges: Vec<_> = (0..2).map(|i| pair.nodes[0].sge(8 * i, 8)).collect();
    pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 2 }, &sges[..1])).unwrap();
    let swap = SendOp::CompareSwap { va, rkey, compare: 42, swap: 7 };
    pair.nodes[0].send(&wr_sges(2, swap, &sges[1..])).unwrap();
    pair.run();
    assert_eq!(pair.nodes[1].region.load_u64(64).unwrap(), 7);
    let original = |at| pair.nodes[0].region.load_u64(at).unwrap();
    assert_eq!((original(0), original(8)), (40, 42));
    let parts: [&[u8]; 1] = [&[1, 2, 3, 4, 5, 6, 7, 8]];
    pair.nodes[0].send(&wr_inline(3, SendOp::AtomicWrite { va, rkey }, &parts)).unwrap();
    let flush = SendOp::Flush { va, rkey, length: 64, placement: 1, selectivity: 0 };
    pair.nodes[0].send(&wr(4, flush)).unwrap();
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.len() == 4 && done.iter().all(Wc::is_ok), "{done:?}");
    assert_eq!(pair.nodes[1].bytes(64, 8), parts[0]);
    assert_eq!(pair.seen(1, "XRC_ATOMIC_ACKNOWLEDGE").len(), 2);
    assert_eq!(pair.seen(1, "XRC_READ_RESPONSE_ONLY").len(), 2);
}

#[test]
fn x4_r41_a_send_invalidates_a_window_of_the_srqs_protection_domain() {
    let mut pair = xrc();
    let pd = pair.nodes[1].pd;
    let mw = pair.nodes[1].mem.alloc_mw(pd, MwType::Type2B).unwrap();
    let new_rkey = Rkey((mw.rkey.0 & !0xff) | (mw.rkey.0.wrapping_add(1) & 0xff));
    let (va, mr) = (pair.nodes[1].va(4096), pair.nodes[1].mr.lkey);
    let (access, qpn) = (Access::REMOTE_WRITE, QPNS[1]);
    let bind = MwBind { mw: mw.id, mr, new_rkey, va, length: 64, access, pd, qpn };
    pair.nodes[1].mem.bind_mw(&bind).unwrap();
    pair.nodes[1].recv(5, &[]).unwrap();
    pair.nodes[0].send(&wr(1, SendOp::SendWithInvalidate(new_rkey))).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[1].recvs()[0].invalidated, Some(new_rkey.0));
    pair.nodes[0].send(&wr(2, SendOp::Write { va, rkey: new_rkey })).unwrap();
    let byte: [&[u8]; 1] = [b"x"];
    pair.nodes[0].send(&wr_inline(3, SendOp::Write { va, rkey: new_rkey }, &byte)).unwrap();
    pair.run();
    let done: Vec<_> = pair.nodes[0].sends().iter().map(|wc| wc.status).collect();
    assert_eq!(done, [WcStatus::Success, WcStatus::RemAccessErr]);
}

#[test]
fn x4_r37_a_write_with_immediate_takes_a_receive_of_the_srq() {
    let mut pair = xrc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[1].recv(5, &[]).unwrap();
    let source = pair.nodes[0].sge(0, 700);
    pair.nodes[0].fill(0, &pattern(1, 700));
    let op = SendOp::WriteWithImm { va, rkey, imm: 9 };
    pair.nodes[0].send(&wr_sges(1, op, &[source])).unwrap();
    pair.run();
    let got = pair.nodes[1].recvs();
    assert_eq!((got[0].opcode, got[0].byte_len), (WcOpcode::RecvRdmaWithImm, 700));
    assert_eq!((got[0].wr_id, got[0].imm), (5, Some(9)));
    assert_eq!(pair.nodes[1].bytes(0, 700), pattern(1, 700));
}

#[test]
fn x4_r76_an_empty_srq_draws_rnr_naks_until_a_receive_is_posted() {
    let mut pair = Pair::new(Setup { min_rnr_timer: 1, ..Setup::xrc() });
    pair.nodes[0].send(&wr(1, SendOp::Send)).unwrap();
    pair.run_for(50_000);
    assert!(pair.nodes[1].counters.send_rnr_err >= 2);
    assert!(pair.syndromes(1).iter().all(|(psn, syndrome)| (*psn, *syndrome) == (0x100, 0x21)));
    pair.nodes[1].recv(5, &[]).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[1].recvs()[0].wr_id, 5);
    let mut pair = Pair::new(Setup { rnr_retry: 1, ..Setup::xrc() });
    pair.nodes[0].send(&wr(1, SendOp::Send)).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::RnrRetryExcErr);
}

#[test]
fn x4_every_packet_lost_once_in_turn_changes_nothing_in_the_result() {
    let mut packets = 0;
    loop {
        let mut pair = xrc();
        let (mut count, lost) = (0, packets);
        pair.filter(move |_| {
            count += 1;
            if count == lost + 1 { Fate::Drop } else { Fate::Deliver }
        });
        pair.move_bytes(1500);
        assert_eq!(pair.nodes[1].counters.rdma_recvs, 2, "WRITE and READ ran once each");
        if pair.trace.len() <= packets {
            break;
        }
        packets += 1;
    }
    assert!(packets > 15, "{packets}");
}

#[test]
fn x4_r59_a_repeated_atomic_is_answered_from_what_is_remembered() {
    let mut pair = xrc();
    let (va, rkey) = (pair.nodes[1].va(64), pair.nodes[1].rkey());
    pair.nodes[1].region.store_u64(64, 1).unwrap();
    pair.lose_once(1, Opcode::XRC_ATOMIC_ACKNOWLEDGE, 0);
    let sge = pair.nodes[0].sge(0, 8);
    pair.nodes[0].send(&wr_sges(1, SendOp::FetchAdd { va, rkey, add: 1 }, &[sge])).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[0].region.load_u64(0).unwrap(), 1);
    assert_eq!(pair.nodes[1].region.load_u64(64).unwrap(), 2);
    assert_eq!(pair.nodes[1].dropped(DropReason::DuplicateRequest), 1);
}

#[test]
fn x4_r90_the_limit_event_of_the_srq() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 3 });
    let mut pair = Pair::new(Setup { srq, ..Setup::xrc() });
    for id in 0..5 {
        pair.nodes[1].recv(id, &[]).unwrap();
        pair.nodes[0].send(&wr(id, SendOp::Send)).unwrap();
    }
    pair.run();
    let id = pair.nodes[1].xrc_srq.unwrap();
    assert_eq!(pair.nodes[1].event(), Some(AsyncEvent::SrqLimitReached(id)));
    assert_eq!(pair.nodes[1].event(), None);
}

#[test]
fn x1_an_initiator_takes_no_receives_and_a_target_no_sends() {
    let mut pair = xrc();
    assert_eq!(pair.nodes[0].recv(1, &[]), Err(PostError::NoReceiveQueue));
    assert_eq!(pair.nodes[1].send(&wr(1, SendOp::Send)), Err(PostError::OnlyResponds));
    let node = &mut pair.nodes[1];
    let wr = RecvWr { wr_id: 1, sges: &[] };
    assert_eq!(node.qp.post_recv(&wr, cx!(node)), Err(PostError::NoReceiveQueue));
}

#[test]
fn x2_an_initiator_has_to_name_an_srq() {
    let mut pair = xrc();
    pair.nodes[0].peer_srqn = None;
    assert_eq!(pair.nodes[0].send(&wr(1, SendOp::Send)), Err(PostError::MissingSrq));
    let named = SendWr { srqn: Some(XRC_SRQN), ..wr(1, SendOp::Send) };
    assert_eq!(pair.nodes[0].send(&named), Ok(()));
}
