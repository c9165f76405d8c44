//! What each function says to arguments that cannot be: null, sizes out of range, objects in the wrong state.

use std::ptr::{null, null_mut};

use libc::{EINVAL, EOPNOTSUPP, c_int};

use crate::abi::*;
use crate::ah::{ibv_create_ah, ibv_create_ah_from_wc, ibv_destroy_ah, ibv_init_ah_from_wc};
use crate::async_event::{ibv_ack_async_event, ibv_get_async_event};
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::clock::query_rt_values;
use crate::contract_tests::{opened, world};
use crate::cq::{ibv_resize_cq, modify_cq, req_notify_cq};
use crate::cq_create::{create_cq_ex, ibv_create_cq, ibv_destroy_cq};
use crate::cq_event::{ibv_ack_cq_events, ibv_get_cq_event};
use crate::device_list::{
    ibv_free_device_list, ibv_get_device_guid, ibv_get_device_index, ibv_get_device_name,
};
use crate::dm::{alloc_dm, free_dm, ibv_import_dm, ibv_unimport_dm, reg_dm_mr};
use crate::domain::{alloc_parent_domain, alloc_td, dealloc_td};
use crate::gid::{_ibv_query_gid_ex, _ibv_query_gid_table, ibv_query_gid, ibv_query_gid_type};
use crate::mcast::{ibv_attach_mcast, ibv_detach_mcast};
use crate::mr::{
    advise_mr, ibv_dereg_mr, ibv_import_mr, ibv_reg_mr, ibv_rereg_mr, ibv_unimport_mr,
};
use crate::mw::{alloc_mw, bind_mw, dealloc_mw};
use crate::object::zeroed;
use crate::open::ibv_close_device;
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd, ibv_import_pd, ibv_unimport_pd};
use crate::post_send::post_send;
use crate::qp::{ibv_qp_to_qp_ex, ibv_query_ece};
use crate::qp_attr::{ibv_modify_qp, ibv_query_qp};
use crate::qp_create::{create_qp_ex, ibv_create_qp, ibv_destroy_qp};
use crate::query::{
    ibv_get_pkey_index, ibv_query_device, ibv_query_pkey, ibv_query_port, query_device_ex,
    query_port,
};
use crate::srq::{
    create_srq_ex, get_srq_num, ibv_create_srq, ibv_destroy_srq, ibv_modify_srq, ibv_query_srq,
};
use crate::sysfs::ibv_read_sysfs_file;
use crate::xrc_target::open_qp;
use crate::xrcd::{close_xrcd, open_xrcd};

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[test]
fn functions_that_return_a_number_refuse_null() {
    // SAFETY: the library checks for null.
    let answers = unsafe {
        [
            ibv_query_device(null_mut(), null_mut()),
            ibv_query_port(null_mut(), 1, null_mut()),
            query_port(null_mut(), 1, null_mut(), 0),
            query_device_ex(null_mut(), null(), null_mut(), 0),
            _ibv_query_gid_ex(null_mut(), 1, 0, null_mut(), 0, 0),
            ibv_dealloc_pd(null_mut()),
            ibv_dereg_mr(null_mut()),
            advise_mr(null_mut(), 0, 0, null_mut(), 0),
            ibv_destroy_comp_channel(null_mut()),
            ibv_resize_cq(null_mut(), 1),
            modify_cq(null_mut(), null_mut()),
            req_notify_cq(null_mut(), 0),
            ibv_destroy_cq(null_mut()),
            ibv_modify_srq(null_mut(), null_mut(), 0),
            ibv_query_srq(null_mut(), null_mut()),
            get_srq_num(null_mut(), null_mut()),
            ibv_destroy_srq(null_mut()),
            ibv_modify_qp(null_mut(), null_mut(), 0),
            ibv_query_qp(null_mut(), null_mut(), 0, null_mut()),
            ibv_query_ece(null_mut(), null_mut()),
            ibv_destroy_qp(null_mut()),
            post_send(null_mut(), null_mut(), null_mut()),
            ibv_attach_mcast(null_mut(), null(), 0),
            ibv_detach_mcast(null_mut(), null(), 0),
            ibv_destroy_ah(null_mut()),
            bind_mw(null_mut(), null_mut(), null_mut()),
            dealloc_mw(null_mut()),
            free_dm(null_mut()),
            dealloc_td(null_mut()),
            close_xrcd(null_mut()),
            query_rt_values(null_mut(), null_mut()),
        ]
    };
    for (index, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, EINVAL, "call {index}");
    }
}

