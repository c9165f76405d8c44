//! What a C program may count on when it posts requests: lists, windows, protection domains.

use std::ptr::null_mut;

use libc::c_int;
use uroce_device::wire::Gid;

use crate::abi::*;
use crate::ah::{ibv_create_ah, ibv_destroy_ah};
use crate::contract_tests::{LOCAL_WRITE, SIGNALED, World, world};
use crate::mr::{ibv_dereg_mr, ibv_reg_mr};
use crate::mw::{alloc_mw, bind_mw, dealloc_mw};
use crate::object::zeroed;
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use crate::post_send::post_send;
use crate::qp_attr::{ibv_modify_qp, ibv_query_qp};
use crate::qp_create::{ibv_create_qp, ibv_destroy_qp};
use crate::qp_ex::FUNCTIONS;
use crate::srq::{ibv_create_srq, ibv_destroy_srq, ibv_modify_srq, ibv_query_srq};

const INLINE: u32 = 8;
const RDMA_WRITE: c_int = 0;
const BIND_MW: c_int = 8;
const REMOTE_WRITE: c_int = 2;
const MW_BIND: c_int = 1 << 4;
const SQD: c_int = 4;

/// Writes so many requests of no bytes to the queue pair's own peer, itself, as one list.
fn write_list(world: &World, count: u64) -> c_int {
    let qp = world.qp.cast::<ibv_qp_ex>();
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        (FUNCTIONS.wr_start)(qp);
        for wr_id in 0..count {
            ((*qp).wr_id, (*qp).wr_flags) = (wr_id, SIGNALED);
            (FUNCTIONS.wr_rdma_write)(qp, 0, 0);
        }
        (FUNCTIONS.wr_complete)(qp)
    }
}

fn nothing_completes(world: &World) {
    let mut wc = ibv_wc::default();
    // SAFETY: one completion.
    let found = unsafe { crate::cq::poll_cq(world.cq, 1, &raw mut wc) };
    assert_eq!(found, 0, "a request was posted: {}", wc.wr_id);
}

#[test]
fn v31_a_list_that_does_not_fit_is_not_posted_at_all() {
    let world = world(30);
    world.connect();
    assert_eq!(write_list(&world, 5), libc::ENOMEM, "the queue has room for 4");
    nothing_completes(&world);
    assert_eq!(write_list(&world, 4), 0);
    assert_eq!([(); 4].map(|()| world.poll().wr_id), [0, 1, 2, 3]);
    world.end();
}

#[test]
fn v31_a_list_with_one_bad_request_is_not_posted_at_all() {
    let world = world(31);
    world.connect();
    let qp = world.qp.cast::<ibv_qp_ex>();
    let two = [world.sge(0, 4), world.sge(8, 4)];
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        (FUNCTIONS.wr_start)(qp);
        ((*qp).wr_id, (*qp).wr_flags) = (1, SIGNALED);
        (FUNCTIONS.wr_rdma_write)(qp, 0, 0);
        (FUNCTIONS.wr_send)(qp);
        (FUNCTIONS.wr_set_sge_list)(qp, 2, two.as_ptr());
        assert_eq!((FUNCTIONS.wr_complete)(qp), libc::EINVAL, "it was made for one entry");
    }
    nothing_completes(&world);
    world.end();
}

#[test]
fn v32_a_thread_that_starts_a_list_twice_starts_over() {
    let world = world(32);
    world.connect();
    let qp = world.qp.cast::<ibv_qp_ex>();
    // SAFETY: as in a program that forgot to abort.
    unsafe {
        (FUNCTIONS.wr_start)(qp);
        ((*qp).wr_id, (*qp).wr_flags) = (7, SIGNALED);
        (FUNCTIONS.wr_rdma_write)(qp, 0, 0);
    }
    assert_eq!(write_list(&world, 1), 0);
    assert_eq!(world.poll().wr_id, 0);
    nothing_completes(&world);
    world.end();
}

