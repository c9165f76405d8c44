//! Creating and destroying queue pairs, in both forms.

use libc::c_int;
use uroce_device::transport::{QpCaps, QpType};
use uroce_device::{DeviceLimits, EventOwner, QpRequest};

use crate::abi::{
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_BIND_MW, IBV_QP_EX_WITH_FLUSH,
    IBV_QP_EX_WITH_LOCAL_INV, IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE,
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM,
    IBV_QP_EX_WITH_SEND_WITH_INV, IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_INIT_ATTR_PD,
    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_QP_INIT_ATTR_XRCD, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
    IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_qp_cap,
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_sge,
};
use crate::arg::not_null;
use crate::context::ctx_of;
use crate::cq::live_cq;
use crate::errno::{BUSY, Errno, INVALID, NOT_SUPPORTED};
use crate::object::Place;
use crate::pd::{Pd, pd_of};
use crate::qp::{Qp, QpObject, base, cap_of, live_qp};
use crate::qp_ex::fill;
use crate::return_value::{pointer, status};
use crate::srq::live_srq;
use crate::xrc_target;
use crate::{input, object_of};

/// What the extended interface of UC can post.
const SEND_OPS_UC: u64 = IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | SEND_OPS_UD
    | IBV_QP_EX_WITH_LOCAL_INV
    | IBV_QP_EX_WITH_BIND_MW;
const SEND_OPS_UD: u64 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
/// All but TSO.
const SEND_OPS_RC: u64 = SEND_OPS_UC
    | IBV_QP_EX_WITH_RDMA_READ
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
    | IBV_QP_EX_WITH_SEND_WITH_INV
    | IBV_QP_EX_WITH_FLUSH
    | IBV_QP_EX_WITH_ATOMIC_WRITE;

/// Bytes of an atomic write.
const ATOMIC_WORD: u32 = 8;

/// ibv_create_qp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the arguments are those of a call from C.
        unsafe { create(pd, &mut *not_null(init)?, false) }
    })
}

/// The slot behind `ibv_create_qp_ex`.
pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer(|| {
        object_of!(ctx_of(context))?;
        let attr = input!(init)?;
        if attr.qp_type == IBV_QPT_XRC_RECV && attr.comp_mask == IBV_QP_INIT_ATTR_XRCD {
            // SAFETY: the arguments are those of a call from C.
            return unsafe { xrc_target::create(context, attr) };
        }
        let extended = check_extended(attr)?;
        // SAFETY: the arguments of a call from C; the long form begins with the short one.
        unsafe { create(attr.pd, &mut *init.cast::<ibv_qp_init_attr>(), extended) }
    })
}

/// Whether the queue pair shall have the extended interface.
fn check_extended(attr: &ibv_qp_init_attr_ex) -> Result<bool, Errno> {
    let flags = attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 && attr.create_flags != 0;
    if flags
        || attr.comp_mask
            & !(IBV_QP_INIT_ATTR_PD
                | IBV_QP_INIT_ATTR_CREATE_FLAGS
                | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
            != 0
    {
        return Err(NOT_SUPPORTED);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
        return Err(INVALID);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS == 0 {
        return Ok(false);
    }
    let possible = match qp_type(attr.qp_type)? {
        QpType::Rc | QpType::XrcIni => SEND_OPS_RC,
        QpType::XrcTgt => 0,
        QpType::Uc => SEND_OPS_UC,
        QpType::Ud => SEND_OPS_UD,
    };
    if attr.send_ops_flags & !possible != 0 { Err(NOT_SUPPORTED) } else { Ok(true) }
}

fn qp_type(number: c_int) -> Result<QpType, Errno> {
    match number {
        IBV_QPT_RC => Ok(QpType::Rc),
        IBV_QPT_UC => Ok(QpType::Uc),
        IBV_QPT_UD => Ok(QpType::Ud),
        IBV_QPT_XRC_SEND => Ok(QpType::XrcIni),
        IBV_QPT_XRC_RECV => Ok(QpType::XrcTgt),
        _ => Err(NOT_SUPPORTED),
    }
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn create(
    pd: *mut ibv_pd,
    init: &mut ibv_qp_init_attr,
    extended: bool,
) -> Result<*mut ibv_qp, Errno> {
    let owner = object_of!(pd_of(pd))?;
    // SAFETY: the arguments are those of a call from C.
    let mut request = unsafe { request(owner, init)? };
    if extended {
        // `ibv_wr_atomic_write` takes its word by value, whatever the program asked for.
        request.caps.max_inline = request.caps.max_inline.max(ATOMIC_WORD);
    }
    init.cap = cap_of(request.caps);
    let qpn = owner.device().create_qp(&request)?;
    let mut place = Place::new();
    owner.device().async_events().own(EventOwner::Qp(qpn), &owner.ctx.events, place.address());
    // SAFETY: a domain that was found, whose context does not change.
    let context = unsafe { (*pd).context };
    let qp_base = base(context, pd, init, qpn);
    let mut qp = Qp::new((&owner.open_device, &owner.ctx), qpn, request.qp_type, None);
    (qp.pd, qp._parent, qp.extended) = (Some(owner.id), owner.hold_parent(), extended);
    qp.max_send_sge = request.caps.max_send_sge as usize;
    Ok(fill(place, qp_base, qp))
}

/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn request(owner: &Pd, init: &ibv_qp_init_attr) -> Result<QpRequest, Errno> {
    let id = |cq: *mut ibv_cq| {
        let cq = object_of!(live_cq(cq))?;
        owner.open_device.check_same(&cq.open_device).map(|()| cq.id)
    };
    let (qp_type, send_cq) = (qp_type(init.qp_type)?, id(init.send_cq)?);
    // An XRC initiator receives nothing, and its program may have left these fields as they were.
    let initiator = qp_type == QpType::XrcIni;
    let no_srq = initiator || init.srq.is_null();
    let srq = if no_srq { None } else { Some(object_of!(live_srq(init.srq))?) };
    srq.map_or(Ok(()), |srq| owner.open_device.check_same(&srq.open_device))?;
    Ok(QpRequest {
        qp_type,
        pd: owner.id,
        send_cq,
        recv_cq: if initiator { send_cq } else { id(init.recv_cq)? },
        srq: srq.map(|srq| srq.id),
        caps: granted(caps_of(init.cap)),
        signal_all: init.sq_sig_all != 0,
    })
}

/// A work request has room for inline bytes in the place of its entries: programs such as rdma_xclient
/// count on it.
fn granted(caps: QpCaps) -> QpCaps {
    let room = caps.max_send_sge.saturating_mul(size_of::<ibv_sge>() as u32);
    let max_inline = caps.max_inline.max(room.min(DeviceLimits::default().max_inline));
    QpCaps { max_inline, ..caps }
}

/// The sizes that the program asks for.
fn caps_of(cap: ibv_qp_cap) -> QpCaps {
    QpCaps {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline: cap.max_inline_data,
    }
}

/// ibv_destroy_qp(3): EBUSY while it is in a multicast group. Waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    status(|| {
        if QpObject::is_inherited(qp.cast()) {
            return Ok(());
        }
        let inner = object_of!(live_qp(qp))?;
        if !inner.groups().is_empty() {
            return Err(BUSY);
        }
        match &inner.domain {
            Some(domain) => xrc_target::leave(domain, inner, qp)?,
            None => inner.device().destroy_qp(inner.qpn)?,
        }
        inner.unacknowledged.wait();
        // SAFETY: the manual pages ask that the object is not used any more.
        unsafe { QpObject::destroy(qp.cast()) };
        Ok(())
    })
}