#[test]
fn functions_that_return_minus_one_refuse_null() {
    // SAFETY: the library checks for null.
    let answers = unsafe {
        [
            ibv_close_device(null_mut()),
            ibv_query_gid(null_mut(), 1, 0, null_mut()),
            ibv_query_gid_type(null_mut(), 1, 0, null_mut()),
            ibv_query_pkey(null_mut(), 1, 0, null_mut()),
            ibv_get_pkey_index(null_mut(), 1, 0),
            ibv_get_cq_event(null_mut(), null_mut(), null_mut()),
            ibv_get_async_event(null_mut(), null_mut()),
            ibv_rereg_mr(null_mut(), 1, null_mut(), null_mut(), 0, 0),
            ibv_init_ah_from_wc(null_mut(), 1, null_mut(), null_mut(), null_mut()),
            ibv_get_device_index(null_mut()),
            ibv_read_sysfs_file(null(), null(), null_mut(), 0),
        ]
    };
    assert_eq!(answers, [-1; 11]);
    // SAFETY: the library checks for null.
    unsafe {
        let table = _ibv_query_gid_table(null_mut(), null_mut(), 0, 0, 0);
        assert_eq!(table, -(EINVAL as isize));
        assert_eq!(ibv_get_device_guid(null_mut()), 0);
    }
}

#[test]
fn functions_that_return_an_object_refuse_null() {
    // SAFETY: the library checks for null.
    let answers = unsafe {
        [
            ibv_alloc_pd(null_mut()).is_null(),
            ibv_import_pd(null_mut(), 0).is_null(),
            ibv_reg_mr(null_mut(), null_mut(), 0, 0).is_null(),
            ibv_import_mr(null_mut(), 0).is_null(),
            ibv_create_comp_channel(null_mut()).is_null(),
            ibv_create_cq(null_mut(), 1, null_mut(), null_mut(), 0).is_null(),
            create_cq_ex(null_mut(), null_mut()).is_null(),
            ibv_create_srq(null_mut(), null_mut()).is_null(),
            create_srq_ex(null_mut(), null_mut()).is_null(),
            ibv_create_qp(null_mut(), null_mut()).is_null(),
            create_qp_ex(null_mut(), null_mut()).is_null(),
            open_qp(null_mut(), null_mut()).is_null(),
            ibv_qp_to_qp_ex(null_mut()).is_null(),
            ibv_create_ah(null_mut(), null_mut()).is_null(),
            ibv_create_ah_from_wc(null_mut(), null_mut(), null_mut(), 1).is_null(),
            alloc_mw(null_mut(), IBV_MW_TYPE_1).is_null(),
            alloc_dm(null_mut(), null_mut()).is_null(),
            ibv_import_dm(null_mut(), 0).is_null(),
            reg_dm_mr(null_mut(), null_mut(), 0, 0, 0).is_null(),
            alloc_td(null_mut(), null_mut()).is_null(),
            alloc_parent_domain(null_mut(), null_mut()).is_null(),
            open_xrcd(null_mut(), null_mut()).is_null(),
            ibv_get_device_name(null_mut()).is_null(),
        ]
    };
    assert_eq!(answers, [true; 23]);
}