#[test]
fn v33_b41_an_srq_is_modified_whole_or_not_at_all() {
    let world = world(33);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let mut init: ibv_srq_init_attr = zeroed();
        init.attr = ibv_srq_attr { max_wr: 64, max_sge: 1, srq_limit: 0 };
        let srq = ibv_create_srq(world.pd, &raw mut init);
        let mut attr = ibv_srq_attr { max_wr: 16, max_sge: 0, srq_limit: 100 };
        assert_eq!(ibv_modify_srq(srq, &raw mut attr, 3), libc::EINVAL);
        assert_eq!(ibv_query_srq(srq, &raw mut attr), 0);
        assert_eq!((attr.max_wr, attr.srq_limit), (64, 0));
        assert_eq!(ibv_destroy_srq(srq), 0);
    }
    world.end();
}

#[test]
fn v34_a_drained_queue_pair_is_not_draining() {
    let world = world(34);
    world.connect();
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = SQD;
        assert_eq!(ibv_modify_qp(world.qp, &raw mut attr, 1), 0);
        let mut init: ibv_qp_init_attr = zeroed();
        assert_eq!(ibv_query_qp(world.qp, &raw mut attr, 1, &raw mut init), 0);
        assert_eq!((attr.qp_state, attr.sq_draining), (SQD, 0));
    }
    world.end();
}

#[test]
fn v35_an_address_handle_of_another_domain_is_refused() {
    let world = world(35);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.qp_type) = (world.cq, world.cq, 4);
        init.cap.max_send_wr = 2;
        let ud = ibv_create_qp(world.pd, &raw mut init);
        let mut attr: ibv_qp_attr = zeroed();
        (attr.port_num, attr.qkey) = (1, 5);
        for (state, mask) in [(1, 1 | 1 << 4 | 1 << 5 | 1 << 6), (2, 1), (3, 1 | 1 << 16)] {
            attr.qp_state = state;
            assert_eq!(ibv_modify_qp(ud, &raw mut attr, mask), 0);
        }
        let mut to: ibv_ah_attr = zeroed();
        (to.is_global, to.port_num) = (1, 1);
        to.grh.dgid = ibv_gid::from_gid(Gid::from_ip(world.address));
        let elsewhere = ibv_alloc_pd(world.context);
        let (far, near) =
            (ibv_create_ah(elsewhere, &raw mut to), ibv_create_ah(world.pd, &raw mut to));
        for (ah, answer) in [(far, libc::EINVAL), (near, 0)] {
            let mut wr: ibv_send_wr = zeroed();
            (wr.opcode, wr.send_flags) = (2, SIGNALED);
            wr.wr.ud = ud_wr { ah, remote_qpn: 0x99, remote_qkey: 5 };
            assert_eq!(post_send(ud, &raw mut wr, &mut null_mut()), answer);
            let list = ud.cast::<ibv_qp_ex>();
            (FUNCTIONS.wr_start)(list);
            (FUNCTIONS.wr_send)(list);
            (FUNCTIONS.wr_set_ud_addr)(list, ah, 0x99, 5);
            assert_eq!((FUNCTIONS.wr_complete)(list), answer);
            assert_eq!(ibv_destroy_ah(ah), 0);
        }
        assert_eq!(ibv_destroy_qp(ud), 0);
        assert_eq!(ibv_dealloc_pd(elsewhere), 0);
    }
    world.end();
}

/// A request that binds `mw` to all of `mr`.
fn bind_request(mw: *mut ibv_mw, mr: *mut ibv_mr, rkey: u32) -> ibv_send_wr {
    // SAFETY: integers and null pointers, and a region that lives.
    unsafe {
        let mut wr: ibv_send_wr = zeroed();
        (wr.opcode, wr.send_flags) = (BIND_MW, SIGNALED);
        (wr.bind_mw.mw, wr.bind_mw.rkey) = (mw, rkey);
        let (addr, mw_access_flags) = ((*mr).addr as u64, REMOTE_WRITE as u32);
        wr.bind_mw.bind_info = ibv_mw_bind_info { mr, addr, length: 64, mw_access_flags };
        wr
    }
}

