//! Shared receive queues, of the basic kind and of XRC, and the domains of XRC.

use std::ptr::null_mut;

use libc::{EBUSY, EINVAL, ENOENT, ENOMEM, EOPNOTSUPP, c_int};

use super::{attributes, errno, masks, request, why, world};
use crate::abi::*;
use crate::async_event::{ibv_ack_async_event, ibv_get_async_event};
use crate::contract_tests::World;
use crate::object::zeroed;
use crate::post_recv::post_srq_recv;
use crate::post_send::post_send;
use crate::qp_attr::ibv_modify_qp;
use crate::qp_create::{create_qp_ex, ibv_create_qp, ibv_destroy_qp};
use crate::srq::{
    create_srq_ex, get_srq_num, ibv_create_srq, ibv_destroy_srq, ibv_modify_srq, ibv_query_srq,
};
use crate::xrc_target::open_qp;
use crate::xrcd::{close_xrcd, open_xrcd};

const ALL_OF_XRC: u32 =
    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

fn queue(world: &World, max_wr: u32, max_sge: u32) -> Result<*mut ibv_srq, c_int> {
    // SAFETY: integers and null pointers; the call as the manual page wants it.
    unsafe {
        let mut init: ibv_srq_init_attr = zeroed();
        init.attr = ibv_srq_attr { max_wr, max_sge, srq_limit: 77 };
        why(ibv_create_srq(world.pd, &raw mut init))
    }
}

fn query(srq: *mut ibv_srq) -> (u32, u32, u32) {
    let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 0 };
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { ibv_query_srq(srq, &raw mut attr) }, 0);
    (attr.max_wr, attr.max_sge, attr.srq_limit)
}

fn modify(srq: *mut ibv_srq, max_wr: u32, srq_limit: u32, mask: c_int) -> c_int {
    let mut attr = ibv_srq_attr { max_wr, max_sge: 0, srq_limit };
    // SAFETY: as the manual page wants it.
    unsafe { ibv_modify_srq(srq, &raw mut attr, mask) }
}

fn receive(srq: *mut ibv_srq, wr_id: u64) -> c_int {
    let mut wr = ibv_recv_wr { wr_id, next: null_mut(), sg_list: null_mut(), num_sge: 0 };
    // SAFETY: as the manual page wants it.
    unsafe { post_srq_recv(srq, &raw mut wr, &mut null_mut()) }
}

#[test]
fn a_shared_queue_has_its_limits() {
    let world = world(120);
    for (max_wr, max_sge) in [(0, 1), (u32::MAX, 1), (1, u32::MAX), (1, 33)] {
        assert!(queue(&world, max_wr, max_sge).is_err(), "{max_wr} {max_sge}");
    }
    let srq = queue(&world, 16, 2).expect("within the limits");
    let (size, pieces, limit) = query(srq);
    assert!(size >= 16 && pieces >= 2 && limit == 0, "no limit is armed at first");
    (0..u64::from(size)).for_each(|wr_id| assert_eq!(receive(srq, wr_id), 0));
    assert_eq!(receive(srq, 99), ENOMEM, "it is full");
    assert_eq!(modify(srq, size, 0, 1 << 2), EINVAL, "no such attribute");
    assert_eq!(modify(srq, size, size + 1, IBV_SRQ_LIMIT), EINVAL, "more than it holds");
    assert_eq!(modify(srq, size, size, IBV_SRQ_LIMIT), 0);
    assert_eq!(query(srq).2, size);
    assert_eq!(modify(srq, 1, 0, IBV_SRQ_MAX_WR), EINVAL, "fewer than are in it");
    assert_eq!(modify(srq, 0, 0, 0), 0, "nothing");
    assert_eq!(query(srq), (size, pieces, size));
    let mut number = 0;
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(get_srq_num(srq, &raw mut number), EOPNOTSUPP, "only those of XRC");
        assert_eq!((ibv_destroy_srq(srq), ibv_destroy_srq(srq)), (0, ENOENT), "twice");
    }
    assert_eq!(modify(srq, 1, 1, 1), ENOENT);
    world.end();
}

