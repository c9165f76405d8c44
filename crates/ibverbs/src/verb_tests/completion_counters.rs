//! Completion counters: what is refused, what is counted for a queue pair that is its own peer, and how long they live.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use libc::{EBUSY, EINVAL, ENOENT, EOPNOTSUPP, c_int};

use super::regions::write;
use super::{attributes, masks, queue_pair, remote_region, why, world};
use crate::abi::*;
use crate::comp_cntr::*;
use crate::contract_tests::World;
use crate::mr::ibv_dereg_mr;
use crate::qp_attr::ibv_modify_qp;
use crate::qp_create::ibv_destroy_qp;

const WRITE: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
const REMOTE_WRITE: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;
const RECV: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_RECV;

fn counter(world: &World, r#type: c_int) -> Result<*mut ibv_comp_cntr, c_int> {
    created(world, ibv_comp_cntr_init_attr { comp_mask: 0, r#type, flags: 0 })
}

fn created(world: &World, mut attr: ibv_comp_cntr_init_attr) -> Result<*mut ibv_comp_cntr, c_int> {
    // SAFETY: as the manual page wants it.
    why(unsafe { ibv_create_comp_cntr(world.context, &raw mut attr) })
}

fn attach(qp: *mut ibv_qp, counter: *mut ibv_comp_cntr, op_mask: u32) -> c_int {
    let mut attr = ibv_qp_attach_comp_cntr_attr { comp_mask: 0, op_mask };
    // SAFETY: as the manual page wants it.
    unsafe { ibv_qp_attach_comp_cntr(qp, counter, &raw mut attr) }
}

/// What a counter says of successes and of errors.
fn values(counter: *mut ibv_comp_cntr) -> (u64, u64) {
    let (mut good, mut bad) = (u64::MAX, u64::MAX);
    // SAFETY: as the manual page wants it.
    unsafe {
        assert_eq!(ibv_read_comp_cntr(counter, &raw mut good), 0);
        assert_eq!(ibv_read_err_comp_cntr(counter, &raw mut bad), 0);
    }
    (good, bad)
}

fn to_state(world: &World, qp: *mut ibv_qp, state: c_int) {
    let mut attr = attributes(world, qp);
    for (step, mask) in (IBV_QPS_INIT..=state).zip(masks(IBV_QPT_RC)) {
        attr.qp_state = step;
        // SAFETY: as the manual page wants it.
        assert_eq!(unsafe { ibv_modify_qp(qp, &raw mut attr, mask) }, 0, "to {step}");
    }
}

#[test]
fn capabilities_fit_into_the_room_that_a_program_has() {
    let world = world(221);
    for room in [0, 8, 16, 24] {
        let mut bytes = [0xff_u8; 32];
        // SAFETY: as the manual page wants it.
        let result =
            unsafe { _ibv_query_comp_cntr_caps(world.context, bytes.as_mut_ptr().cast(), room) };
        assert_eq!(result, 0);
        assert!(bytes[room..].iter().all(|byte| *byte == 0xff), "{room}");
        assert!(bytes[16.min(room)..room].iter().all(|byte| *byte == 0), "{room}");
    }
    let mut caps = MaybeUninit::<ibv_comp_cntr_caps>::uninit();
    // SAFETY: as the manual page wants it; null is found out.
    unsafe {
        assert_eq!(_ibv_query_comp_cntr_caps(world.context, caps.as_mut_ptr(), 16), 0);
        let caps = caps.assume_init();
        assert_eq!((caps.max_value, caps.supported_qp_attach_ops), (u64::MAX, 0x3f));
        assert_eq!(caps.max_counters, 65_536);
        assert_eq!(_ibv_query_comp_cntr_caps(world.context, null_mut(), 16), EINVAL);
        assert_eq!(_ibv_query_comp_cntr_caps(null_mut(), null_mut(), 16), EINVAL);
    }
    world.end();
}

#[test]
fn what_a_counter_cannot_be_is_refused() {
    let world = world(222);
    let wrs = ibv_comp_cntr_init_attr { comp_mask: 0, r#type: IBV_COMP_CNTR_TYPE_WRS, flags: 0 };
    for (attr, wanted) in [
        (ibv_comp_cntr_init_attr { comp_mask: 1, ..wrs }, EINVAL),
        (ibv_comp_cntr_init_attr { flags: 1, ..wrs }, EINVAL),
        (ibv_comp_cntr_init_attr { r#type: 2, ..wrs }, EOPNOTSUPP),
    ] {
        assert_eq!(created(&world, attr).err(), Some(wanted));
    }
    // SAFETY: null is found out.
    unsafe {
        assert!(ibv_create_comp_cntr(world.context, null_mut()).is_null());
        assert_eq!(ibv_destroy_comp_cntr(null_mut()), EINVAL);
        assert_eq!(ibv_set_comp_cntr(null_mut(), 1), EINVAL);
        assert_eq!(ibv_read_comp_cntr(null_mut(), null_mut()), EINVAL);
    }
    let one = counter(&world, IBV_COMP_CNTR_TYPE_WRS).expect("a counter");
    let qp = queue_pair(&world, IBV_QPT_RC);
    assert_eq!(attach(qp, one, 0), EINVAL);
    assert_eq!(attach(qp, one, 1 << 6), EOPNOTSUPP);
    assert_eq!(attach(qp, null_mut(), WRITE), EINVAL);
    let mut attr = ibv_qp_attach_comp_cntr_attr { comp_mask: 1, op_mask: WRITE };
    // SAFETY: as the manual page wants it, but for a mask and a null pointer.
    unsafe {
        assert_eq!(ibv_qp_attach_comp_cntr(qp, one, &raw mut attr), EINVAL);
        assert_eq!(ibv_qp_attach_comp_cntr(qp, one, null_mut()), EINVAL);
        assert_eq!(ibv_read_comp_cntr(one, null_mut()), EINVAL);
    }
    to_state(&world, qp, IBV_QPS_RTR);
    assert_eq!(attach(qp, one, WRITE), EINVAL, "in RTR");
    // SAFETY: as the manual page wants it; that the counter is gone is found out.
    unsafe {
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_comp_cntr(one)), (0, 0));
        assert_eq!(ibv_destroy_comp_cntr(one), ENOENT);
        assert_eq!(ibv_inc_err_comp_cntr(one, 1), ENOENT);
    }
    world.end();
}

#[test]
fn both_ends_of_a_write_are_counted_and_a_counter_lives_as_long_as_its_queue_pairs() {
    let mut world = world(223);
    let mr = remote_region(&mut world);
    let sent = counter(&world, IBV_COMP_CNTR_TYPE_WRS).expect("a counter");
    let came = counter(&world, IBV_COMP_CNTR_TYPE_BYTES).expect("a counter");
    // SAFETY: just made.
    let (rkey, handles) = unsafe { ((*mr).rkey, [(*sent).handle, (*came).handle]) };
    assert_ne!(handles[0], handles[1]);
    let at = world.buffer.as_ptr() as u64;
    let qp = queue_pair(&world, IBV_QPT_RC);
    assert_eq!(attach(qp, sent, WRITE | RECV), 0);
    assert_eq!(attach(qp, came, RECV | REMOTE_WRITE), EBUSY, "receives are counted already");
    to_state(&world, qp, IBV_QPS_INIT);
    assert_eq!(attach(qp, came, REMOTE_WRITE), 0, "in INIT");
    to_state(&world, qp, IBV_QPS_RTS);
    for _ in 0..3 {
        assert_eq!(write(&world, qp, rkey, at), 0);
    }
    assert_eq!((values(sent), values(came)), ((3, 0), (24, 0)));
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!((ibv_set_comp_cntr(sent, u64::MAX), ibv_inc_comp_cntr(sent, 2)), (0, 0));
        assert_eq!((ibv_set_err_comp_cntr(sent, 7), ibv_inc_err_comp_cntr(sent, 3)), (0, 0));
        assert_eq!(values(sent), (1, 10), "it wraps around");
        assert_ne!(write(&world, qp, rkey ^ 1, at), 0, "a wrong key");
        assert_eq!((values(sent), values(came)), ((1, 11), (24, 1)));
        assert_eq!([sent, came].map(|one| ibv_destroy_comp_cntr(one)), [EBUSY; 2]);
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!([sent, came].map(|one| ibv_destroy_comp_cntr(one)), [0; 2]);
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    world.end();
}