#[test]
fn v36_of_the_key_in_a_bind_the_low_eight_bits_count_and_the_window_gets_the_result() {
    let mut world = world(36);
    world.connect();
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let buffer = world.buffer.as_mut_ptr().cast();
        let mr = ibv_reg_mr(world.pd, buffer, 64, LOCAL_WRITE | REMOTE_WRITE | MW_BIND);
        let mw = alloc_mw(world.pd, 2);
        let index = (*mw).rkey & !0xff;
        let mut bind = bind_request(mw, mr, 0x1234_56cd);
        assert_eq!(post_send(world.qp, &raw mut bind, &mut null_mut()), 0);
        assert_eq!((*mw).rkey, index | 0xcd);
        assert_eq!(world.poll().status, 0);
        let mut from = world.sge(0, 4);
        let mut write = world.send(&mut from, null_mut());
        write.opcode = RDMA_WRITE;
        write.wr.rdma = rdma_wr { remote_addr: buffer as u64 + 8, rkey: (*mw).rkey };
        assert_eq!(post_send(world.qp, &raw mut write, &mut null_mut()), 0);
        assert_eq!(world.poll().status, 0, "the key that the window tells is good");

        let list = world.qp.cast::<ibv_qp_ex>();
        (FUNCTIONS.wr_start)(list);
        (*list).wr_flags = SIGNALED;
        (FUNCTIONS.wr_local_inv)(list, (*mw).rkey);
        (FUNCTIONS.wr_bind_mw)(list, mw, 0xef, &raw const bind.bind_mw.bind_info);
        assert_eq!((*mw).rkey, index | 0xcd, "nothing is posted yet");
        assert_eq!((FUNCTIONS.wr_complete)(list), 0);
        assert_eq!((*mw).rkey, index | 0xef);
        assert_eq!([world.poll().status, world.poll().status], [0, 0]);
        assert_eq!(dealloc_mw(mw), 0);
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    world.end();
}

#[test]
fn v37_type_1_is_bound_by_ibv_bind_mw_and_type_2_by_a_request() {
    let mut world = world(37);
    world.connect();
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let buffer = world.buffer.as_mut_ptr().cast();
        let mr = ibv_reg_mr(world.pd, buffer, 64, LOCAL_WRITE | REMOTE_WRITE | MW_BIND);
        let (one, two) = (alloc_mw(world.pd, 1), alloc_mw(world.pd, 2));
        let mut request = bind_request(one, mr, 7);
        assert_eq!(post_send(world.qp, &raw mut request, &mut null_mut()), libc::EINVAL);
        let mut call: ibv_mw_bind = zeroed();
        call.bind_info = request.bind_mw.bind_info;
        let before = (*two).rkey;
        assert_eq!(bind_mw(world.qp, two, &raw mut call), libc::EINVAL);
        assert_eq!((*two).rkey, before);
        assert_eq!(bind_mw(world.qp, one, &raw mut call), 0);
        assert_eq!((dealloc_mw(one), dealloc_mw(two)), (0, 0));
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    world.end();
}

#[test]
fn v38_inline_requests_have_the_entries_that_were_asked_for_and_no_null_data() {
    let world = world(38);
    world.connect();
    let mut entries = [world.sge(0, 1), world.sge(1, 1)];
    let mut nowhere = ibv_sge { addr: 0, ..world.sge(0, 1) };
    let mut wr = world.send(&mut entries[0], null_mut());
    wr.send_flags |= INLINE;
    // SAFETY: all calls as the manual pages want them, but for what is refused.
    unsafe {
        wr.num_sge = 2;
        assert_eq!(post_send(world.qp, &raw mut wr, &mut null_mut()), libc::EINVAL);
        (wr.num_sge, wr.sg_list) = (1, &raw mut nowhere);
        assert_eq!(post_send(world.qp, &raw mut wr, &mut null_mut()), libc::EINVAL);
    }
    world.end();
}
