//! `ibv_wr_*`: requests that are written between `ibv_wr_start` and `ibv_wr_complete`.

use std::ptr::{null, null_mut};
use std::sync::mpsc;
use std::time::Duration;

use libc::{EINVAL, EOPNOTSUPP};

use super::{in_state, remote_region, request, world};
use crate::abi::*;
use crate::ah::{ibv_create_ah, ibv_destroy_ah};
use crate::contract_tests::World;
use crate::cq::poll_cq;
use crate::mr::ibv_dereg_mr;
use crate::mw::{alloc_mw, dealloc_mw};
use crate::post_recv::post_recv;
use crate::qp_create::ibv_destroy_qp;
use crate::qp_ex::FUNCTIONS;

/// Posts what `write` writes.
fn post(qp: *mut ibv_qp, write: impl FnOnce(*mut ibv_qp_ex)) -> i32 {
    let list = qp.cast::<ibv_qp_ex>();
    // SAFETY: as the manual pages want it.
    unsafe {
        (FUNCTIONS.wr_start)(list);
        ((*list).wr_id, (*list).wr_flags) = (1, IBV_SEND_SIGNALED);
        write(list);
        (FUNCTIONS.wr_complete)(list)
    }
}

fn assert_nothing_completes(world: &World) {
    let mut wc = ibv_wc::default();
    // SAFETY: one completion.
    assert_eq!(unsafe { poll_cq(world.cq, 1, &raw mut wc) }, 0, "wr_id {}", wc.wr_id);
}

fn read(world: &World, at: usize) -> u64 {
    // SAFETY: 8 bytes of the test's own memory, read as a program reads what a NIC has written.
    unsafe { world.buffer.as_ptr().add(at).cast::<u64>().read_unaligned() }
}

#[test]
fn each_operation_does_what_its_name_says() {
    let mut world = world(20);
    let mr = remote_region(&mut world);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    // SAFETY: a region that lives.
    let (lkey, rkey, at) = unsafe { ((*mr).lkey, (*mr).rkey, (*mr).addr as u64) };
    world.buffer[..8].copy_from_slice(&7_u64.to_ne_bytes());
    // SAFETY: as the manual pages want it.
    unsafe {
        let write = post(qp, |list| {
            (FUNCTIONS.wr_rdma_write)(list, rkey, at + 16);
            (FUNCTIONS.wr_set_sge)(list, lkey, at, 8);
        });
        assert_eq!((write, world.poll().status, read(&world, 16)), (0, 0, 7));
        let fetched = post(qp, |list| {
            (FUNCTIONS.wr_atomic_fetch_add)(list, rkey, at + 16, 5);
            (FUNCTIONS.wr_set_sge)(list, lkey, at + 24, 8);
        });
        assert_eq!((fetched, world.poll().status), (0, 0));
        assert_eq!((read(&world, 16), read(&world, 24)), (12, 7), "the value before");
        let swapped = post(qp, |list| {
            (FUNCTIONS.wr_atomic_cmp_swp)(list, rkey, at + 16, 12, 99);
            (FUNCTIONS.wr_set_sge)(list, lkey, at + 24, 8);
        });
        assert_eq!((swapped, world.poll().status), (0, 0));
        assert_eq!((read(&world, 16), read(&world, 24)), (99, 12));
        let fetched = post(qp, |list| {
            (FUNCTIONS.wr_rdma_read)(list, rkey, at + 16);
            (FUNCTIONS.wr_set_sge)(list, lkey, at + 32, 8);
        });
        assert_eq!((fetched, world.poll().status, read(&world, 32)), (0, 0, 99));
        let word = 0x1122_3344_5566_7788_u64;
        let written = post(qp, |list| {
            (FUNCTIONS.wr_atomic_write)(list, rkey, at + 40, (&raw const word).cast());
        });
        assert_eq!((written, world.poll().status, read(&world, 40)), (0, 0, word));
        let inline = post(qp, |list| {
            (FUNCTIONS.wr_rdma_write)(list, rkey, at + 48);
            (FUNCTIONS.wr_set_inline_data)(list, (&raw const word).cast(), 4);
        });
        assert_eq!((inline, world.poll().status), (0, 0));
        assert_eq!(read(&world, 48), u64::from(word as u32), "4 bytes of it");
        assert_eq!((ibv_destroy_qp(qp), ibv_dereg_mr(mr)), (0, 0));
    }
    world.end();
}