#[test]
fn functions_that_return_nothing_ignore_null() {
    // SAFETY: the library checks for null.
    unsafe {
        ibv_ack_cq_events(null_mut(), 1);
        ibv_ack_async_event(null_mut());
        ibv_unimport_pd(null_mut());
        ibv_unimport_mr(null_mut());
        ibv_unimport_dm(null_mut());
        ibv_free_device_list(null_mut());
    }
    let context = opened(180);
    // SAFETY: it was opened above, and is not used any more.
    assert_eq!(unsafe { ibv_close_device(context) }, 0, "the library still works");
}

#[test]
fn a_good_object_with_a_null_struct_is_refused() {
    let world = world(181);
    // SAFETY: the library checks for null.
    unsafe {
        for answer in [
            ibv_query_device(world.context, null_mut()),
            ibv_query_port(world.context, 1, null_mut()),
            query_device_ex(world.context, null(), null_mut(), size_of::<ibv_device_attr_ex>()),
            ibv_modify_qp(world.qp, null_mut(), IBV_QP_STATE),
            ibv_query_qp(world.qp, null_mut(), 0, null_mut()),
            ibv_query_ece(world.qp, null_mut()),
            ibv_attach_mcast(world.qp, null(), 0),
            modify_cq(world.cq, null_mut()),
            query_rt_values(world.context, null_mut()),
        ] {
            assert_eq!(answer, EINVAL);
        }
        let mut ece = ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 };
        assert_eq!(ibv_query_ece(world.qp, &raw mut ece), libc::EOPNOTSUPP);
        assert_eq!(ibv_query_gid(world.context, 1, 0, null_mut()), -1);
        assert_eq!(ibv_query_pkey(world.context, 1, 0, null_mut()), -1);
        assert_eq!(ibv_get_cq_event(world.channel, null_mut(), null_mut()), -1);
        assert_eq!(ibv_get_async_event(world.context, null_mut()), -1);
        assert!(ibv_create_qp(world.pd, null_mut()).is_null());
        assert!(ibv_create_srq(world.pd, null_mut()).is_null());
        assert!(ibv_create_ah(world.pd, null_mut()).is_null());
        assert!(alloc_dm(world.context, null_mut()).is_null());
    }
    world.end();
}

#[test]
fn there_is_one_port_one_p_key_and_two_gids() {
    let context = opened(182);
    // SAFETY: the structs are local variables, long enough for what is asked.
    unsafe {
        let mut attr: ibv_port_attr = zeroed();
        let (mut gid, mut pkey): (ibv_gid, _) = (zeroed(), 0u16);
        for port in [0, 2, u8::MAX] {
            assert_eq!(ibv_query_port(context, port, &raw mut attr), EINVAL);
            assert_eq!(ibv_query_gid(context, port, 0, &raw mut gid), -1);
            assert_eq!(ibv_query_pkey(context, port, 0, &raw mut pkey), -1);
        }
        for index in [-1, 2, c_int::MAX] {
            assert_eq!((ibv_query_gid(context, 1, index, &raw mut gid), errno()), (-1, EINVAL));
        }
        assert_eq!(ibv_query_pkey(context, 1, 1, &raw mut pkey), -1);
        assert_eq!((ibv_query_pkey(context, 1, 0, &raw mut pkey), pkey), (0, 0xffff));
        assert_eq!(ibv_get_pkey_index(context, 1, 0xffff_u16.to_be()), 0);
        assert_eq!(ibv_get_pkey_index(context, 1, 0x7fff_u16.to_be()), -1);
        assert_eq!(ibv_close_device(context), 0);
    }
}