/// A connected queue pair whose receives are those of a shared queue.
fn receiver(world: &World, srq: *mut ibv_srq) -> *mut ibv_qp {
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.srq) = (world.cq, world.cq, srq);
        (init.qp_type, init.cap.max_send_wr) = (IBV_QPT_RC, 4);
        let qp = ibv_create_qp(world.pd, &raw mut init);
        let mut attr = attributes(world, qp);
        for (state, mask) in (IBV_QPS_INIT..).zip(masks(IBV_QPT_RC)) {
            attr.qp_state = state;
            assert_eq!(ibv_modify_qp(qp, &raw mut attr, mask), 0);
        }
        qp
    }
}

#[test]
fn a_limit_is_told_once_and_then_disarmed() {
    let world = world(121);
    let srq = queue(&world, 4, 1).expect("within the limits");
    let qp = receiver(&world, srq);
    (0..3).for_each(|wr_id| assert_eq!(receive(srq, wr_id), 0));
    assert_eq!(modify(srq, 0, 2, IBV_SRQ_LIMIT), 0);
    // SAFETY: integers and a pointer; the calls as the manual pages want them.
    unsafe {
        assert_eq!((*qp).srq, srq);
        assert_eq!(ibv_destroy_srq(srq), EBUSY, "a queue pair receives from it");
        for _ in 0..2 {
            let mut wr = request(IBV_WR_SEND);
            assert_eq!(post_send(qp, &raw mut wr, &mut null_mut()), 0);
            assert_eq!((world.poll().status, world.poll().status), (0, 0));
        }
        let mut event: ibv_async_event = zeroed();
        assert_eq!(ibv_get_async_event(world.context, &raw mut event), 0);
        assert_eq!((event.event_type, event.element), (IBV_EVENT_SRQ_LIMIT_REACHED, srq.cast()));
        ibv_ack_async_event(&raw mut event);
        assert_eq!(((*srq).events_completed, query(srq).2), (1, 0), "it is told once");
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_srq(srq)), (0, 0));
    }
    world.end();
}

fn domain(world: &World, comp_mask: u32, fd: c_int, oflags: c_int) -> Result<*mut ibv_xrcd, c_int> {
    let mut attr = ibv_xrcd_init_attr { comp_mask, fd, oflags };
    // SAFETY: as the manual page wants it.
    why(unsafe { open_xrcd(world.context, &raw mut attr) })
}

#[test]
fn a_domain_of_xrc_is_opened_as_a_file_is() {
    let world = world(122);
    let both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    for mask in [0, IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS] {
        assert_eq!(domain(&world, mask, -1, libc::O_CREAT).err(), Some(EINVAL), "{mask}");
    }
    assert_eq!(domain(&world, both | 4, -1, libc::O_CREAT).err(), Some(EOPNOTSUPP));
    let xrcd = domain(&world, both, -1, libc::O_CREAT).expect("one of its own");
    // SAFETY: a domain, which is destroyed twice.
    unsafe {
        assert_eq!((*xrcd).context, world.context);
        assert_eq!((close_xrcd(xrcd), close_xrcd(xrcd)), (0, ENOENT));
    }
    assert!(domain(&world, both, c_int::MAX, libc::O_CREAT).is_err(), "no such file");
    world.end();
}

