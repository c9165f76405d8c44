//! Shared receive queues.

use std::sync::Arc;

use libc::{c_int, c_void};
use uroce_device::transport::{SrqAttr, SrqId, XrcSrq};
use uroce_device::{Device, EventOwner};

use crate::abi::{
    IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_INIT_ATTR_XRCD,
    IBV_SRQ_LIMIT, IBV_SRQ_MAX_WR, IBV_SRQT_XRC, ibv_context, ibv_pd, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr, ibv_srq_init_attr_ex,
};
use crate::arg::not_null;
use crate::context::ctx_of;
use crate::cq::live_cq;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::{Object, Place, fresh_locks};
use crate::open_device::OpenDevice;
use crate::pd::{Pd, pd_of};
use crate::return_value::{pointer, status};
use crate::unacknowledged::Unacknowledged;
use crate::use_count::Use;
use crate::xrcd::{Xrcd, xrcd_of};
use crate::{in_out, input, object_of};

/// What an XRC SRQ must be made with.
const MASK_ALL_XRC: u32 =
    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

/// What we keep about a shared receive queue.
#[derive(Debug)]
pub struct Srq {
    pub(crate) open_device: Arc<OpenDevice>,
    /// What the device calls it.
    pub id: SrqId,
    /// Of an XRC SRQ.
    domain: Option<Arc<Xrcd>>,
    pub(crate) unacknowledged: Unacknowledged,
    /// The parent domain that it belongs to.
    _parent: Option<Use>,
}

impl Srq {
    pub(crate) fn device(&self) -> &Device {
        &self.open_device.device
    }
}

/// Our part of a shared receive queue.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn srq_of<'a>(srq: *const ibv_srq) -> Result<&'a Srq, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_srq, Srq>::of(srq) }.ok_or(INVALID)
}

/// Our part of a shared receive queue, for control verbs; ENOENT if there is none at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn live_srq<'a>(srq: *const ibv_srq) -> Result<&'a Srq, Errno> {
    // SAFETY: the caller's promise, as above.
    unsafe { Object::<ibv_srq, Srq>::live(srq) }
}

/// ibv_create_srq(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    pointer(|| {
        let (owner, init) = (object_of!(pd_of(pd))?, in_out!(init)?);
        let id = owner.device().create_srq(owner.id, &sizes(&init.attr))?;
        Ok(wrap(id, pd, owner, init.srq_context, None))
    })
}

fn sizes(attr: &ibv_srq_attr) -> SrqAttr {
    SrqAttr { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: 0 }
}

/// The object for the program.
fn wrap(
    id: SrqId,
    pd: *mut ibv_pd,
    owner: &Pd,
    srq_context: *mut c_void,
    domain: Option<Arc<Xrcd>>,
) -> *mut ibv_srq {
    let mut place = Place::new();
    owner.device().async_events().own(EventOwner::Srq(id), &owner.ctx.events, place.address());
    let (mutex, cond) = fresh_locks();
    let c = ibv_srq {
        // SAFETY: a domain that was found, whose context does not change.
        context: unsafe { (*pd).context },
        srq_context,
        pd,
        handle: id.0,
        mutex,
        cond,
        events_completed: 0,
    };
    let (open_device, _parent) = (Arc::clone(&owner.open_device), owner.hold_parent());
    let unacknowledged = Unacknowledged::default();
    place.fill(c, Srq { open_device, id, domain, unacknowledged, _parent })
}

/// The slot behind `ibv_create_srq_ex`, which comes here only for what the basic type has not.
pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        let attr = unsafe {
            ctx_of(context)?;
            &*not_null(init)?
        };
        match attr.srq_type {
            IBV_SRQT_XRC if attr.comp_mask & !MASK_ALL_XRC == 0 => {}
            _ => return Err(NOT_SUPPORTED),
        }
        if attr.comp_mask & MASK_ALL_XRC != MASK_ALL_XRC {
            return Err(INVALID);
        }
        let (owner, domain, cq) = (
            object_of!(pd_of(attr.pd))?,
            object_of!(xrcd_of(attr.xrcd))?,
            object_of!(live_cq(attr.cq))?,
        );
        owner.open_device.check_same(&domain.open_device)?;
        owner.open_device.check_same(&cq.open_device)?;
        let xrc = XrcSrq { xrcd: domain.id, cq: cq.id };
        let id = owner.device().xrc().create_srq(owner.id, xrc, &sizes(&attr.attr))?;
        Ok(wrap(id, attr.pd, owner, attr.srq_context, Some(Arc::clone(domain))))
    })
}

/// The slot behind `ibv_get_srq_num`.
pub unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    status(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            let inner = live_srq(srq)?;
            if inner.domain.is_none() {
                return Err(NOT_SUPPORTED);
            }
            *not_null(number)? = inner.device().srq_number(inner.id)?;
        }
        Ok(())
    })
}

/// ibv_modify_srq(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    status(|| {
        let (inner, attr) = (object_of!(live_srq(srq))?, input!(attr)?);
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(INVALID);
        }
        let max_wr = (mask & IBV_SRQ_MAX_WR != 0).then_some(attr.max_wr);
        let limit = (mask & IBV_SRQ_LIMIT != 0).then_some(attr.srq_limit);
        inner.device().modify_srq(inner.id, max_wr, limit)?;
        Ok(())
    })
}

/// ibv_query_srq(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    status(|| {
        let (inner, attr) = (object_of!(live_srq(srq))?, not_null(attr)?);
        let SrqAttr { max_wr, max_sge, limit } = inner.device().query_srq(inner.id)?;
        // SAFETY: not null, and so room that the program has for the result.
        unsafe { *attr = ibv_srq_attr { max_wr, max_sge, srq_limit: limit } };
        Ok(())
    })
}

/// ibv_destroy_srq(3). Waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    status(|| {
        if Object::<ibv_srq, Srq>::is_inherited(srq) {
            return Ok(());
        }
        let inner = object_of!(live_srq(srq))?;
        inner.device().destroy_srq(inner.id)?;
        inner.unacknowledged.wait();
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { Object::<ibv_srq, Srq>::destroy(srq) };
        Ok(())
    })
}
