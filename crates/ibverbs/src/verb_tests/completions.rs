//! Completion queues in both forms, their events, and requests that fail.

use std::ptr::null_mut;

use libc::{EAGAIN, EBUSY, EINVAL, ENOENT, EOPNOTSUPP, c_int, c_void};

use super::{errno, in_state, queue_pair, request, why, world};
use crate::abi::*;
use crate::async_event::{ibv_ack_async_event, ibv_get_async_event};
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::contract_tests::World;
use crate::cq::{ibv_resize_cq, poll_cq, req_notify_cq};
use crate::cq_create::{create_cq_ex, ibv_create_cq, ibv_destroy_cq};
use crate::cq_event::{ibv_ack_cq_events, ibv_get_cq_event};
use crate::domain::{alloc_parent_domain, alloc_td, dealloc_td};
use crate::object::zeroed;
use crate::pd::ibv_dealloc_pd;
use crate::post_recv::post_recv;
use crate::post_send::post_send;
use crate::qp_attr::ibv_modify_qp;
use crate::qp_create::{ibv_create_qp, ibv_destroy_qp};

const FLUSHED: c_int = 5;

fn set_nonblocking(fd: c_int) {
    // SAFETY: a descriptor that lives.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK), 0);
    }
}

/// Posts a WRITE of no bytes, which the queue pair's peer, itself, takes.
fn write(qp: *mut ibv_qp, wr_id: u64, flags: u32) {
    let mut wr = request(IBV_WR_RDMA_WRITE);
    (wr.wr_id, wr.send_flags) = (wr_id, flags);
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { post_send(qp, &raw mut wr, &mut null_mut()) }, 0);
}

fn receive(qp: *mut ibv_qp, wr_id: u64) -> c_int {
    let mut wr = ibv_recv_wr { wr_id, next: null_mut(), sg_list: null_mut(), num_sge: 0 };
    // SAFETY: as the manual page wants it.
    unsafe { post_recv(qp, &raw mut wr, &mut null_mut()) }
}

fn to_error(qp: *mut ibv_qp) {
    // SAFETY: integers; the call as the manual page wants it.
    unsafe {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_ERR;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, IBV_QP_STATE), 0);
    }
}

/// An extended queue.
fn extended(
    world: &World,
    change: impl Fn(&mut ibv_cq_init_attr_ex),
) -> Result<*mut ibv_cq_ex, c_int> {
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let mut attr: ibv_cq_init_attr_ex = zeroed();
        attr.cqe = 8;
        change(&mut attr);
        why(create_cq_ex(world.context, &raw mut attr))
    }
}

#[test]
fn a_queue_has_the_size_that_it_was_made_or_resized_with() {
    let world = world(40);
    // SAFETY: as the manual pages want it.
    unsafe {
        let cookie = 0x77 as *mut c_void;
        let cq = ibv_create_cq(world.context, 1, cookie, null_mut(), 0);
        assert!((*cq).cqe >= 1 && (*cq).cq_context == cookie && (*cq).channel.is_null());
        assert_eq!((ibv_resize_cq(cq, 100), (*cq).cqe), (0, 100));
        for size in [0, -1, c_int::MAX] {
            assert_eq!(ibv_resize_cq(cq, size), EINVAL, "{size}");
        }
        assert_eq!((*cq).cqe, 100, "a refused size changes nothing");
        assert_eq!((ibv_destroy_cq(cq), ibv_destroy_cq(cq)), (0, ENOENT), "twice");
        assert_eq!(ibv_resize_cq(cq, 1), ENOENT);
    }
    world.end();
}

