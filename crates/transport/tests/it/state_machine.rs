//! R85, R86, R91, R92, R93, B32, B47: states, attributes, and changing them under traffic.

use uroce_memory::{Access, MwType, Rkey};
use uroce_transport::*;
use uroce_wire::{DropReason, Mtu, Opcode};

use crate::harness::*;

const TYPES: [QpType; 5] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt];
use QpState as S;
const STATES: [QpState; 7] = [S::Reset, S::Init, S::Rtr, S::Rts, S::Sqd, S::Sqe, S::Err];

/// A pair whose side 0 is in `state`; `None` if this QP type never gets there.
fn in_state(qp_type: QpType, state: QpState) -> Option<Pair> {
    let mut pair = Pair::unconnected(Setup { qp_type, ..Setup::default() });
    if state == S::Reset {
        return Some(pair);
    }
    pair.enter_init(0).unwrap();
    if state == S::Init {
        return Some(pair);
    }
    pair.enter_rtr(0).unwrap();
    if state == S::Rtr {
        return Some(pair);
    }
    pair.enter_rts(0).unwrap();
    match state {
        S::Sqd | S::Err => pair.nodes[0].enter_state(state).unwrap(),
        S::Sqe if qp_type.is_reliable() => return None,
        S::Sqe => {
            let read = SendOp::Read { va: 0, rkey: uroce_memory::Rkey(1) };
            let ud = pair.ud_to(1);
            pair.nodes[0].send(&SendWr { ud, ..wr(0, read) }).unwrap();
            pair.run();
            pair.nodes[0].sends();
        }
        _ => {}
    }
    assert_eq!(pair.nodes[0].qp.state(), state);
    Some(pair)
}

use QpAttrMask as M;

/// Section 8.1 of the reference, written down a second time.
fn due(qp_type: QpType, from: QpState, to: QpState) -> Option<(M, M)> {
    let (reliable, ud) = (qp_type.is_reliable(), qp_type == QpType::Ud);
    let (asks, answers) =
        (reliable && qp_type != QpType::XrcTgt, reliable && qp_type != QpType::XrcIni);
    let own = if ud { M::QKEY } else { M::ACCESS_FLAGS };
    let moving = M::CUR_STATE | M::ALT_PATH | M::ACCESS_FLAGS | M::PATH_MIG_STATE;
    let when = |yes, mask| if yes { mask } else { M::empty() };
    let running =
        if ud { M::CUR_STATE | M::QKEY } else { moving | when(answers, M::MIN_RNR_TIMER) };
    Some(match (from, to) {
        (_, S::Reset) => (M::empty(), M::empty()),
        (S::Reset, S::Err) => return None,
        (_, S::Err) => (M::empty(), M::empty()),
        (S::Reset, S::Init) => (M::PKEY_INDEX | M::PORT | own, M::empty()),
        (S::Init, S::Init) => (M::empty(), M::PKEY_INDEX | M::PORT | own),
        (S::Init, S::Rtr) if ud => (M::empty(), M::PKEY_INDEX | M::QKEY),
        (S::Init, S::Rtr) => (
            M::AV
                | M::PATH_MTU
                | M::DEST_QPN
                | M::RQ_PSN
                | when(answers, M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER),
            M::ALT_PATH | M::ACCESS_FLAGS | M::PKEY_INDEX,
        ),
        (S::Rtr, S::Rts) => (
            M::SQ_PSN
                | when(reliable, M::TIMEOUT)
                | when(asks, M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC),
            running,
        ),
        (S::Rts | S::Sqd, S::Rts) => (M::empty(), running),
        (S::Rts, S::Sqd) => (M::empty(), M::EN_SQD_ASYNC_NOTIFY),
        (S::Sqd, S::Sqd) if ud => (M::empty(), M::PKEY_INDEX | M::QKEY),
        (S::Sqd, S::Sqd) => (
            M::empty(),
            M::AV
                | M::ALT_PATH
                | M::ACCESS_FLAGS
                | M::PKEY_INDEX
                | M::PATH_MIG_STATE
                | when(reliable, M::PORT | M::TIMEOUT | M::MIN_RNR_TIMER)
                | when(asks, M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC)
                | when(answers, M::MAX_DEST_RD_ATOMIC),
        ),
        (S::Sqe, S::Rts) if reliable => return None,
        (S::Sqe, S::Rts) => (M::empty(), M::CUR_STATE | if ud { M::QKEY } else { M::ACCESS_FLAGS }),
        _ => return None,
    })
}

