//! R66, R90, B41, B42, B48: shared receive queues and completion queues under a QP.

use uroce_transport::*;

use crate::harness::forge::*;
use crate::harness::*;

#[test]
fn r66_b48_an_overflowing_cq_takes_its_qp_down_and_raises_one_event() {
    let mut pair = Pair::new(Setup { cqe: 4, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    for id in 0..10 {
        pair.nodes[0].send(&wr(id, SendOp::Write { va, rkey })).unwrap();
    }
    pair.run();
    assert_eq!(pair.nodes[0].qp.state(), QpState::Err);
    let cq = pair.nodes[0].send_cq;
    assert_eq!(pair.nodes[0].event(), Some(AsyncEvent::CqErr(cq)));
    assert_eq!(pair.nodes[0].event(), None);
    let done = pair.nodes[0].sends();
    assert!(done.iter().map(|wc| wc.wr_id).eq(0..4), "what was there is not overwritten (B48)");
    assert_eq!(pair.nodes[0].counters.lost_completions, 6);
    // The other direction's receives flush; their text says what happened.
    pair.nodes[0].recv(1, &[]).unwrap();
    let text = pair.nodes[0].recvs()[0].cause.to_string();
    assert!(text.contains("completion queue overflowed") && text.contains("larger"), "{text}");
}

#[test]
fn r66_a_flush_that_overflows_also_raises_the_event() {
    let mut pair = Pair::new(Setup { cqe: 2, ..Setup::default() });
    for id in 0..5 {
        pair.nodes[0].recv(id, &[]).unwrap();
    }
    pair.nodes[0].enter_state(QpState::Err).unwrap();
    let cq = pair.nodes[0].recv_cq;
    assert_eq!(pair.nodes[0].event(), Some(AsyncEvent::CqErr(cq)));
    assert_eq!(pair.nodes[0].event(), None);
}

#[test]
fn r66_exactly_as_many_completions_as_fit_are_no_overflow() {
    let mut pair = Pair::new(Setup { cqe: 10, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    for id in 0..10 {
        pair.nodes[0].send(&wr(id, SendOp::Write { va, rkey })).unwrap();
    }
    pair.run();
    assert_eq!(pair.nodes[0].qp.state(), QpState::Rts);
    assert_eq!(pair.nodes[0].sends().len(), 10);
}

#[test]
fn r90_the_limit_event_comes_once_per_arming_while_messages_arrive() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 3 });
    let mut pair = Pair::new(Setup { srq, ..Setup::default() });
    for id in 0..8 {
        pair.nodes[1].recv(id, &[]).unwrap();
        pair.nodes[0].send(&wr(id, SendOp::Send)).unwrap();
    }
    pair.run();
    let id = pair.nodes[1].qp.srq().unwrap();
    assert_eq!(pair.nodes[1].event(), Some(AsyncEvent::SrqLimitReached(id)));
    assert_eq!(pair.nodes[1].event(), None);
    assert!(pair.nodes[1].recvs().iter().map(|wc| wc.wr_id).eq(0..8));
    let queue = pair.nodes[1].srqs.get_mut(id).unwrap();
    assert_eq!(queue.attr().limit, 0);
    queue.modify(None, Some(1)).unwrap();
    pair.nodes[1].recv(9, &[]).unwrap();
    pair.nodes[0].send(&wr(9, SendOp::Send)).unwrap();
    pair.run();
    assert_eq!(pair.nodes[1].event(), Some(AsyncEvent::SrqLimitReached(id)));
}

#[test]
fn b41_an_srq_grows_and_shrinks_under_traffic() {
    let srq = Some(SrqAttr { max_wr: 4, max_sge: 1, limit: 0 });
    let mut pair = Pair::new(Setup { srq, ..Setup::default() });
    let id = pair.nodes[1].qp.srq().unwrap();
    for round in 0..20u64 {
        pair.nodes[1].recv(round, &[]).unwrap();
        pair.nodes[0].send(&wr(round, SendOp::Send)).unwrap();
        (0..round % 5).for_each(|_| _ = pair.step());
        let size = 1 + (round as u32 * 7) % 9;
        let queue = pair.nodes[1].srqs.get_mut(id).unwrap();
        let before = queue.attr();
        let waiting = queue.len();
        match queue.modify(Some(size), None) {
            Ok(()) => assert_eq!(queue.attr().max_wr, size),
            Err(_) => assert!(waiting > size as usize && queue.attr() == before),
        }
        pair.run();
    }
    assert!(pair.nodes[1].recvs().iter().map(|wc| wc.wr_id).eq(0..20));
}

#[test]
fn b42_an_armed_cq_raises_exactly_one_event_also_around_a_resize() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let cq = pair.nodes[0].send_cq;
    for round in 0..10 {
        let queue = pair.nodes[0].cqs.get_mut(cq).unwrap();
        queue.arm(Notify::Next);
        queue.resize(100 + round).unwrap();
        for id in 0..3 {
            pair.nodes[0].send(&wr(id, SendOp::Write { va, rkey })).unwrap();
        }
        pair.run();
        assert_eq!(pair.nodes[0].cqs.pop_event(), Some(cq));
        assert_eq!(pair.nodes[0].cqs.pop_event(), None);
        assert_eq!(pair.nodes[0].sends().len(), 3);
    }
}

#[test]
fn r116_a_queue_pair_that_is_reset_or_destroyed_in_a_message_gives_the_receive_back() {
    for destroy in [false, true] {
        let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 0 });
        let mut pair = Pair::new(Setup { srq, ..Setup::default() });
        pair.post(1, 0, 4096);
        let id = pair.nodes[1].qp.srq().unwrap();
        pair.give(&Forged::data(uroce_wire::Opcode::RC_SEND_FIRST, EPSN, &[1; 256]));
        let node = &mut pair.nodes[1];
        assert_eq!(node.srqs.get(id).unwrap().len(), 0);
        if destroy {
            node.qp.release(cx!(node))
        } else {
            node.enter_state(QpState::Reset).unwrap()
        }
        assert_eq!((node.srqs.get(id).unwrap().len(), node.recvs().len()), (1, 0));
    }
}