#[test]
fn a_queue_does_not_become_smaller_than_what_is_in_it() {
    let world = world(41);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    (0..4).for_each(|wr_id| assert_eq!(receive(qp, wr_id), 0));
    to_error(qp);
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(ibv_resize_cq(world.cq, 3), EINVAL, "4 completions wait");
        assert_eq!(ibv_resize_cq(world.cq, 4), 0);
        let mut wcs = [ibv_wc::default(); 6];
        assert_eq!(poll_cq(world.cq, 0, wcs.as_mut_ptr()), 0, "none was asked for");
        assert_eq!(poll_cq(world.cq, -1, wcs.as_mut_ptr()), 0);
        assert_eq!(poll_cq(world.cq, 3, wcs.as_mut_ptr()), 3);
        assert_eq!(wcs.map(|wc| wc.wr_id)[..3], [0, 1, 2]);
        assert_eq!(poll_cq(world.cq, 6, wcs.as_mut_ptr()), 1, "one is left");
        assert_eq!((wcs[0].wr_id, wcs[0].status, wcs[0].qp_num), (3, FLUSHED, (*qp).qp_num));
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    world.end();
}

#[test]
fn what_was_asked_for_decides_whether_an_extended_queue_is_made() {
    let world = world(42);
    let flags = |wc_flags| extended(&world, |attr| attr.wc_flags = wc_flags);
    for wc_flags in [0, IBV_WC_STANDARD_FLAGS, 1 << 7, 1 << 11] {
        let cq = flags(wc_flags).expect("they are known");
        // SAFETY: the long form begins with the short one.
        assert_eq!(unsafe { ibv_destroy_cq(cq.cast()) }, 0);
    }
    for unknown in [1 << 8, 1 << 9, 1 << 10, 1 << 12, 1 << 63] {
        assert_eq!(flags(unknown).err(), Some(EOPNOTSUPP), "{unknown:#x}");
    }
    let mask = |comp_mask| extended(&world, |attr| attr.comp_mask = comp_mask).err();
    assert_eq!((mask(4), mask(1 << 31)), (Some(EOPNOTSUPP), Some(EOPNOTSUPP)));
    assert_eq!(mask(IBV_CQ_INIT_ATTR_MASK_PD), Some(EINVAL), "no domain is there");
    assert_eq!(extended(&world, |attr| attr.cqe = 0).err(), Some(EINVAL));
    assert_eq!(extended(&world, |attr| attr.comp_vector = 99).err(), Some(EINVAL));
    let plain = extended(&world, |attr| {
        (attr.comp_mask, attr.parent_domain) = (IBV_CQ_INIT_ATTR_MASK_PD, world.pd);
    });
    assert_eq!(plain.err(), Some(EINVAL), "a domain that is no parent domain");
    world.end();
}

#[test]
fn a_queue_of_a_parent_domain_is_made() {
    let world = world(43);
    // SAFETY: as the manual pages want it.
    unsafe {
        let td = alloc_td(world.context, &mut ibv_td_init_attr { comp_mask: 0 });
        let mut attr: ibv_parent_domain_init_attr = zeroed();
        (attr.pd, attr.td, attr.comp_mask) = (world.pd, td, 1 << 5);
        assert_eq!(why(alloc_parent_domain(world.context, &raw mut attr)).err(), Some(EOPNOTSUPP));
        attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
        let parent = alloc_parent_domain(world.context, &raw mut attr);
        let cq = extended(&world, |attr| {
            attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD | IBV_CQ_INIT_ATTR_MASK_FLAGS;
            (attr.parent_domain, attr.flags) = (parent, 1);
        });
        assert_eq!(ibv_destroy_cq(cq.expect("it is a parent domain").cast()), 0);
        assert_eq!((dealloc_td(td), ibv_dealloc_pd(parent)), (EBUSY, 0));
        assert_eq!((dealloc_td(td), dealloc_td(td)), (0, ENOENT));
    }
    world.end();
}