/// Attributes that are all valid, for a move from `from` to `to`.
fn valid(pair: &Pair, from: QpState, to: QpState) -> QpAttr {
    QpAttr { state: to, cur_state: from, max_rd_atomic: 1, ..pair.rtr_attr(0).0 }
}

fn outcome(qp_type: QpType, from: QpState, to: QpState, mask: M) -> Result<(), ModifyQpError> {
    let mut pair = in_state(qp_type, from).unwrap();
    let attr = valid(&pair, from, to);
    let before = pair.nodes[0].qp.attr();
    let result = pair.nodes[0].modify(&QpAttr { state: to, ..attr }, mask | M::STATE);
    if result.is_err() {
        assert_eq!(pair.nodes[0].qp.attr(), before, "R92: a refused modify changed something");
    } else {
        assert_eq!(pair.nodes[0].qp.state(), to);
    }
    result
}

#[test]
fn r92_x1_every_transition_with_every_single_attribute_more_or_less() {
    for qp_type in TYPES {
        for from in STATES {
            if in_state(qp_type, from).is_none() {
                continue;
            }
            for to in STATES {
                let Some((required, optional)) = due(qp_type, from, to) else {
                    let error = outcome(qp_type, from, to, M::empty()).unwrap_err();
                    assert_eq!(error, ModifyQpError::NoTransition { from, to });
                    continue;
                };
                let what = format!("{qp_type:?} {from:?} -> {to:?}");
                outcome(qp_type, from, to, required).unwrap_or_else(|e| panic!("{what}: {e}"));
                for bit in M::all().iter().filter(|bit| !bit.contains(M::STATE)) {
                    if required.contains(bit) {
                        let error = outcome(qp_type, from, to, required - bit).unwrap_err();
                        assert_eq!(error, ModifyQpError::Missing { from, to, missing: bit });
                        continue;
                    }
                    let result = outcome(qp_type, from, to, required | bit);
                    if bit == M::ALT_PATH && optional.contains(bit) {
                        let text = result.unwrap_err().to_string();
                        assert!(text.contains("alternate path"), "{text}");
                    } else if optional.contains(bit) || bit == M::CUR_STATE {
                        result.unwrap_or_else(|e| panic!("{what} with {bit:?}: {e}"));
                    } else {
                        let error = result.unwrap_err();
                        assert_eq!(error, ModifyQpError::NotAllowed { from, to, extra: bit });
                    }
                }
            }
        }
    }
}

#[test]
fn r92_values_out_of_range_are_refused_whole() {
    type Spoil = fn(&mut QpAttr);
    let cases: [(M, Spoil); 5] = [
        (M::TIMEOUT, |a| a.timeout = 32),
        (M::RETRY_CNT, |a| a.retry_cnt = 8),
        (M::RNR_RETRY, |a| a.rnr_retry = 8),
        (M::MAX_QP_RD_ATOMIC, |a| a.max_rd_atomic = 129),
        (M::MIN_RNR_TIMER, |a| a.min_rnr_timer = 32),
    ];
    for (bit, spoil) in cases {
        let mut pair = in_state(QpType::Rc, S::Sqd).unwrap();
        let before = pair.nodes[0].qp.attr();
        let mut attr = valid(&pair, S::Sqd, S::Sqd);
        spoil(&mut attr);
        let error = pair.nodes[0].modify(&attr, bit | M::ACCESS_FLAGS).unwrap_err();
        assert!(matches!(error, ModifyQpError::BadValue { .. }), "{error}");
        assert_eq!(pair.nodes[0].qp.attr(), before);
    }
}

#[test]
fn r92_a_wrong_current_state_is_named() {
    let mut pair = Pair::rc();
    let attr = QpAttr { state: S::Rts, cur_state: S::Sqd, ..QpAttr::default() };
    let error = pair.nodes[0].modify(&attr, M::STATE | M::CUR_STATE).unwrap_err();
    assert_eq!(error.to_string(), "cur_state says SQD, but the QP is in RTS");
}

#[test]
fn r85_r86_what_may_be_posted_in_each_state() {
    for state in STATES {
        let Some(mut pair) = in_state(QpType::Uc, state) else { continue };
        let recv = pair.nodes[0].recv(1, &[]);
        let send = pair.nodes[0].send(&wr(1, SendOp::Send));
        assert_eq!(recv.is_ok(), state != S::Reset, "receive in {state:?}");
        let may_send = matches!(state, S::Rts | S::Sqd | S::Sqe | S::Err);
        assert_eq!(send.is_ok(), may_send, "send in {state:?}");
        if let Err(error) = send {
            assert!(error.to_string().contains("RTS"), "{error}");
        }
    }
}