#[test]
fn a_shared_queue_of_xrc_needs_all_its_attributes() {
    let world = world(123);
    let both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    let xrcd = domain(&world, both, -1, libc::O_CREAT).expect("one of its own");
    let make = |comp_mask, srq_type| {
        // SAFETY: integers and null pointers; the call as the manual page wants it.
        unsafe {
            let mut init: ibv_srq_init_attr_ex = zeroed();
            (init.attr.max_wr, init.attr.max_sge) = (4, 1);
            (init.comp_mask, init.srq_type) = (comp_mask, srq_type);
            (init.pd, init.xrcd, init.cq) = (world.pd, xrcd, world.cq);
            why(create_srq_ex(world.context, &raw mut init))
        }
    };
    for bit in (0..4).map(|bit| 1 << bit) {
        assert_eq!(make(ALL_OF_XRC & !bit, IBV_SRQT_XRC).err(), Some(EINVAL), "{bit}");
    }
    for (mask, srq_type) in [(ALL_OF_XRC | 16, IBV_SRQT_XRC), (ALL_OF_XRC, 2), (1, IBV_SRQT_BASIC)]
    {
        assert_eq!(make(mask, srq_type).err(), Some(EOPNOTSUPP), "{mask} {srq_type}");
    }
    let (one, two) = (make(ALL_OF_XRC, IBV_SRQT_XRC), make(ALL_OF_XRC, IBV_SRQT_XRC));
    let (one, two) = (one.expect("all is there"), two.expect("all is there"));
    let number = |srq| {
        let mut number = 0;
        // SAFETY: as the manual page wants it.
        assert_eq!(unsafe { get_srq_num(srq, &raw mut number) }, 0);
        number
    };
    assert_ne!(number(one), number(two));
    // SAFETY: as the manual pages want it; null is checked.
    unsafe {
        assert_eq!(get_srq_num(one, null_mut()), EINVAL);
        assert_eq!((ibv_destroy_srq(one), close_xrcd(xrcd), ibv_destroy_srq(two)), (0, EBUSY, 0));
        assert_eq!(close_xrcd(xrcd), 0);
    }
    world.end();
}

#[test]
fn a_target_of_xrc_is_opened_again_by_its_number() {
    let world = world(124);
    let both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    let xrcd = domain(&world, both, -1, libc::O_CREAT).expect("one of its own");
    // SAFETY: integers and null pointers; the calls as the manual pages want them.
    unsafe {
        let mut init: ibv_qp_init_attr_ex = zeroed();
        (init.qp_type, init.comp_mask, init.xrcd) = (IBV_QPT_XRC_RECV, IBV_QP_INIT_ATTR_XRCD, xrcd);
        let target = create_qp_ex(world.context, &raw mut init);
        assert!((*target).pd.is_null() && (*target).send_cq.is_null());
        let all = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
        let open = |comp_mask, qp_num, qp_type| {
            let qp_context = 0x66 as *mut libc::c_void;
            let mut attr = ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context, qp_type };
            why(open_qp(world.context, &raw mut attr))
        };
        let number = (*target).qp_num;
        for bit in [IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_XRCD, IBV_QP_OPEN_ATTR_TYPE] {
            assert_eq!(open(all & !bit, number, IBV_QPT_XRC_RECV).err(), Some(EINVAL), "{bit}");
        }
        assert_eq!(open(all | 16, number, IBV_QPT_XRC_RECV).err(), Some(EOPNOTSUPP));
        assert_eq!(open(all, number, IBV_QPT_RC).err(), Some(EINVAL), "another type");
        assert_eq!(open(all, number ^ 1, IBV_QPT_XRC_RECV).err(), Some(EINVAL), "no such target");
        let plain = open(all, number, IBV_QPT_XRC_RECV).expect("it is there");
        assert!((*plain).qp_context.is_null(), "none was given");
        let named = open(all | IBV_QP_OPEN_ATTR_CONTEXT, number, IBV_QPT_XRC_RECV);
        let named = named.expect("it is there");
        assert_eq!(((*named).qp_context.addr(), (*named).qp_num), (0x66, number));
        for qp in [target, plain, named] {
            assert_eq!((close_xrcd(xrcd), ibv_destroy_qp(qp)), (EBUSY, 0));
        }
        assert_eq!((close_xrcd(xrcd), errno() != 0), (0, true));
    }
    world.end();
}
