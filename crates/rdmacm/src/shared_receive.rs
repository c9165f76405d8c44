//! Shared receive queues of ids.

use std::ptr::null_mut;

use libc::{c_int, c_void};
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID, made};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::return_value::{minus_one, value};
use uroce_ibverbs::srq::{create_srq_ex, ibv_create_srq, ibv_destroy_srq};
use uroce_verbs_abi::{
    IBV_QPT_XRC_RECV, IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE,
    IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQT_XRC, rdma_cm_id,
};
use uroce_verbs_abi::{ibv_pd, ibv_srq, ibv_srq_init_attr, ibv_srq_init_attr_ex};

use crate::contexts::xrcd;
use crate::id::{Id, id_of, is_inherited};
use crate::queue_pair::{IdQueues, drop_queues, queue};

/// rdma_create_srq(3): one for XRC if the id is the target of such a connection.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> c_int {
    minus_one(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            let init = &*not_null(init)?;
            let mut attr: ibv_srq_init_attr_ex = zeroed();
            (attr.srq_context, attr.attr, attr.pd) = (init.srq_context, init.attr, pd);
            attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
            id_of(id)?;
            if (*id).qp_type == IBV_QPT_XRC_RECV {
                attr.srq_type = IBV_SRQT_XRC;
            }
            create(id, &mut attr)
        }
    })
}

/// rdma_create_srq_ex(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_srq_ex(
    id: *mut rdma_cm_id,
    init: *mut ibv_srq_init_attr_ex,
) -> c_int {
    // SAFETY: the arguments are those of a call from C.
    minus_one(|| unsafe { create(id, &mut *not_null(init)?) })
}

/// What the program leaves open is the id's.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn create(id: *mut rdma_cm_id, attr: &mut ibv_srq_init_attr_ex) -> Result<(), Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        let inner = id_of(id)?;
        let (context, id) = (id.cast(), &mut *id);
        if !id.srq.is_null() || id.verbs.is_null() {
            return Err(INVALID);
        }
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || attr.pd.is_null() {
            (attr.comp_mask, attr.pd) = (attr.comp_mask | IBV_SRQ_INIT_ATTR_PD, id.pd);
        }
        let before = IdQueues::of(id, inner);
        let is_xrc = attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0 && attr.srq_type == IBV_SRQT_XRC;
        let created = if is_xrc {
            complete_xrc((id, context), inner, attr)
                .and_then(|()| made(create_srq_ex(id.verbs, attr)))
        } else {
            made(basic(attr))
        };
        let srq = created.inspect_err(|_| before.restore(id, inner))?;
        (id.srq, id.pd) = (srq, attr.pd);
    }
    Ok(())
}

/// The XRC domain of the device and a completion queue of the id's, unless the program has named some.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn complete_xrc(
    (id, context): (&mut rdma_cm_id, *mut c_void),
    inner: &Id,
    attr: &mut ibv_srq_init_attr_ex,
) -> Result<(), Errno> {
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null() {
        (attr.comp_mask, attr.xrcd) = (attr.comp_mask | IBV_SRQ_INIT_ATTR_XRCD, xrcd(id.verbs)?);
    }
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ == 0 || attr.cq.is_null() {
        inner.state().made_queues = true;
        let (size, channel) = (attr.attr.max_wr, &mut id.recv_cq_channel);
        // SAFETY: the arguments are those of a call from C.
        id.recv_cq = unsafe { queue(id.verbs, context, size, channel)? };
        (attr.comp_mask, attr.cq) = (attr.comp_mask | IBV_SRQ_INIT_ATTR_CQ, id.recv_cq);
    }
    Ok(())
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn basic(attr: &ibv_srq_init_attr_ex) -> *mut ibv_srq {
    let mut init = ibv_srq_init_attr { srq_context: attr.srq_context, attr: attr.attr };
    // SAFETY: the arguments are those of a call from C.
    unsafe { ibv_create_srq(attr.pd, &raw mut init) }
}

/// rdma_destroy_srq(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_srq(id: *mut rdma_cm_id) {
    value((), || {
        // SAFETY: the arguments of a call from C; null is refused, and does nothing.
        unsafe {
            if is_inherited(id) {
                return;
            }
            if let Ok(inner) = id_of(id) {
                ibv_destroy_srq((*id).srq);
                (*id).srq = null_mut();
                if (*id).qp.is_null() {
                    drop_queues(id, inner);
                }
            }
        }
    });
}
