//! R67, R87, R88, R89, B26, B37: what happens to work requests when a QP fails.

use uroce_transport::*;

use crate::harness::*;

/// Sends of side 0 under way, receives of side 0 waiting.
fn busy() -> Pair {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, 1000)];
    for id in 0..6 {
        let op = if id == 3 { SendOp::Read { va, rkey } } else { SendOp::Write { va, rkey } };
        let flags = if id % 2 == 0 { SendFlags::SIGNALED } else { SendFlags::empty() };
        pair.nodes[0].send(&SendWr { flags, ..wr_sges(id, op, &source) }).unwrap();
        pair.nodes[0].recv(100 + id, &[]).unwrap();
    }
    pair
}

#[test]
fn r87_r88_b37_everything_flushes_in_order_with_the_reason() {
    for steps in 0..12 {
        let mut pair = busy();
        (0..steps).for_each(|_| _ = pair.step());
        pair.nodes[0].enter_state(QpState::Err).unwrap();
        let sends = pair.nodes[0].sends();
        let failed: Vec<_> = sends.iter().filter(|wc| !wc.is_ok()).collect();
        let ids: Vec<_> = failed.iter().map(|wc| wc.wr_id).collect();
        assert!(ids.iter().copied().eq(6 - ids.len() as u64..6), "{ids:?}");
        for wc in &failed {
            assert_eq!(wc.status, WcStatus::WrFlushErr);
            assert!(wc.cause.to_string().contains("moved to the error state"));
        }
        let recvs = pair.nodes[0].recvs();
        assert!(recvs.iter().map(|wc| wc.wr_id).eq(100..106));
        assert!(recvs.iter().all(|wc| wc.status == WcStatus::WrFlushErr));
        assert_eq!(pair.nodes[0].qp.poll_timeout(), None);
        pair.run();
        assert!(pair.nodes[0].sends().is_empty() && pair.nodes[0].recvs().is_empty());
    }
}

#[test]
fn r87_what_is_posted_later_flushes_too() {
    let mut pair = Pair::rc();
    pair.nodes[0].enter_state(QpState::Err).unwrap();
    pair.nodes[0].send(&SendWr { flags: SendFlags::empty(), ..wr(1, SendOp::Send) }).unwrap();
    pair.nodes[0].recv(2, &[]).unwrap();
    let (send, recv) = (pair.nodes[0].sends(), pair.nodes[0].recvs());
    assert_eq!((send.len(), send[0].wr_id, send[0].status), (1, 1, WcStatus::WrFlushErr));
    assert_eq!((recv.len(), recv[0].wr_id, recv[0].status), (1, 2, WcStatus::WrFlushErr));
}

#[test]
fn b26_a_message_half_received_completes_once_as_flushed() {
    for steps in 1..10 {
        let mut pair = Pair::rc();
        let target = pair.nodes[1].sge(0, 4096);
        for id in 0..4 {
            pair.nodes[1].recv(id, &[target]).unwrap();
        }
        let source = [pair.nodes[0].sge(0, 256 * 70)];
        pair.nodes[0].send(&wr_sges(1, SendOp::Send, &source[..])).unwrap();
        (0..steps).for_each(|_| _ = pair.step());
        if pair.nodes[1].qp.state() == QpState::Rts {
            pair.nodes[1].enter_state(QpState::Err).unwrap();
        }
        for seen in pair.trace.clone().iter().filter(|seen| seen.from == 0) {
            pair.receive(1, &seen.bytes, 0);
        }
        pair.run();
        let recvs = pair.nodes[1].recvs();
        assert!(recvs.iter().map(|wc| wc.wr_id).eq(0..4), "{recvs:?}");
        assert!(recvs.iter().all(|wc| !wc.is_ok()));
    }
}

#[test]
fn r89_last_wqe_reached_once_and_receives_of_the_srq_stay() {
    let srq = Some(SrqAttr { max_wr: 8, max_sge: 1, limit: 0 });
    let mut pair = Pair::new(Setup { srq, ..Setup::default() });
    for id in 0..3 {
        pair.nodes[0].recv(id, &[]).unwrap();
    }
    pair.nodes[0].enter_state(QpState::Err).unwrap();
    pair.nodes[0].enter_state(QpState::Err).unwrap();
    let qpn = pair.nodes[0].qp.qpn();
    assert_eq!(pair.nodes[0].event(), Some(AsyncEvent::QpLastWqeReached(qpn)));
    assert_eq!(pair.nodes[0].event(), None);
    assert!(pair.nodes[0].recvs().is_empty());
    let id = pair.nodes[0].qp.srq().unwrap();
    assert_eq!(pair.nodes[0].srqs.get(id).unwrap().len(), 3);
}

#[test]
fn r67_completions_come_in_post_order_whatever_kind_they_are() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = [pair.nodes[0].sge(0, 8)];
    for id in 0..40 {
        let op = match id % 4 {
            0 => SendOp::Write { va, rkey },
            1 => SendOp::Read { va, rkey },
            2 => SendOp::FetchAdd { va, rkey, add: 1 },
            _ => SendOp::Flush { va, rkey, length: 8, placement: 1, selectivity: 0 },
        };
        pair.nodes[0].send(&wr_sges(id, op, &target)).unwrap();
    }
    pair.run();
    assert!(pair.nodes[0].sends().iter().map(|wc| wc.wr_id).eq(0..40));
}