/// From `ibv_start_poll` to `ibv_end_poll` a thread has the queue: no other one takes its completion or changes what it reads.
#[test]
fn an_extended_queue_is_read_by_one_thread_at_a_time() {
    const EACH: u64 = 2_000;
    const THREADS: u64 = 4;
    let world = world(198);
    let cq = extended(&world, |attr| attr.cqe = (EACH * THREADS) as u32).expect("it is made");
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    let qp = unsafe {
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.qp_type) = (cq.cast(), cq.cast(), IBV_QPT_RC);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (2, (EACH * THREADS) as u32);
        let qp = ibv_create_qp(world.pd, &raw mut init);
        let mut attr = super::attributes(&world, qp);
        attr.qp_state = IBV_QPS_INIT;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, super::masks(IBV_QPT_RC)[0]), 0);
        qp
    };
    (0..EACH * THREADS).for_each(|wr_id| assert_eq!(receive(qp, wr_id), 0));
    to_error(qp);
    let at = cq.expose_provenance();
    let take_some = move || {
        let mut taken = vec![];
        let cq: *mut ibv_cq_ex = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: the queue outlives the thread; its fields are read only while this thread has it.
        unsafe {
            while ((*cq).start_poll)(cq, null_mut()) == 0 {
                std::thread::yield_now();
                taken.push((*cq).wr_id);
                while taken.len() % 7 != 0 && ((*cq).next_poll)(cq) == 0 {
                    taken.push((*cq).wr_id);
                }
                ((*cq).end_poll)(cq);
            }
        }
        taken
    };
    let threads = [(); THREADS as usize].map(|()| std::thread::spawn(take_some));
    let taken = threads.map(|thread| thread.join().expect("no panic"));
    let mut taken: Vec<u64> = taken.into_iter().flatten().collect();
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..EACH * THREADS), "each of them once");
    // SAFETY: nothing of it is used afterwards.
    unsafe { assert_eq!((ibv_destroy_qp(qp), ibv_destroy_cq(cq.cast())), (0, 0)) };
    world.end();
}

#[test]
fn an_extended_queue_is_read_completion_by_completion() {
    let world = world(44);
    let cq = extended(&world, |attr| attr.wc_flags = IBV_WC_STANDARD_FLAGS | 1 << 7 | 1 << 11);
    let cq = cq.expect("they are known");
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let e = &*cq;
        assert_eq!((e.start_poll)(cq, null_mut()), ENOENT, "it is empty");
        assert_eq!((e.start_poll)(cq, &1), EINVAL, "no such attribute");
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.qp_type) = (cq.cast(), cq.cast(), IBV_QPT_RC);
        (init.cap.max_send_wr, init.cap.max_recv_wr) = (2, 4);
        let qp = ibv_create_qp(world.pd, &raw mut init);
        let mut attr = super::attributes(&world, qp);
        attr.qp_state = IBV_QPS_INIT;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, super::masks(IBV_QPT_RC)[0]), 0);
        (10..13).for_each(|wr_id| assert_eq!(receive(qp, wr_id), 0));
        to_error(qp);
        assert_eq!((e.start_poll)(cq, &0), 0);
        let first = (e.read_completion_ts)(cq);
        let clock = (e.read_completion_wallclock_ns)(cq);
        assert!(clock > first, "1970 was before the machine started");
        for wr_id in 10..13 {
            assert_eq!(((*cq).wr_id, (*cq).status), (wr_id, FLUSHED));
            assert_eq!((e.read_qp_num)(cq), (*qp).qp_num);
            assert_eq!(((e.read_byte_len)(cq), (e.read_wc_flags)(cq)), (0, 0));
            assert_eq!(((e.read_src_qp)(cq), (e.read_imm_data)(cq)), (0, 0));
            assert_eq!(
                ((e.read_slid)(cq), (e.read_sl)(cq), (e.read_dlid_path_bits)(cq)),
                (0, 0, 0)
            );
            assert!((e.read_completion_ts)(cq) >= first, "later, or at the same time");
            let next = (e.next_poll)(cq);
            assert_eq!(next, if wr_id < 12 { 0 } else { ENOENT });
        }
        (e.end_poll)(cq);
        assert_eq!((e.start_poll)(cq, &0), ENOENT, "all were taken");
        assert_eq!((ibv_destroy_cq(cq.cast()), ibv_destroy_qp(qp)), (EBUSY, 0));
        assert_eq!(ibv_destroy_cq(cq.cast()), 0);
    }
    world.end();
}