#[test]
fn structs_of_another_length_are_refused() {
    let context = opened(183);
    const ENTRY: usize = size_of::<ibv_gid_entry>();
    // SAFETY: the structs are local variables, long enough for what is asked.
    unsafe {
        let mut entries: [ibv_gid_entry; 2] = zeroed();
        let at = entries.as_mut_ptr();
        assert_eq!(_ibv_query_gid_ex(context, 1, 0, at, 0, ENTRY - 1), EINVAL);
        assert_eq!(_ibv_query_gid_ex(context, 1, 0, at, 1, ENTRY), EOPNOTSUPP);
        assert_eq!(_ibv_query_gid_ex(context, 1, 9, at, 0, ENTRY), EINVAL);
        assert_eq!(_ibv_query_gid_table(context, at, 1, 0, ENTRY), -(EINVAL as isize));
        assert_eq!(_ibv_query_gid_table(context, at, 2, 0, ENTRY), 2);
        assert_eq!((entries[1].gid_index, entries[1].gid_type), (1, IBV_GID_TYPE_ROCE_V2));
        let mut attr: ibv_device_attr_ex = zeroed();
        let short = size_of::<ibv_device_attr>() - 1;
        assert_eq!(query_device_ex(context, null(), &raw mut attr, short), EINVAL);
        assert_eq!(ibv_close_device(context), 0);
    }
}

#[test]
fn memory_that_cannot_be_is_not_registered() {
    let world = world(184);
    let bytes = world.buffer.as_ptr().cast_mut().cast();
    // SAFETY: the library finds out what the arguments are.
    unsafe {
        assert!(ibv_reg_mr(world.pd, bytes, 0, 1).is_null());
        assert_eq!(errno(), EINVAL, "no bytes");
        let end = std::ptr::without_provenance_mut(usize::MAX - 1);
        assert!(ibv_reg_mr(world.pd, end, 10, 1).is_null());
        assert_eq!(errno(), EINVAL, "behind the last address");
        let only_remote = IBV_ACCESS_REMOTE_WRITE;
        assert!(ibv_reg_mr(world.pd, bytes, 8, only_remote).is_null());
        assert_eq!(errno(), EINVAL, "remote without local write");
        let rereg = |flags| ibv_rereg_mr(world.mr, flags, null_mut(), null_mut(), 0, 0);
        assert_eq!((rereg(0), errno()), (IBV_REREG_MR_ERR_INPUT, EINVAL));
        assert_eq!((rereg(1 << 7), errno()), (IBV_REREG_MR_ERR_INPUT, EINVAL));
        let mut sge = world.sge(0, 8);
        let mut advise =
            |advice, flags, count| advise_mr(world.pd, advice, flags, &raw mut sge, count);
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 1), 0);
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 0, 0), EINVAL);
        assert_eq!(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, 2, 1), EINVAL);
        assert_eq!(advise(77, 0, 1), EOPNOTSUPP);
    }
    world.end();
}

#[test]
fn queues_that_cannot_be_are_not_made() {
    let world = world(185);
    // SAFETY: the structs are local variables.
    unsafe {
        for (cqe, vector) in [(0, 0), (-1, 0), (c_int::MAX, 0), (4, -1), (4, 99)] {
            let cq = ibv_create_cq(world.context, cqe, null_mut(), null_mut(), vector);
            assert!(cq.is_null() && errno() == EINVAL, "{cqe} {vector}: {}", errno());
        }
        assert_eq!(ibv_resize_cq(world.cq, -1), EINVAL);
        let mut moderation = ibv_modify_cq_attr { attr_mask: 0, cq_count: 1, cq_period: 1 };
        assert_eq!(modify_cq(world.cq, &raw mut moderation), EINVAL);
        moderation.attr_mask = 1 << 4;
        assert_eq!(modify_cq(world.cq, &raw mut moderation), EOPNOTSUPP);
        let mut attr: ibv_cq_init_attr_ex = zeroed();
        (attr.cqe, attr.wc_flags) = (4, 1 << 40);
        assert!(create_cq_ex(world.context, &raw mut attr).is_null() && errno() == EOPNOTSUPP);
        let mut init: ibv_qp_init_attr = zeroed();
        (init.send_cq, init.recv_cq, init.qp_type) = (world.cq, world.cq, 77);
        assert!(ibv_create_qp(world.pd, &raw mut init).is_null() && errno() == EOPNOTSUPP);
        (init.qp_type, init.send_cq) = (IBV_QPT_RC, null_mut());
        assert!(ibv_create_qp(world.pd, &raw mut init).is_null() && errno() == EINVAL);
        (init.send_cq, init.cap.max_send_wr) = (world.cq, u32::MAX);
        assert!(ibv_create_qp(world.pd, &raw mut init).is_null(), "longer than the device allows");
        let mut srq: ibv_srq_init_attr = zeroed();
        srq.attr.max_wr = u32::MAX;
        assert!(ibv_create_srq(world.pd, &raw mut srq).is_null(), "longer than the device allows");
    }
    world.end();
}

