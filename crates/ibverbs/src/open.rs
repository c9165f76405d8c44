//! Opening and closing a device, and the functions that a context has in it.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::sync::Arc;

use libc::c_int;

use crate::abi::{ibv_context, ibv_context_ops, ibv_device, verbs_context, verbs_slots};
use crate::context::{ContextObject, Ctx, ctx_of, verbs_context_of};
use crate::device_list::{interface_on, listed_device};
use crate::errno::INVALID;
use crate::object::zeroed;
use crate::return_value::{minus_one, pointer};
use crate::unsupported::unsupported;
use crate::{
    buf, clock, cq, cq_create, dm, dmah, domain, fork_locks, import, mr, mr_ex, mw, post_recv,
    post_send, qp_create, query, settings, srq, xrc_target, xrcd,
};

/// Marks a context that has the extended functions before it.
const EXTENDED: usize = usize::MAX;

/// ibv_open_device(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        let interface = Arc::new(interface_on(device).ok_or(INVALID)?);
        let command = import::new_file(&interface)?;
        Ok(object(device, Ctx::new(interface, command)?))
    })
}

/// What the program gets for an open device.
fn object(device: *mut ibv_device, ctx: Ctx) -> *mut ibv_context {
    fork_locks::register();
    let whole = ContextObject::create(described(device, ctx.descriptors()), Arc::new(ctx));
    // SAFETY: just made; this only computes the address of a field.
    unsafe { std::ptr::addr_of_mut!((*whole).context) }
}

/// ibv_import_device(3): a context of the device that another context has open, in this process; objects
/// of either can be imported into the other. The descriptor belongs to the new context from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    pointer(|| {
        let interface = import::interface_of(cmd_fd)?;
        // SAFETY: the manual page gives the descriptor to the new context.
        let command = unsafe { File::from_raw_fd(cmd_fd) };
        let device = listed_device(&interface).ok_or(INVALID)?;
        Ok(object(device, Ctx::new(interface, command)?))
    })
}

/// ibv_close_device(3). Objects that the program left behind keep the device open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    minus_one(|| {
        // SAFETY: the manual pages ask that the context is not used any more.
        unsafe {
            ctx_of(context)?;
            ContextObject::destroy(verbs_context_of(context));
        }
        Ok(())
    })
}

/// The context as a program gets it, with its functions in it.
fn described(device: *mut ibv_device, (cmd_fd, async_fd): (c_int, c_int)) -> verbs_context {
    // SAFETY: null pointers, integers and a mutex.
    let mutex = unsafe { zeroed() };
    let context = ibv_context {
        device,
        ops: OPS,
        cmd_fd,
        async_fd,
        num_comp_vectors: settings::engines().get().into(),
        mutex,
        abi_compat: std::ptr::without_provenance_mut(EXTENDED),
    };
    // SAFETY: empty slots, a null pointer and integers.
    let mut slots: verbs_slots = unsafe { zeroed() };
    slots.sz = size_of::<verbs_context>();
    slots.alloc_buf = Some(buf::ibv_alloc_buf);
    slots.free_buf = Some(buf::ibv_free_buf);
    slots.dm_export_dmabuf_fd = Some(dm::ibv_dm_export_dmabuf_fd);
    slots.alloc_dmah = Some(dmah::ibv_alloc_dmah);
    slots.dealloc_dmah = Some(dmah::ibv_dealloc_dmah);
    slots.reg_mr_ex = Some(mr_ex::ibv_reg_mr_ex);
    slots.advise_mr = Some(mr::advise_mr);
    slots.query_port = Some(query::query_port);
    slots.query_device_ex = Some(query::query_device_ex);
    slots.alloc_td = Some(domain::alloc_td);
    slots.dealloc_td = Some(domain::dealloc_td);
    slots.alloc_parent_domain = Some(domain::alloc_parent_domain);
    slots.alloc_dm = Some(dm::alloc_dm);
    slots.free_dm = Some(dm::free_dm);
    slots.reg_dm_mr = Some(dm::reg_dm_mr);
    slots.query_rt_values = Some(clock::query_rt_values);
    slots.modify_cq = Some(cq::modify_cq);
    slots.create_cq_ex = Some(cq_create::create_cq_ex);
    slots.create_qp_ex = Some(qp_create::create_qp_ex);
    slots.create_srq_ex = Some(srq::create_srq_ex);
    slots.get_srq_num = Some(srq::get_srq_num);
    slots.open_qp = Some(xrc_target::open_qp);
    slots.open_xrcd = Some(xrcd::open_xrcd);
    slots.close_xrcd = Some(xrcd::close_xrcd);
    verbs_context { slots, context }
}

const OPS: ibv_context_ops = ibv_context_ops {
    compat_before: [Some(unsupported); 7],
    alloc_mw: mw::alloc_mw,
    bind_mw: mw::bind_mw,
    dealloc_mw: mw::dealloc_mw,
    compat_create_cq: Some(unsupported),
    poll_cq: cq::poll_cq,
    req_notify_cq: cq::req_notify_cq,
    compat_cq: [Some(unsupported); 7],
    post_srq_recv: post_recv::post_srq_recv,
    compat_qp: [Some(unsupported); 4],
    post_send: post_send::post_send,
    post_recv: post_recv::post_recv,
    compat_after: [Some(unsupported); 5],
};