#[test]
fn an_event_comes_once_for_each_time_that_it_was_asked_for() {
    let world = world(45);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let (mut cq, mut cookie) = (null_mut(), null_mut());
    // SAFETY: as the manual pages want it.
    unsafe {
        set_nonblocking((*world.channel).fd);
        let mut fetch = || ibv_get_cq_event(world.channel, &raw mut cq, &raw mut cookie);
        write(qp, 1, IBV_SEND_SIGNALED);
        world.poll();
        assert_eq!((fetch(), errno()), (-1, EAGAIN), "nobody asked");
        assert_eq!((req_notify_cq(world.cq, 0), req_notify_cq(world.cq, 0)), (0, 0));
        write(qp, 2, IBV_SEND_SIGNALED);
        write(qp, 3, IBV_SEND_SIGNALED);
        assert_eq!([world.poll().wr_id, world.poll().wr_id], [2, 3]);
        assert_eq!(fetch(), 0);
        assert_eq!((fetch(), errno()), (-1, EAGAIN), "one event, however often it was asked");
        assert_eq!(req_notify_cq(world.cq, 1), 0);
        write(qp, 4, IBV_SEND_SIGNALED);
        world.poll();
        assert_eq!((fetch(), errno()), (-1, EAGAIN), "it is no solicited one");
        ibv_ack_cq_events(world.cq, 1);
        ibv_ack_cq_events(world.cq, 0);
        assert_eq!((*world.cq).comp_events_completed, 1);
        ibv_ack_cq_events(world.cq, 5);
        assert_eq!((*world.cq).comp_events_completed, 6, "what the program says");
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    // More acknowledged than fetched: the queue is destroyed, and does not wait.
    world.end();
}

#[test]
fn an_error_is_an_event_even_if_only_solicited_ones_are_wanted() {
    let world = world(46);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let (mut cq, mut cookie) = (null_mut(), null_mut());
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(receive(qp, 1), 0);
        assert_eq!(req_notify_cq(world.cq, 1), 0);
        to_error(qp);
        assert_eq!(ibv_get_cq_event(world.channel, &raw mut cq, &raw mut cookie), 0);
        assert_eq!((cq, cookie), (world.cq, (*world.cq).cq_context));
        ibv_ack_cq_events(cq, 1);
        assert_eq!((world.poll().status, ibv_destroy_qp(qp)), (FLUSHED, 0));
    }
    world.end();
}

#[test]
fn a_channel_counts_its_queues_and_outlives_them() {
    let world = world(47);
    // SAFETY: as the manual pages want it.
    unsafe {
        let channel = ibv_create_comp_channel(world.context);
        assert_eq!((*channel).refcnt, 0);
        let make = || ibv_create_cq(world.context, 1, null_mut(), channel, 0);
        let (one, two) = (make(), make());
        assert_eq!(((*channel).refcnt, ibv_destroy_comp_channel(channel)), (2, EBUSY));
        assert_eq!((ibv_destroy_cq(one), (*channel).refcnt), (0, 1));
        assert_eq!((ibv_destroy_comp_channel(channel), ibv_destroy_cq(two)), (EBUSY, 0));
        assert_eq!(
            (ibv_destroy_comp_channel(channel), ibv_destroy_comp_channel(channel)),
            (0, ENOENT)
        );
        assert_eq!(why(make()).err(), Some(ENOENT), "it is gone");
    }
    world.end();
}

#[test]
fn requests_complete_if_they_are_signalled_or_fail() {
    let world = world(48);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    write(qp, 1, 0);
    write(qp, 2, IBV_SEND_SIGNALED);
    assert_eq!(world.poll().wr_id, 2, "the first one said nothing");
    to_error(qp);
    write(qp, 3, 0);
    let failed = world.poll();
    assert_eq!((failed.wr_id, failed.status), (3, FLUSHED), "an error is always told");
    assert_eq!(receive(qp, 4), 0);
    assert_eq!((world.poll().wr_id, receive(qp, 5)), (4, 0));
    // SAFETY: nothing of it is used afterwards.
    assert_eq!(unsafe { ibv_destroy_qp(qp) }, 0, "with a completion that nobody has polled");
    let mut wc = ibv_wc::default();
    // SAFETY: one completion.
    assert!(unsafe { poll_cq(world.cq, 1, &raw mut wc) } >= 0);
    world.end();
}