#[test]
fn b47_query_shows_the_state_and_the_psns() {
    for state in STATES {
        let Some(pair) = in_state(QpType::Uc, state) else { continue };
        let attr = pair.nodes[0].qp.attr();
        assert_eq!((attr.state, attr.cur_state), (state, state));
    }
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(1, SendOp::Write { va, rkey })).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].qp.attr().sq_psn, 0x101);
    assert_eq!(pair.nodes[1].qp.attr().rq_psn, 0x101);
}

#[test]
fn r91_reset_forgets_everything_and_old_packets_find_nobody() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, 3000)];
    for id in 0..4 {
        pair.nodes[0].send(&wr_sges(id, SendOp::Write { va, rkey }, &source)).unwrap();
        pair.nodes[0].recv(id, &[]).unwrap();
    }
    pair.run_for(6_000);
    pair.nodes[0].enter_state(S::Reset).unwrap();
    assert_eq!(pair.nodes[0].qp.poll_timeout(), None);
    let before = pair.trace.iter().filter(|seen| seen.from == 0).count();
    pair.run();
    assert!(pair.nodes[0].sends().is_empty() && pair.nodes[0].recvs().is_empty());
    assert_eq!(pair.trace.iter().filter(|seen| seen.from == 0).count(), before);
    assert!(pair.nodes[0].dropped(DropReason::QpState) > 0);
    // A new incarnation with other PSNs works, and an old packet does not disturb it.
    pair.setup.psn = [0x5000, 0x6000];
    pair.nodes[1].enter_state(S::Reset).unwrap();
    pair.connect();
    let old = pair.trace.iter().find(|seen| seen.from == 0).unwrap().bytes.clone();
    pair.receive(1, &old, 0);
    pair.nodes[0].send(&wr_sges(9, SendOp::Write { va, rkey }, &source)).unwrap();
    pair.run();
    let done = pair.nodes[0].sends();
    assert!(done.len() == 1 && done[0].is_ok());
}

#[test]
fn r93_b43_b44_after_release_nothing_completes_or_leaves() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let source = [pair.nodes[0].sge(0, 3000)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &source)).unwrap();
    pair.run_for(1_000);
    let node = &mut pair.nodes[0];
    node.qp.release(cx!(node));
    let before = pair.trace.iter().filter(|seen| seen.from == 0).count();
    pair.run();
    assert_eq!(pair.trace.iter().filter(|seen| seen.from == 0).count(), before);
    assert!(pair.nodes[0].sends().is_empty());
    assert_eq!(pair.nodes[0].qp.poll_timeout(), None);
}

#[test]
fn v90_sqd_finishes_what_was_begun_then_reports_once() {
    let mut pair = Pair::new(Setup { rd_atomic: 1, mtu: Mtu::M1024, ..Setup::default() });
    let length = 2 * limits::READ_SPLIT_BYTES as u32;
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let target = [pair.nodes[0].sge(0, length)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Read { va, rkey }, &target)).unwrap();
    pair.nodes[0].send(&wr(2, SendOp::Write { va, rkey })).unwrap();
    pair.run_for(1_000);
    let attr = QpAttr { state: S::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    pair.nodes[0].modify(&attr, M::STATE | M::EN_SQD_ASYNC_NOTIFY).unwrap();
    while pair.nodes[0].events.is_empty() {
        assert!(pair.nodes[0].qp.is_draining(), "the READ is not complete");
        assert!(pair.step(), "SQ_DRAINED never comes");
    }
    assert!(!pair.nodes[0].qp.is_draining(), "the WRITE was not begun");
    // The READ is complete, both of its requests; the WRITE waits.
    let done = pair.nodes[0].sends();
    assert!(done.len() == 1 && done[0].wr_id == 1 && done[0].is_ok(), "{done:?}");
    assert_eq!(pair.nodes[0].event(), Some(AsyncEvent::SqDrained(pair.nodes[0].qp.qpn())));
    pair.run();
    assert_eq!(pair.nodes[0].event(), None);
    assert!(pair.seen(0, "WRITE").is_empty());
    pair.nodes[0].enter_state(S::Rts).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].sends()[0].wr_id, 2);
}

