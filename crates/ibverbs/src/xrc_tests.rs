//! XRC as C programs use it: who shares what, and what stays while it is in use.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use libc::c_int;

use crate::abi::*;
use crate::contract_tests::opened;
use crate::cq_create::{ibv_create_cq, ibv_destroy_cq};
use crate::object::zeroed;
use crate::open::ibv_close_device;
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use crate::qp_create::{create_qp_ex, ibv_create_qp, ibv_destroy_qp};
use crate::srq::{create_srq_ex, get_srq_num, ibv_destroy_srq};
use crate::xrc_target::open_qp;
use crate::xrcd::{close_xrcd, open_xrcd};

const XRC_SEND: c_int = 9;
const XRC_RECV: c_int = 10;
const SRQ_XRC: c_int = 1;
const CREATE: c_int = libc::O_CREAT;

fn errno() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

fn open(context: *mut ibv_context, fd: c_int, oflags: c_int) -> *mut ibv_xrcd {
    let mut attr = ibv_xrcd_init_attr { comp_mask: 3, fd, oflags };
    // SAFETY: as the manual page wants it.
    unsafe { open_xrcd(context, &raw mut attr) }
}

/// A target in the domain.
fn target(context: *mut ibv_context, xrcd: *mut ibv_xrcd) -> *mut ibv_qp {
    // SAFETY: as the manual page wants it.
    unsafe {
        let mut init: ibv_qp_init_attr_ex = zeroed();
        (init.qp_type, init.comp_mask, init.xrcd) = (XRC_RECV, 2, xrcd);
        create_qp_ex(context, &raw mut init)
    }
}

/// Another object for a target of the domain.
fn again(context: *mut ibv_context, xrcd: *mut ibv_xrcd, qp_num: u32) -> *mut ibv_qp {
    let (qp_context, qp_type) = (null_mut(), XRC_RECV);
    let mut attr = ibv_qp_open_attr { comp_mask: 0b1011, qp_num, xrcd, qp_context, qp_type };
    // SAFETY: as the manual page wants it.
    unsafe { open_qp(context, &raw mut attr) }
}

#[test]
fn r93_what_is_in_use_is_not_destroyed() {
    let context = opened(210);
    // SAFETY: all calls as the manual pages want them; refused ones destroy nothing.
    unsafe {
        let (pd, xrcd) = (ibv_alloc_pd(context), open(context, -1, CREATE));
        let cq = ibv_create_cq(context, 16, null_mut(), null_mut(), 0);
        let mut init: ibv_srq_init_attr_ex = zeroed();
        (init.attr.max_wr, init.attr.max_sge) = (4, 1);
        (init.srq_type, init.comp_mask) = (SRQ_XRC, 0b1111);
        (init.pd, init.xrcd, init.cq) = (pd, xrcd, cq);
        let srq = create_srq_ex(context, &raw mut init);
        let qp = target(context, xrcd);
        assert!(!srq.is_null() && !qp.is_null());
        let mut number = 0;
        assert_eq!(get_srq_num(srq, &raw mut number), 0);
        assert!(number > 0 && number < 1 << 24);
        assert_eq!((close_xrcd(xrcd), ibv_destroy_cq(cq)), (libc::EBUSY, libc::EBUSY));
        assert_eq!(ibv_destroy_srq(srq), 0);
        assert_eq!((close_xrcd(xrcd), ibv_destroy_cq(cq)), (libc::EBUSY, 0));
        assert_eq!((ibv_destroy_qp(qp), close_xrcd(xrcd), ibv_dealloc_pd(pd)), (0, 0, 0));
        ibv_close_device(context);
    }
}

#[test]
fn a_file_stands_for_a_domain_in_all_contexts_of_the_process() {
    let (first, second) = (opened(211), opened(211));
    let path = std::env::temp_dir().join(format!("uroce-xrcd-{}", std::process::id()));
    let file = File::create(&path).expect("a file");
    let fd = file.as_raw_fd();
    assert!(open(first, fd, 0).is_null());
    assert_eq!(errno(), Some(libc::EAGAIN), "there is none yet");
    let mine = open(first, fd, CREATE | libc::O_EXCL);
    assert!(open(second, fd, CREATE | libc::O_EXCL).is_null());
    assert_eq!(errno(), Some(libc::EINVAL), "there is one");
    let theirs = open(second, fd, 0);
    let qp = target(first, mine);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let twin = again(second, theirs, (*qp).qp_num);
        assert_eq!((*twin).qp_num, (*qp).qp_num);
        assert_eq!(close_xrcd(mine), 0, "others have it open");
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!(close_xrcd(theirs), libc::EBUSY, "the twin is still there");
        assert_eq!((ibv_destroy_qp(twin), close_xrcd(theirs)), (0, 0));
        assert!(open(first, fd, 0).is_null(), "it went with the last one");
        ibv_close_device(first);
        ibv_close_device(second);
    }
    std::fs::remove_file(path).expect("the file goes");
}

#[test]
fn v104_only_targets_of_the_domain_can_be_opened() {
    let context = opened(212);
    let (mine, other) = (open(context, -1, CREATE), open(context, -1, CREATE));
    let qp = target(context, mine);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        assert!(again(context, other, (*qp).qp_num).is_null());
        assert_eq!(errno(), Some(libc::EINVAL));
        assert!(again(context, mine, (*qp).qp_num ^ 1).is_null());
        assert_eq!(ibv_destroy_qp(qp), 0);
        assert_eq!((close_xrcd(mine), close_xrcd(other)), (0, 0));
        ibv_close_device(context);
    }
}

#[test]
fn an_initiator_needs_no_receive_queue_and_a_target_needs_a_domain() {
    let context = opened(213);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let pd = ibv_alloc_pd(context);
        let cq = ibv_create_cq(context, 16, null_mut(), null_mut(), 0);
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.qp_type, init.cap.max_send_wr) = (cq, XRC_SEND, 4);
        let qp = ibv_create_qp(pd, &raw mut init);
        assert!(!qp.is_null());
        init.qp_type = XRC_RECV;
        init.recv_cq = cq;
        assert!(ibv_create_qp(pd, &raw mut init).is_null());
        assert_eq!(errno(), Some(libc::EINVAL));
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_cq(cq), ibv_dealloc_pd(pd)), (0, 0, 0));
        ibv_close_device(context);
    }
}