#[test]
fn a_queue_pair_takes_requests_in_its_states() {
    let world = world(49);
    let send_answer = |qp| {
        let mut wr = request(IBV_WR_RDMA_WRITE);
        // SAFETY: as the manual page wants it.
        unsafe { post_send(qp, &raw mut wr, &mut null_mut()) }
    };
    let reset = queue_pair(&world, IBV_QPT_RC);
    assert_eq!((send_answer(reset) != 0, receive(reset, 1) != 0), (true, true), "RESET");
    let mut all = vec![reset];
    for (state, sends) in [(IBV_QPS_INIT, false), (IBV_QPS_RTR, false), (IBV_QPS_SQD, true)] {
        let qp = in_state(&world, IBV_QPT_RC, state);
        assert_eq!((send_answer(qp) == 0, receive(qp, 1)), (sends, 0), "state {state}");
        all.push(qp);
    }
    // SAFETY: nothing of them is used afterwards.
    assert!(all.into_iter().all(|qp| unsafe { ibv_destroy_qp(qp) } == 0));
    world.end();
}

#[test]
fn receives_fill_the_queue_and_no_more() {
    let world = world(50);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_INIT);
    let most = super::query(qp).cap.max_recv_wr;
    (0..u64::from(most)).for_each(|wr_id| assert_eq!(receive(qp, wr_id), 0));
    assert_eq!(receive(qp, 99), libc::ENOMEM);
    let mut sges = [world.sge(0, 1); 3];
    let mut list = [0, 1].map(|wr_id| ibv_recv_wr {
        wr_id,
        next: null_mut(),
        sg_list: sges.as_mut_ptr(),
        num_sge: if wr_id == 0 { 1 } else { 3 },
    });
    let fresh = in_state(&world, IBV_QPT_RC, IBV_QPS_INIT);
    list[0].next = &raw mut list[1];
    let mut bad = null_mut();
    // SAFETY: a list of two; what is refused is named.
    unsafe {
        assert_eq!(post_recv(fresh, &raw mut list[0], &raw mut bad), EINVAL, "three pieces of two");
        assert_eq!(bad, &raw mut list[1], "the first one was taken");
        list[0].num_sge = -1;
        assert_eq!(post_recv(fresh, &raw mut list[0], &raw mut bad), EINVAL);
        assert_eq!(bad, &raw mut list[0]);
        to_error(fresh);
        assert_eq!((world.poll().wr_id, ibv_destroy_qp(fresh), ibv_destroy_qp(qp)), (0, 0, 0));
    }
    world.end();
}

#[test]
fn events_of_a_context_wait_until_they_are_fetched() {
    let world = world(51);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    // SAFETY: integers and a pointer; the calls as the manual pages want them.
    unsafe {
        set_nonblocking((*world.context).async_fd);
        let mut event: ibv_async_event = zeroed();
        assert_eq!(ibv_get_async_event(world.context, &raw mut event), -1);
        assert_eq!(errno(), EAGAIN);
        let mut attr: ibv_qp_attr = zeroed();
        (attr.qp_state, attr.en_sqd_async_notify) = (IBV_QPS_SQD, 1);
        let mask = IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, mask), 0);
        assert_eq!(ibv_get_async_event(world.context, &raw mut event), 0);
        assert_eq!((event.event_type, event.element), (IBV_EVENT_SQ_DRAINED, qp.cast()));
        ibv_ack_async_event(&raw mut event);
        assert_eq!(((*qp).events_completed, ibv_destroy_qp(qp)), (1, 0));
        assert_eq!(ibv_get_async_event(world.context, &raw mut event), -1, "no other one");
    }
    world.end();
}