#[test]
fn v90_sqd_with_nothing_in_flight_reports_at_once() {
    let mut pair = Pair::rc();
    assert!(!pair.nodes[0].qp.is_draining());
    let attr = QpAttr { state: S::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    pair.nodes[0].modify(&attr, M::STATE | M::EN_SQD_ASYNC_NOTIFY).unwrap();
    assert!(!pair.nodes[0].qp.is_draining());
    pair.run();
    assert_eq!(pair.nodes[0].event(), Some(AsyncEvent::SqDrained(pair.nodes[0].qp.qpn())));
}

/// Whoever waits for room at its destination is not polled, and has nothing begun all the same.
#[test]
fn v90_sqd_reports_at_once_although_nobody_polls() {
    let mut pair = Pair::rc();
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(1, SendOp::Write { va, rkey })).unwrap();
    let attr = QpAttr { state: S::Sqd, en_sqd_async_notify: true, ..QpAttr::default() };
    pair.nodes[0].modify(&attr, M::STATE | M::EN_SQD_ASYNC_NOTIFY).unwrap();
    assert_eq!(pair.nodes[0].event(), Some(AsyncEvent::SqDrained(pair.nodes[0].qp.qpn())));
    pair.run();
    assert_eq!(pair.nodes[0].event(), None, "once");
}

/// A WRITE and a READ are executed, and nobody hears of it before a timeout. A duplicate of the WRITE draws no ACK (R57), so the READ
/// has to be asked for again, behind a local operation that is done.
#[test]
fn v90_sqd_asks_again_behind_a_local_operation_that_is_done() {
    let mut pair = Pair::rc();
    let pd = pair.nodes[0].pd;
    let mw = pair.nodes[0].mem.alloc_mw(pd, MwType::Type2B).unwrap();
    let (new_rkey, access) = (Rkey(mw.rkey.0 ^ 1), Access::REMOTE_READ);
    let (mr, here) = (pair.nodes[0].mr.lkey, pair.nodes[0].va(0));
    let bind = SendOp::BindMw { mw: mw.id, new_rkey, mr, va: here, length: 64, access };
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    let place = [pair.nodes[0].sge(64, 8)];
    pair.nodes[0].send(&wr_sges(1, SendOp::Write { va, rkey }, &place)).unwrap();
    pair.nodes[0].send(&wr(2, bind)).unwrap();
    pair.nodes[0].send(&wr_sges(3, SendOp::Read { va, rkey }, &place)).unwrap();
    pair.filter(|seen| if seen.from == 1 { Fate::Drop } else { Fate::Deliver });
    pair.run_for(20_000);
    pair.nodes[0].enter_state(S::Sqd).unwrap();
    while pair.nodes[0].counters.ack_timeout == 0 {
        assert!(pair.step(), "a timeout comes");
    }
    pair.no_filter();
    pair.run();
    let ids: Vec<_> = pair.nodes[0].sends().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(ids, [1, 2, 3].map(|id| (id, WcStatus::Success)));
}

#[test]
fn r91_the_source_port_that_the_datapath_gave_survives_a_reset() {
    for qp_type in TYPES {
        let mut pair = in_state(qp_type, S::Rts).unwrap();
        let qp = &mut pair.nodes[0].qp;
        qp.set_source_port(4791);
        pair.nodes[0].enter_state(S::Reset).unwrap();
        assert_eq!(pair.nodes[0].qp.source_port(), 4791, "{qp_type:?}");
    }
}

#[test]
fn v43_attributes_are_named_as_c_programs_name_them() {
    let mut pair = in_state(QpType::Rc, S::Init).unwrap();
    let attr = QpAttr { state: S::Rtr, ..QpAttr::default() };
    let all = M::required(QpType::Rc, S::Init, S::Rtr);
    let error = pair.nodes[0].modify(&attr, all - M::MIN_RNR_TIMER - M::AV).unwrap_err();
    let says = "INIT to RTR also needs IBV_QP_AV | IBV_QP_MIN_RNR_TIMER";
    assert_eq!(error.to_string(), says);
    let attr = QpAttr { state: S::Err, ..QpAttr::default() };
    let error = pair.nodes[0].modify(&attr, M::STATE | M::TIMEOUT).unwrap_err();
    assert_eq!(error.to_string(), "INIT to ERR does not take IBV_QP_TIMEOUT");
}

