//! XRC targets: queue pairs of a domain, which others who have the domain may open as well.

use std::ptr::null_mut;
use std::sync::Arc;

use libc::c_void;
use uroce_device::EventOwner;
use uroce_device::transport::QpType;
use uroce_device::wire::Qpn;

use crate::abi::{
    IBV_QP_OPEN_ATTR_CONTEXT, IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_TYPE, IBV_QP_OPEN_ATTR_XRCD,
    IBV_QPT_XRC_RECV, ibv_context, ibv_qp, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_open_attr,
};
use crate::context::ctx_of;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::{Place, zeroed};
use crate::qp::{Qp, base};
use crate::qp_ex::fill;
use crate::return_value::pointer;
use crate::xrcd::{Holder, Xrcd, xrcd_of};
use crate::{input, object_of};

/// What must be given; the context may be.
const OPEN_NEEDS: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

/// A new target (ibv_create_qp_ex(3) with `IBV_QPT_XRC_RECV`).
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn create(
    context: *mut ibv_context,
    attr: &ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp, Errno> {
    let domain = object_of!(xrcd_of(attr.xrcd))?;
    let qpn = domain.device().xrc().create_target(domain.id)?;
    let mut targets = domain.targets();
    // SAFETY: the arguments are those of a call from C.
    unsafe { join(context, domain, qpn, targets.entry(qpn).or_default(), attr.qp_context) }
}

/// The slot behind `ibv_open_qp`: another object for a target that is there.
pub(crate) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    pointer(|| {
        let attr = input!(attr)?;
        if attr.comp_mask & !(OPEN_NEEDS | IBV_QP_OPEN_ATTR_CONTEXT) != 0 {
            return Err(NOT_SUPPORTED);
        }
        let complete = attr.comp_mask & OPEN_NEEDS == OPEN_NEEDS;
        if !complete || attr.qp_type != IBV_QPT_XRC_RECV {
            return Err(INVALID);
        }
        let domain = object_of!(xrcd_of(attr.xrcd))?;
        let qpn = Qpn::new(attr.qp_num);
        let given = attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0;
        let qp_context = if given { attr.qp_context } else { null_mut() };
        let mut targets = domain.targets();
        let holders = targets.get_mut(&qpn).ok_or(INVALID)?;
        // SAFETY: the arguments are those of a call from C.
        unsafe { join(context, domain, qpn, holders, qp_context) }
    })
}

/// One more object for a target.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn join(
    context: *mut ibv_context,
    domain: &Arc<Xrcd>,
    qpn: Qpn,
    holders: &mut Vec<Holder>,
    qp_context: *mut c_void,
) -> Result<*mut ibv_qp, Errno> {
    let ctx = object_of!(ctx_of(context))?;
    let mut place = Place::new();
    holders.push(Holder { address: place.address(), ctx: Arc::clone(ctx) });
    give_events(domain, qpn, holders);
    // SAFETY: null pointers and integers.
    let nothing: ibv_qp_init_attr = unsafe { zeroed() };
    let init = ibv_qp_init_attr { qp_context, qp_type: IBV_QPT_XRC_RECV, ..nothing };
    let qp_base = base(context, null_mut(), &init, qpn);
    let qp = Qp::new((&domain.open_device, ctx), qpn, QpType::XrcTgt, Some(Arc::clone(domain)));
    Ok(fill(place, qp_base, qp))
}

/// An object of a target is destroyed; with the last one the target goes.
pub(crate) fn leave(domain: &Xrcd, qp: &Qp, object: *mut ibv_qp) -> Result<(), Errno> {
    let mut targets = domain.targets();
    let holders = targets.get_mut(&qp.qpn).ok_or(INVALID)?;
    holders.retain(|holder| holder.address != object.expose_provenance() as u64);
    if holders.is_empty() {
        targets.remove(&qp.qpn);
        domain.device().destroy_qp(qp.qpn)?;
    } else {
        give_events(domain, qp.qpn, holders);
    }
    Ok(())
}

/// Events of the target go to its first object.
fn give_events(domain: &Xrcd, qpn: Qpn, holders: &[Holder]) {
    if let Some(Holder { address, ctx }) = holders.first() {
        domain.device().async_events().own(EventOwner::Qp(qpn), &ctx.events, *address);
    }
}