#[test]
fn steps_that_the_state_does_not_allow_are_refused() {
    let world = world(186);
    // SAFETY: the structs are local variables.
    unsafe {
        let mut attr: ibv_qp_attr = zeroed();
        let mut to = |state, mask| {
            attr.qp_state = state;
            ibv_modify_qp(world.qp, &raw mut attr, mask)
        };
        assert_eq!(to(IBV_QPS_RTS, IBV_QP_STATE), EINVAL, "from RESET");
        assert_eq!(to(IBV_QPS_INIT, IBV_QP_STATE), EINVAL, "attributes are missing");
        assert_eq!(to(77, IBV_QP_STATE), EINVAL, "there is no such state");
        assert_eq!(to(IBV_QPS_INIT, 1 << 27), EINVAL, "there is no such attribute");
        assert_eq!(to(IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_RATE_LIMIT), EOPNOTSUPP);
        assert_eq!((*world.qp).state, IBV_QPS_RESET, "it is as it was");
        let mut sge = world.sge(0, 8);
        let mut wr = world.send(&mut sge, null_mut());
        let mut bad = null_mut();
        assert_ne!(post_send(world.qp, &raw mut wr, &raw mut bad), 0, "in RESET");
        assert_eq!(bad, &raw mut wr);
        assert!(ibv_qp_to_qp_ex(world.qp).is_null(), "it was not made for that");
        assert_eq!(get_srq_num(null_mut(), null_mut()), EINVAL);
    }
    world.end();
}

#[test]
fn domains_and_windows_of_no_known_kind_are_refused() {
    let world = world(187);
    // SAFETY: the structs are local variables.
    unsafe {
        assert!(alloc_mw(world.pd, 3).is_null() && errno() == EINVAL);
        let mut td = ibv_td_init_attr { comp_mask: 1 };
        assert!(alloc_td(world.context, &raw mut td).is_null() && errno() == EOPNOTSUPP);
        let mut xrcd = ibv_xrcd_init_attr { comp_mask: IBV_XRCD_INIT_ATTR_FD, fd: -1, oflags: 0 };
        assert!(open_xrcd(world.context, &raw mut xrcd).is_null() && errno() == EINVAL);
        xrcd.comp_mask = 1 << 5;
        assert!(open_xrcd(world.context, &raw mut xrcd).is_null() && errno() == EOPNOTSUPP);
        let mut dm = ibv_alloc_dm_attr { length: 0, log_align_req: 0, comp_mask: 0 };
        assert!(alloc_dm(world.context, &raw mut dm).is_null() && errno() == EINVAL);
        (dm.length, dm.log_align_req) = (8, 13);
        assert!(alloc_dm(world.context, &raw mut dm).is_null() && errno() == EOPNOTSUPP);
        let mut attr: ibv_srq_init_attr_ex = zeroed();
        attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
        assert!(create_srq_ex(world.context, &raw mut attr).is_null() && errno() == EOPNOTSUPP);
        attr.srq_type = IBV_SRQT_XRC;
        assert!(create_srq_ex(world.context, &raw mut attr).is_null() && errno() == EINVAL);
    }
    world.end();
}