#[test]
fn v94_sqe_flushes_sends_keeps_receiving_and_leaves_for_rts() {
    let mut pair = in_state(QpType::Uc, S::Sqe).unwrap();
    pair.nodes[0].send(&wr(5, SendOp::Send)).unwrap();
    assert_eq!(pair.nodes[0].sends()[0].status, WcStatus::WrFlushErr);
    pair.enter_init(1).unwrap();
    pair.enter_rtr(1).unwrap();
    pair.enter_rts(1).unwrap();
    pair.nodes[0].recv(7, &[]).unwrap();
    pair.nodes[1].send(&wr(1, SendOp::Send)).unwrap();
    pair.run();
    assert_eq!(pair.nodes[0].recvs()[0].wr_id, 7);
    pair.nodes[0].enter_state(S::Rts).unwrap();
    pair.nodes[1].recv(8, &[]).unwrap();
    pair.nodes[0].send(&wr(6, SendOp::Send)).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
    assert_eq!(pair.nodes[1].recvs()[0].wr_id, 8);
}

#[test]
fn b32_every_attribute_changes_under_traffic() {
    for bit in [
        M::TIMEOUT,
        M::RETRY_CNT,
        M::RNR_RETRY,
        M::MAX_QP_RD_ATOMIC,
        M::MAX_DEST_RD_ATOMIC,
        M::MIN_RNR_TIMER,
        M::ACCESS_FLAGS,
        M::AV,
        M::PKEY_INDEX,
        M::PORT,
        M::PATH_MIG_STATE,
    ] {
        for steps in 0..12 {
            let mut pair = Pair::rc();
            let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
            let target = [pair.nodes[0].sge(0, 700)];
            for id in 0..6 {
                let op = if id % 2 == 0 {
                    SendOp::Read { va, rkey }
                } else {
                    SendOp::Write { va, rkey }
                };
                pair.nodes[0].send(&wr_sges(id, op, &target)).unwrap();
            }
            (0..steps).for_each(|_| _ = pair.step());
            for side in 0..2 {
                let attr = QpAttr {
                    state: S::Sqd,
                    timeout: 10,
                    retry_cnt: 3,
                    rnr_retry: 3,
                    max_rd_atomic: 1,
                    max_dest_rd_atomic: 8,
                    access: all_access(),
                    ..pair.rtr_attr(side).0
                };
                pair.nodes[side].enter_state(S::Sqd).unwrap();
                let (now, node) = (pair.now, &mut pair.nodes[side]);
                let attr = QpAttr { state: S::Sqd, ..attr };
                node.qp.modify(now, &attr, bit, cx!(node)).unwrap();
            }
            for node in &mut pair.nodes {
                node.enter_state(S::Rts).unwrap();
            }
            pair.run();
            let done = pair.nodes[0].sends();
            assert!(
                done.len() == 6 && done.iter().all(Wc::is_ok),
                "{bit:?} after {steps}: {done:?}"
            );
        }
    }
}

#[test]
fn b32_a_smaller_read_depth_under_traffic_completes_everything_once() {
    for steps in 0..12 {
        let mut pair = Pair::rc();
        let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
        let target = [pair.nodes[0].sge(0, 700)];
        for id in 0..6 {
            pair.nodes[0].send(&wr_sges(id, SendOp::Read { va, rkey }, &target)).unwrap();
        }
        (0..steps).for_each(|_| _ = pair.step());
        pair.nodes[1].enter_state(S::Sqd).unwrap();
        let attr = QpAttr { max_dest_rd_atomic: 1, ..QpAttr::default() };
        pair.nodes[1].modify(&attr, M::MAX_DEST_RD_ATOMIC).unwrap();
        pair.run();
        // READs beyond the new depth may be refused; none is lost, none completes twice.
        assert!(pair.nodes[0].sends().iter().map(|wc| wc.wr_id).eq(0..6));
    }
}

#[test]
fn b32_a_timeout_given_later_counts_for_what_is_in_flight() {
    let mut pair = Pair::new(Setup { timeout: 0, retry_cnt: 1, ..Setup::default() });
    let (va, rkey) = (pair.nodes[1].va(0), pair.nodes[1].rkey());
    pair.nodes[0].send(&wr(1, SendOp::Write { va, rkey })).unwrap();
    pair.lose_once(0, Opcode::RC_WRITE_ONLY, 0);
    pair.run();
    assert!(pair.nodes[0].sends().is_empty());
    pair.nodes[0].enter_state(S::Sqd).unwrap();
    let (now, node) = (pair.now, &mut pair.nodes[0]);
    let attr = QpAttr { timeout: 10, ..QpAttr::default() };
    node.qp.modify(now, &attr, M::TIMEOUT, cx!(node)).unwrap();
    pair.run();
    assert!(pair.nodes[0].sends()[0].is_ok());
}