#[test]
fn what_belongs_to_a_request_follows_it() {
    let world = world(21);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let sges = [world.sge(0, 4), world.sge(8, 4)];
    let byte = 1_u8;
    // SAFETY: as in a program that mixes up the order.
    unsafe {
        type Setter<'a> = &'a dyn Fn(*mut ibv_qp_ex);
        let setters: [(&str, Setter<'_>); 6] = [
            ("entry", &|list| (FUNCTIONS.wr_set_sge)(list, 0, 0, 0)),
            ("entries", &|list| (FUNCTIONS.wr_set_sge_list)(list, 2, sges.as_ptr())),
            ("data", &|list| (FUNCTIONS.wr_set_inline_data)(list, (&raw const byte).cast(), 1)),
            ("pieces", &|list| (FUNCTIONS.wr_set_inline_data_list)(list, 0, null())),
            ("queue", &|list| (FUNCTIONS.wr_set_xrc_srqn)(list, 1)),
            ("address", &|list| (FUNCTIONS.wr_set_ud_addr)(list, null_mut(), 1, 1)),
        ];
        for (why, set) in setters {
            let answer = post(qp, |list| {
                set(list);
                (FUNCTIONS.wr_rdma_write)(list, 0, 0);
            });
            assert_eq!(answer, EINVAL, "{why} of no request");
        }
        assert_nothing_completes(&world);
        assert_eq!(post(qp, |_| ()), 0, "a list of nothing");
        assert_nothing_completes(&world);
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    world.end();
}

#[test]
fn a_list_that_is_aborted_leaves_nothing() {
    let world = world(22);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let list = qp.cast::<ibv_qp_ex>();
    // SAFETY: as the manual pages want it.
    unsafe {
        (FUNCTIONS.wr_start)(list);
        ((*list).wr_id, (*list).wr_flags) = (77, IBV_SEND_SIGNALED);
        (FUNCTIONS.wr_rdma_write)(list, 0, 0);
        (FUNCTIONS.wr_set_sge_list)(list, usize::MAX, null());
        (FUNCTIONS.wr_abort)(list);
        assert_nothing_completes(&world);
        (FUNCTIONS.wr_abort)(list);
        // Another thread may begin: it would wait for a list that is still being written.
        let (told, began) = mpsc::channel();
        let shared = list.expose_provenance();
        let other = std::thread::spawn(move || {
            let list: *mut ibv_qp_ex = std::ptr::with_exposed_provenance_mut(shared);
            (FUNCTIONS.wr_start)(list);
            (FUNCTIONS.wr_abort)(list);
            told.send(()).expect("the test waits");
        });
        assert_eq!(began.recv_timeout(Duration::from_secs(20)), Ok(()), "it waits");
        other.join().expect("no panic");
        assert_eq!(post(qp, |list| (FUNCTIONS.wr_rdma_write)(list, 0, 0)), 0, "no error is left");
        assert_eq!(world.poll().wr_id, 1);
        assert_nothing_completes(&world);
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    world.end();
}

#[test]
fn a_thread_waits_until_the_other_ones_list_is_complete() {
    let world = world(23);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let list = qp.cast::<ibv_qp_ex>();
    let shared = list.expose_provenance();
    // SAFETY: as the manual pages want it: the interface makes threads wait for each other.
    unsafe {
        (FUNCTIONS.wr_start)(list);
        ((*list).wr_id, (*list).wr_flags) = (1, IBV_SEND_SIGNALED);
        (FUNCTIONS.wr_rdma_write)(list, 0, 0);
        let other = std::thread::spawn(move || {
            let list: *mut ibv_qp_ex = std::ptr::with_exposed_provenance_mut(shared);
            (FUNCTIONS.wr_start)(list);
            ((*list).wr_id, (*list).wr_flags) = (2, IBV_SEND_SIGNALED);
            (FUNCTIONS.wr_rdma_write)(list, 0, 0);
            (FUNCTIONS.wr_complete)(list)
        });
        (FUNCTIONS.wr_rdma_write)(list, 0, 0);
        assert_eq!((FUNCTIONS.wr_complete)(list), 0);
        assert_eq!(other.join().expect("no panic"), 0);
        assert_eq!([(); 3].map(|()| world.poll().wr_id), [1, 1, 2]);
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    world.end();
}

#[test]
fn requests_that_cannot_be_are_refused_when_the_list_is_posted() {
    let world = world(24);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let bytes = [0_u8; 4096];
    let long = ibv_data_buf { addr: bytes.as_ptr().cast(), length: bytes.len() };
    let nowhere = ibv_data_buf { addr: null(), length: 1 };
    let sges = [world.sge(0, 1); 3];
    // SAFETY: what is refused is not looked at.
    unsafe {
        type Write<'a> = &'a dyn Fn(*mut ibv_qp_ex);
        let wrong: [(&str, i32, Write<'_>); 9] = [
            ("segmentation", EOPNOTSUPP, &|list| (FUNCTIONS.wr_send_tso)(list, null_mut(), 0, 0)),
            ("a flush of 4 GiB", EINVAL, &|list| (FUNCTIONS.wr_flush)(list, 1, 0, 1 << 32, 1, 0)),
            ("a bind of nothing", EINVAL, &|list| {
                (FUNCTIONS.wr_bind_mw)(list, null_mut(), 1, null())
            }),
            ("three entries of two", EINVAL, &|list| {
                (FUNCTIONS.wr_send)(list);
                (FUNCTIONS.wr_set_sge_list)(list, 3, sges.as_ptr());
            }),
            ("entries at null", EINVAL, &|list| {
                (FUNCTIONS.wr_send)(list);
                (FUNCTIONS.wr_set_sge_list)(list, 1, null());
            }),
            ("more inline than asked for", EINVAL, &|list| {
                (FUNCTIONS.wr_send)(list);
                (FUNCTIONS.wr_set_inline_data_list)(list, 1, &raw const long);
            }),
            ("inline data at null", EINVAL, &|list| {
                (FUNCTIONS.wr_send)(list);
                (FUNCTIONS.wr_set_inline_data_list)(list, 1, &raw const nowhere);
            }),
            ("pieces at null", EINVAL, &|list| {
                (FUNCTIONS.wr_send)(list);
                (FUNCTIONS.wr_set_inline_data_list)(list, 1, null());
            }),
            ("a word at null", EINVAL, &|list| (FUNCTIONS.wr_atomic_write)(list, 1, 0, null())),
        ];
        for (why, errno, write) in wrong {
            assert_eq!(post(qp, write), errno, "{why}");
            assert_eq!(
                post(qp, |list| {
                    write(list);
                    (FUNCTIONS.wr_rdma_write)(list, 0, 0);
                }),
                errno,
                "{why}, before a good one"
            );
        }
        assert_nothing_completes(&world);
        assert_eq!(ibv_destroy_qp(qp), 0);
    }
    world.end();
}

#[test]
fn a_window_is_bound_and_invalidated_by_requests() {
    let mut world = world(25);
    let mr = remote_region(&mut world);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    // SAFETY: as the manual pages want it.
    unsafe {
        let (mw, at) = (alloc_mw(world.pd, IBV_MW_TYPE_2), (*mr).addr as u64);
        let mw_access_flags = IBV_ACCESS_REMOTE_WRITE as u32;
        let info = ibv_mw_bind_info { mr, addr: at, length: 16, mw_access_flags };
        let bind =
            |key: u32| post(qp, |list| (FUNCTIONS.wr_bind_mw)(list, mw, key, &raw const info));
        assert_eq!((bind(5), world.poll().status), (0, 0));
        let rkey = (*mw).rkey;
        assert_eq!(rkey & 0xff, 5);
        let write = |rkey, at| {
            post(qp, |list| {
                (FUNCTIONS.wr_rdma_write)(list, rkey, at);
                (FUNCTIONS.wr_set_inline_data)(list, b"w".as_ptr().cast(), 1);
            })
        };
        assert_eq!((write(rkey, at + 15), world.poll().status), (0, 0), "its last byte");
        assert_eq!(ibv_dereg_mr(mr), libc::EBUSY, "a window is bound to it");
        let gone = post(qp, |list| (FUNCTIONS.wr_local_inv)(list, rkey));
        assert_eq!((gone, world.poll().status), (0, 0));
        assert_eq!(write(rkey, at), 0);
        assert_ne!(world.poll().status, 0, "its key is no key any more");
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!((dealloc_mw(mw), ibv_dereg_mr(mr)), (0, 0));
    }
    world.end();
}

#[test]
fn a_datagram_has_an_address_and_says_who_sent_it() {
    let world = world(26);
    let qp = in_state(&world, IBV_QPT_UD, IBV_QPS_RTS);
    let mut to = world.sge(0, 64);
    let mut receive = ibv_recv_wr { wr_id: 9, next: null_mut(), sg_list: &raw mut to, num_sge: 1 };
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(post(qp, |list| (FUNCTIONS.wr_send)(list)), EINVAL, "no address");
        let mut path = super::attributes(&world, qp).ah_attr;
        let ah = ibv_create_ah(world.pd, &raw mut path);
        assert_eq!(post_recv(qp, &raw mut receive, &mut null_mut()), 0);
        let sent = post(qp, |list| {
            (FUNCTIONS.wr_send_imm)(list, 0x1234_5678_u32.to_be());
            (FUNCTIONS.wr_set_ud_addr)(list, ah, (*qp).qp_num, 0x11);
            (FUNCTIONS.wr_set_inline_data)(list, b"datagram".as_ptr().cast(), 8);
        });
        assert_eq!(sent, 0);
        let mut both = [world.poll(), world.poll()];
        both.sort_unstable_by_key(|wc| wc.wr_id);
        assert_eq!((both[0].status, both[1].status), (0, 0));
        let received = both[1];
        assert_eq!((received.wr_id, received.byte_len), (9, 48), "40 bytes before it");
        assert_eq!(received.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
        assert_eq!(received.imm_data, 0x1234_5678_u32.to_be());
        assert_eq!((received.src_qp, received.qp_num), ((*qp).qp_num, (*qp).qp_num));
        assert_eq!((ibv_destroy_ah(ah), ibv_destroy_qp(qp)), (0, 0));
    }
    assert_eq!(request(IBV_WR_SEND).num_sge, 0);
    world.end();
}
