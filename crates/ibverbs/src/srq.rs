//! Shared receive queues.

use crate::abi::{
    ibv_context, ibv_pd, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};
use crate::card::Card;
use crate::channel::fresh_locks;
use crate::cq_event::Unacknowledged;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::{Object, Place};
use crate::outcome::{pointer, status};
use crate::pd::pd_of;
use crate::query::not_null;
use libc::c_int;
use std::sync::Arc;
use uroce_device::transport::{SrqAttr, SrqId};
use uroce_device::{Device, EventOwner};

const MASK_MAX_WR: c_int = 1;
const MASK_LIMIT: c_int = 2;

/// What we keep about a shared receive queue.
#[derive(Debug)]
pub(crate) struct Srq {
    card: Arc<Card>,
    pub(crate) id: SrqId,
    pub(crate) unacknowledged: Unacknowledged,
}

impl Srq {
    pub(crate) fn device(&self) -> &Device {
        &self.card.device
    }
}

/// Our part of a shared receive queue.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn srq_of<'a>(srq: *const ibv_srq) -> Result<&'a Srq, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_srq, Srq>::of(srq) }.ok_or(INVALID)
}

/// ibv_create_srq(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: by the contract.
        let (owner, init) = unsafe { (pd_of(pd)?, &mut *not_null(init)?) };
        let wanted = SrqAttr { max_wr: init.attr.max_wr, max_sge: init.attr.max_sge, limit: 0 };
        let id = owner.device().create_srq(owner.id, &wanted)?;
        let mut place = Place::new();
        owner.device().own_events(EventOwner::Srq(id), &owner.ctx.events, place.address());
        let (mutex, cond) = fresh_locks();
        let c = ibv_srq {
            // SAFETY: by the contract; the context of a domain does not change.
            context: unsafe { (*pd).context },
            srq_context: init.srq_context,
            pd,
            handle: id.0,
            mutex,
            cond,
            events_completed: 0,
        };
        let unacknowledged = Unacknowledged::default();
        Ok(place.fill(c, Srq { card: Arc::clone(&owner.card), id, unacknowledged }))
    })
}

/// The slot behind `ibv_create_srq_ex`, which comes here only for what the basic type has not.
pub(crate) unsafe extern "C" fn create_srq_ex(
    _context: *mut ibv_context,
    _init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer(|| Err(NOT_SUPPORTED))
}

/// ibv_modify_srq(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        let (inner, attr) = unsafe { (srq_of(srq)?, &*not_null(attr)?) };
        if mask & !(MASK_MAX_WR | MASK_LIMIT) != 0 {
            return Err(INVALID);
        }
        let max_wr = (mask & MASK_MAX_WR != 0).then_some(attr.max_wr);
        let limit = (mask & MASK_LIMIT != 0).then_some(attr.srq_limit);
        inner.device().modify_srq(inner.id, max_wr, limit)?;
        Ok(())
    })
}

/// ibv_query_srq(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        let (inner, attr) = unsafe { (srq_of(srq)?, not_null(attr)?) };
        let SrqAttr { max_wr, max_sge, limit } = inner.device().query_srq(inner.id)?;
        // SAFETY: by the contract.
        unsafe { *attr = ibv_srq_attr { max_wr, max_sge, srq_limit: limit } };
        Ok(())
    })
}

/// ibv_destroy_srq(3). Waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        let inner = unsafe { srq_of(srq)? };
        inner.device().destroy_srq(inner.id)?;
        inner.unacknowledged.wait();
        // SAFETY: by the contract nobody uses it any more.
        unsafe { Object::<ibv_srq, Srq>::destroy(srq) };
        Ok(())
    })
}
