//! ibv_modify_qp(3): which attributes each step must, may and must not name. The tables are those of the manual page.

use libc::{EINVAL, c_int};

use super::{attributes, in_state, masks, query, world};
use crate::abi::*;
use crate::contract_tests::World;
use crate::qp_attr::ibv_modify_qp;
use crate::qp_create::ibv_destroy_qp;

/// Bits that name an attribute which no step of these tests knows, or which is none.
const UNKNOWN: [u32; 4] = [1 << 21, 1 << 22, 1 << 26, 1 << 31];
/// Attributes that are decided one by one below.
const BITS: std::ops::RangeInclusive<u32> = 1..=20;

/// May be named in a step, beside what must be.
fn optional(qp_type: c_int, from: c_int) -> c_int {
    let connected = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS;
    match (qp_type, from) {
        (_, IBV_QPS_RESET) => 0,
        (IBV_QPT_UD, IBV_QPS_INIT) => IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
        (_, IBV_QPS_INIT) => connected | IBV_QP_PKEY_INDEX,
        (IBV_QPT_UD, _) => IBV_QP_QKEY,
        (IBV_QPT_UC, _) => connected | IBV_QP_PATH_MIG_STATE,
        _ => connected | IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER,
    }
}

/// One step of a new queue pair; it goes afterwards.
fn step(world: &World, qp_type: c_int, from: c_int, mask: c_int) -> c_int {
    let qp = in_state(world, qp_type, from);
    let mut attr = attributes(world, qp);
    (attr.qp_state, attr.cur_qp_state) = (from + 1, from);
    // SAFETY: as the manual pages want it.
    unsafe {
        let answer = ibv_modify_qp(qp, &raw mut attr, mask);
        let expected = if answer == 0 { from + 1 } else { from };
        assert_eq!((*qp).state, expected, "a step is made whole or not at all");
        assert_eq!(query(qp).qp_state, expected);
        assert_eq!(ibv_destroy_qp(qp), 0);
        answer
    }
}

/// Each step to RTS, with each attribute missing, and with each that is too much.
fn check_steps(world: &World, qp_type: c_int) {
    for (from, required) in (IBV_QPS_RESET..).zip(masks(qp_type)) {
        assert_eq!(step(world, qp_type, from, required), 0);
        for bit in BITS.map(|bit| 1 << bit) {
            let what = format!("type {qp_type} from {from}, attribute {bit:#x}");
            if bit == IBV_QP_CUR_STATE {
                // It says nothing new where it is true.
                assert_eq!(step(world, qp_type, from, required | bit), 0, "{what} more");
            } else if required & bit != 0 {
                assert_eq!(step(world, qp_type, from, required & !bit), EINVAL, "{what} missing");
            } else if bit & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) != 0 {
                // There is one path, so these are refused wherever they are.
            } else if optional(qp_type, from) & bit != 0 {
                assert_eq!(step(world, qp_type, from, required | bit), 0, "{what} more");
            } else {
                assert_eq!(step(world, qp_type, from, required | bit), EINVAL, "{what} more");
            }
        }
        for bit in UNKNOWN {
            let mask = required | bit.cast_signed();
            assert_eq!(step(world, qp_type, from, mask), EINVAL, "{bit:#x}");
        }
    }
}

#[test]
fn steps_of_rc_name_what_they_must_and_may() {
    let world = world(1);
    check_steps(&world, IBV_QPT_RC);
    world.end();
}

#[test]
fn steps_of_uc_name_what_they_must_and_may() {
    let world = world(2);
    check_steps(&world, IBV_QPT_UC);
    world.end();
}

#[test]
fn steps_of_ud_name_what_they_must_and_may() {
    let world = world(3);
    check_steps(&world, IBV_QPT_UD);
    world.end();
}

#[test]
fn there_are_no_other_steps() {
    let world = world(4);
    let states = IBV_QPS_RESET..=IBV_QPS_ERR;
    for from in [IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR] {
        for to in states.clone() {
            // With the state alone: forward steps to RTR and so on lack attributes.
            let possible = matches!(
                (from, to),
                (_, IBV_QPS_RESET)
                    | (IBV_QPS_INIT, IBV_QPS_INIT)
                    | (IBV_QPS_RTS, IBV_QPS_RTS | IBV_QPS_SQD)
                    | (IBV_QPS_SQD, IBV_QPS_SQD | IBV_QPS_RTS)
            ) || to == IBV_QPS_ERR && from != IBV_QPS_RESET;
            let qp = if from == IBV_QPS_RESET {
                super::queue_pair(&world, IBV_QPT_RC)
            } else {
                in_state(&world, IBV_QPT_RC, from)
            };
            let mut attr = attributes(&world, qp);
            attr.qp_state = to;
            // SAFETY: as the manual pages want it.
            unsafe {
                let answer = ibv_modify_qp(qp, &raw mut attr, IBV_QP_STATE);
                assert_eq!(answer == 0, possible, "from {from} to {to}: {answer}");
                assert_eq!(query(qp).qp_state, if possible { to } else { from });
                assert_eq!(ibv_destroy_qp(qp), 0);
            }
        }
    }
    world.end();
}

