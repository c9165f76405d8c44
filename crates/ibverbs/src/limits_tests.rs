//! What `ibv_query_device` promises can be made.

use std::ptr::null_mut;
use std::time::{Duration, Instant};

use crate::abi::*;
use crate::contract_tests::{World, world};
use crate::cq::{modify_cq, req_notify_cq};
use crate::cq_create::{ibv_create_cq, ibv_destroy_cq};
use crate::cq_event::{ibv_ack_cq_events, ibv_get_cq_event};
use crate::object::zeroed;
use crate::post_send::post_send;
use crate::qp_create::{ibv_create_qp, ibv_destroy_qp};
use crate::query::{ibv_query_device, query_device_ex, query_port};
use crate::srq::{ibv_create_srq, ibv_destroy_srq};

const RC: libc::c_int = 2;

fn attr(world: &World) -> ibv_device_attr {
    // SAFETY: integers, filled as the manual page wants it.
    unsafe {
        let mut attr: ibv_device_attr = zeroed();
        assert_eq!(ibv_query_device(world.context, &raw mut attr), 0);
        attr
    }
}

fn smallest(world: &World) -> ibv_qp_init_attr {
    // SAFETY: integers and null pointers.
    let mut init: ibv_qp_init_attr = unsafe { zeroed() };
    (init.send_cq, init.recv_cq, init.qp_type) = (world.cq, world.cq, RC);
    (init.cap.max_send_wr, init.cap.max_recv_wr) = (1, 1);
    init
}

#[test]
fn v41_as_many_queue_pairs_as_are_told_can_be_made() {
    let world = world(41);
    let mut init = smallest(&world);
    let many = attr(&world).max_qp as usize - 1;
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let made: Vec<_> = (0..many).map(|_| ibv_create_qp(world.pd, &raw mut init)).collect();
        assert!(made.iter().all(|qp| !qp.is_null()), "and one is the world's own");
        assert!(ibv_create_qp(world.pd, &raw mut init).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
        assert!(made.into_iter().all(|qp| ibv_destroy_qp(qp) == 0));
    }
    world.end();
}

/// All that `make` makes, until there is no more.
fn exhaust<T>(limit: libc::c_int, make: impl Fn() -> *mut T) -> Vec<*mut T> {
    let made: Vec<_> =
        std::iter::repeat_with(make).take_while(|object| !object.is_null()).collect();
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOMEM));
    assert_eq!(made.len(), limit as usize - 1, "and one is the world's own");
    made
}

#[test]
fn a29_without_memory_for_more_objects_all_else_goes_on() {
    use crate::mr::{ibv_dereg_mr, ibv_reg_mr};
    let world = world(49);
    world.connect();
    let told = attr(&world);
    let buffer = world.buffer.as_ptr().cast_mut().cast();
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let cq = || ibv_create_cq(world.context, 1, null_mut(), null_mut(), 0);
        let cqs = exhaust(told.max_cq, cq);
        let mrs = exhaust(told.max_mr, || ibv_reg_mr(world.pd, buffer, 64, 0));
        let qps = exhaust(told.max_qp, || ibv_create_qp(world.pd, &mut smallest(&world)));
        let mut from = world.sge(0, 0);
        let mut wr = world.send(&mut from, null_mut());
        wr.opcode = 0;
        assert_eq!(post_send(world.qp, &raw mut wr, &mut null_mut()), 0);
        assert_eq!(world.poll().status, 0);
        // What is given back can be had again.
        assert_eq!(ibv_destroy_cq(cqs[0]), 0);
        assert_eq!(ibv_destroy_cq(cq()), 0);
        assert!(qps.into_iter().all(|qp| ibv_destroy_qp(qp) == 0));
        assert!(mrs.into_iter().all(|mr| ibv_dereg_mr(mr) == 0));
        assert!(cqs[1..].iter().all(|&cq| ibv_destroy_cq(cq) == 0));
    }
    world.end();
}

#[test]
fn v41_queues_as_large_as_are_told_can_be_made() {
    let world = world(42);
    let told = attr(&world);
    assert_eq!((told.max_cqe, told.max_srq_sge, told.atomic_cap), (1 << 22, 32, 2));
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let cq = ibv_create_cq(world.context, told.max_cqe, null_mut(), null_mut(), 0);
        assert!(!cq.is_null());
        let mut init: ibv_srq_init_attr = zeroed();
        let (max_wr, max_sge) = (told.max_srq_wr as u32, told.max_srq_sge as u32);
        init.attr = ibv_srq_attr { max_wr, max_sge, srq_limit: 0 };
        let srq = ibv_create_srq(world.pd, &raw mut init);
        assert!(!srq.is_null());
        let mut init = smallest(&world);
        (init.cap.max_send_wr, init.cap.max_recv_wr) =
            (told.max_qp_wr as u32, told.max_qp_wr as u32);
        (init.cap.max_send_sge, init.cap.max_recv_sge) = (told.max_sge as u32, told.max_sge as u32);
        init.cap.max_inline_data = 1024;
        let qp = ibv_create_qp(world.pd, &raw mut init);
        assert!(!qp.is_null());
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_srq(srq), ibv_destroy_cq(cq)), (0, 0, 0));
    }
    world.end();
}