#[test]
fn attributes_have_their_limits() {
    let world = world(5);
    type Change = fn(&mut ibv_qp_attr);
    let wrong: [(&str, c_int, Change); 14] = [
        ("no such P_Key", IBV_QPS_INIT, |attr| attr.pkey_index = 1),
        ("port 0", IBV_QPS_INIT, |attr| attr.port_num = 0),
        ("port 2", IBV_QPS_INIT, |attr| attr.port_num = 2),
        ("rights that are none", IBV_QPS_INIT, |attr| attr.qp_access_flags = 1 << 31),
        ("MTU 0", IBV_QPS_RTR, |attr| attr.path_mtu = 0),
        ("MTU 6", IBV_QPS_RTR, |attr| attr.path_mtu = 6),
        ("MTU -1", IBV_QPS_RTR, |attr| attr.path_mtu = -1),
        ("no GRH", IBV_QPS_RTR, |attr| attr.ah_attr.is_global = 0),
        ("no such GID", IBV_QPS_RTR, |attr| attr.ah_attr.grh.sgid_index = 2),
        ("no address", IBV_QPS_RTR, |attr| attr.ah_attr.grh.dgid.raw = [0; 16]),
        ("another family", IBV_QPS_RTR, |attr| attr.ah_attr.grh.dgid.raw = [0x20; 16]),
        ("path on port 2", IBV_QPS_RTR, |attr| attr.ah_attr.port_num = 2),
        ("RNR timer 32", IBV_QPS_RTR, |attr| attr.min_rnr_timer = 32),
        ("timeout 32", IBV_QPS_RTS, |attr| attr.timeout = 32),
    ];
    for (why, state, change) in wrong {
        let qp = in_state(&world, IBV_QPT_RC, state - 1);
        let mut attr = attributes(&world, qp);
        attr.qp_state = state;
        change(&mut attr);
        let mask = masks(IBV_QPT_RC)[(state - 1) as usize];
        // SAFETY: as the manual pages want it.
        unsafe {
            assert_eq!(ibv_modify_qp(qp, &raw mut attr, mask), EINVAL, "{why}");
            assert_eq!((*qp).state, state - 1, "{why}");
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
    }
    world.end();
}

#[test]
fn what_was_set_is_what_is_queried() {
    let world = world(6);
    let qp = super::queue_pair(&world, IBV_QPT_RC);
    let mut attr = attributes(&world, qp);
    (attr.rq_psn, attr.sq_psn) = (0xff12_3456, 0xffab_cdef);
    (attr.ah_attr.sl, attr.ah_attr.grh.traffic_class) = (5, 0x68);
    (attr.ah_attr.grh.flow_label, attr.ah_attr.grh.hop_limit) = (0x12345, 9);
    (attr.retry_cnt, attr.rnr_retry, attr.timeout, attr.min_rnr_timer) = (5, 6, 17, 3);
    // SAFETY: as the manual pages want it.
    unsafe {
        for (state, mask) in (IBV_QPS_INIT..).zip(masks(IBV_QPT_RC)) {
            attr.qp_state = state;
            assert_eq!(ibv_modify_qp(qp, &raw mut attr, mask), 0);
        }
        let now = query(qp);
        assert_eq!((now.rq_psn, now.sq_psn), (0x12_3456, 0xab_cdef), "24 bits");
        assert_eq!((now.path_mtu, now.dest_qp_num, now.port_num), (3, (*qp).qp_num, 1));
        assert_eq!((now.retry_cnt, now.rnr_retry, now.timeout, now.min_rnr_timer), (5, 6, 17, 3));
        assert_eq!((now.max_rd_atomic, now.max_dest_rd_atomic), (1, 1));
        let (path, grh) = (now.ah_attr, now.ah_attr.grh);
        assert_eq!((path.sl, path.is_global, path.port_num), (5, 1, 1));
        assert_eq!((grh.traffic_class, grh.flow_label, grh.hop_limit), (0x68, 0x12345, 9));
        assert_eq!(grh.dgid.raw, attr.ah_attr.grh.dgid.raw);
        assert_eq!((now.cap.max_send_wr, now.cap.max_recv_sge), (8, 2));
        assert_eq!(now.cur_qp_state, IBV_QPS_RTS);
        attr.cur_qp_state = IBV_QPS_RTR;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, IBV_QP_CUR_STATE), EINVAL, "it is in RTS");
        // An access flag of a running queue pair is changed without a step.
        attr.qp_access_flags = 0;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, IBV_QP_ACCESS_FLAGS), 0);
        assert_eq!((query(qp).qp_access_flags, (*qp).state), (0, IBV_QPS_RTS));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    world.end();
}