#[test]
fn v40_the_extended_attributes_tell_what_is_there() {
    let world = world(44);
    // SAFETY: structs of integers, and calls as the manual pages want them.
    unsafe {
        let mut attr: ibv_device_attr_ex = zeroed();
        let size = size_of::<ibv_device_attr_ex>();
        assert_eq!(query_device_ex(world.context, null_mut(), &raw mut attr, size), 0);
        assert_eq!(attr.device_cap_flags_ex >> 38 & 0b111, 0b101, "no persistent flush");
        assert_eq!(attr.odp_caps.rc_odp_caps >> 6, 0b11);
        let mut port: ibv_port_attr = zeroed();
        let size = size_of::<ibv_port_attr>();
        assert_eq!(query_port(world.context, 1, &raw mut port, size), 0);
        assert_eq!(port.active_speed_ex, u32::from(port.active_speed));
    }
    world.end();
}

#[test]
fn v95_a_wrong_qkey_is_counted_at_the_port() {
    use crate::ah::{ibv_create_ah, ibv_destroy_ah};
    use crate::qp_attr::ibv_modify_qp;
    let world = world(48);
    let mut init = smallest(&world);
    init.qp_type = 4;
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let ud = ibv_create_qp(world.pd, &raw mut init);
        let mut attr: ibv_qp_attr = zeroed();
        (attr.port_num, attr.qkey) = (1, 5);
        for (state, mask) in [(1, 1 | 1 << 4 | 1 << 5 | 1 << 6), (2, 1), (3, 1 | 1 << 16)] {
            attr.qp_state = state;
            assert_eq!(ibv_modify_qp(ud, &raw mut attr, mask), 0);
        }
        let mut to: ibv_ah_attr = zeroed();
        (to.is_global, to.port_num) = (1, 1);
        to.grh.dgid = ibv_gid::from_gid(uroce_device::wire::Gid::from_ip(world.address));
        let ah = ibv_create_ah(world.pd, &raw mut to);
        let mut wr: ibv_send_wr = zeroed();
        (wr.opcode, wr.send_flags) = (2, 2);
        wr.wr.ud = ud_wr { ah, remote_qpn: (*ud).qp_num, remote_qkey: 6 };
        assert_eq!(post_send(ud, &raw mut wr, &mut null_mut()), 0);
        assert_eq!(world.poll().status, 0);
        let mut port: ibv_port_attr = zeroed();
        let end = Instant::now() + Duration::from_secs(20);
        while port.qkey_viol_cntr == 0 {
            assert!(Instant::now() < end, "the violation is not counted");
            assert_eq!(query_port(world.context, 1, &raw mut port, size_of::<ibv_port_attr>()), 0);
        }
        assert_eq!((port.qkey_viol_cntr, port.bad_pkey_cntr), (1, 0));
        assert_eq!((ibv_destroy_ah(ah), ibv_destroy_qp(ud)), (0, 0));
    }
    world.end();
}

#[test]
fn v45_one_event_for_several_completions() {
    let world = world(47);
    world.connect();
    let far = ibv_modify_cq_attr { attr_mask: 1, cq_count: 2, cq_period: u16::MAX };
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let mut attr: ibv_device_attr_ex = zeroed();
        let size = size_of::<ibv_device_attr_ex>();
        assert_eq!(query_device_ex(world.context, null_mut(), &raw mut attr, size), 0);
        assert_eq!(
            (attr.cq_mod_caps.max_cq_count, attr.cq_mod_caps.max_cq_period),
            (65_535, 65_535)
        );
        let fd = (*world.channel).fd;
        libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) & !libc::O_NONBLOCK);
        for (attr, posted) in [(far, 2), (ibv_modify_cq_attr { cq_count: 100, ..far }, 1)] {
            let mut attr = attr;
            assert_eq!(modify_cq(world.cq, &raw mut attr), 0);
            assert_eq!(req_notify_cq(world.cq, 0), 0);
            let mut from = world.sge(0, 0);
            for _ in 0..posted {
                let mut wr = world.send(&mut from, null_mut());
                wr.opcode = 0;
                assert_eq!(post_send(world.qp, &raw mut wr, &mut null_mut()), 0);
            }
            let (mut cq, mut cookie) = (null_mut(), null_mut());
            assert_eq!(ibv_get_cq_event(world.channel, &raw mut cq, &raw mut cookie), 0);
            ibv_ack_cq_events(cq, 1);
            for _ in 0..posted {
                assert_eq!(world.poll().status, 0);
            }
        }
        let mut attr = ibv_modify_cq_attr { attr_mask: 2, ..far };
        assert_eq!(modify_cq(world.cq, &raw mut attr), libc::EOPNOTSUPP);
    }
    world.end();
}
