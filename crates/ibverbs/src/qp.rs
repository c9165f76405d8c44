//! Queue pairs: creating and destroying them.

use std::ptr::null_mut;
use std::sync::Arc;

use libc::c_int;
use uroce_device::memory::PdId;
use uroce_device::transport::{QpCaps, QpType};
use uroce_device::wire::Qpn;
use uroce_device::{Device, DeviceLimits, EventOwner, QpRequest};

use crate::abi::{
    ibv_context, ibv_cq, ibv_ece, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_sge,
};
use crate::card::Card;
use crate::channel::fresh_locks;
use crate::context::{Ctx, ctx_of};
use crate::cq::live_cq;
use crate::cq_event::Unacknowledged;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED, set_errno};
use crate::object::{Object, Place};
use crate::outcome::{pointer, status};
use crate::pd::pd_of;
use crate::qp_ex::FUNCTIONS;
use crate::query::not_null;
use crate::srq::live_srq;
use crate::wr_builder::Builder;
use crate::xrc_target;
use crate::xrcd::Xrcd;

const MASK_PD: u32 = 1;
const MASK_XRCD: u32 = 1 << 1;
const MASK_CREATE_FLAGS: u32 = 1 << 2;
const MASK_SEND_OPS: u32 = 1 << 6;

/// `IBV_QP_EX_WITH_*`: RDMA_WRITE, WRITE_WITH_IMM, SEND, SEND_WITH_IMM, LOCAL_INV, BIND_MW.
const OPS_UC: u64 = 0b1_1000_1111;
/// SEND, SEND_WITH_IMM.
const OPS_UD: u64 = 0b1100;
/// All but TSO (1 << 10); FLUSH is 1 << 11, ATOMIC_WRITE 1 << 12.
const OPS_RC: u64 = 0b1_1011_1111_1111;

/// Bytes of an atomic write.
const ATOMIC_WORD: u32 = 8;

/// What we keep about a queue pair. In C all of them are long enough for the extended form.
#[derive(Debug)]
pub(crate) struct Qp {
    card: Arc<Card>,
    pub(crate) ctx: Arc<Ctx>,
    pub(crate) qpn: Qpn,
    /// Requests of UD name their destination, those of XRC a shared receive queue.
    pub(crate) qp_type: QpType,
    /// None for an XRC target, which posts nothing.
    pub(crate) pd: Option<PdId>,
    pub(crate) max_send_sge: usize,
    /// Created for the extended interface.
    extended: bool,
    /// Of an XRC target, which several objects may stand for.
    pub(crate) domain: Option<Arc<Xrcd>>,
    pub(crate) unacknowledged: Unacknowledged,
    /// Requests of the extended interface that are not posted yet.
    pub(crate) builder: Builder,
}

type Whole = Object<ibv_qp_ex, Qp>;

impl Qp {
    pub(crate) fn new(
        (card, ctx): (&Arc<Card>, &Arc<Ctx>),
        qpn: Qpn,
        qp_type: QpType,
        domain: Option<Arc<Xrcd>>,
    ) -> Qp {
        Qp {
            card: Arc::clone(card),
            ctx: Arc::clone(ctx),
            qpn,
            qp_type,
            pd: None,
            max_send_sge: 0,
            extended: false,
            domain,
            unacknowledged: Unacknowledged::default(),
            builder: Builder::default(),
        }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.card.device
    }
}

/// Our part of a queue pair.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn qp_of<'a>(qp: *const ibv_qp) -> Result<&'a Qp, Errno> {
    // SAFETY: the caller's promise; each queue pair is a `Whole`, whose first field is an `ibv_qp`.
    unsafe { Whole::of(qp.cast()) }.ok_or(INVALID)
}

/// Our part of a queue pair, for control verbs; ENOENT if there is none at that address.
///
/// # Safety
/// By the contract.
pub(crate) unsafe fn live_qp<'a>(qp: *const ibv_qp) -> Result<&'a Qp, Errno> {
    // SAFETY: the caller's promise, as above.
    unsafe { Whole::live(qp.cast()) }
}

/// ibv_create_qp(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: by the contract.
        unsafe { create(pd, &mut *not_null(init)?, false) }
    })
}

/// The slot behind `ibv_create_qp_ex`.
pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: by the contract.
        unsafe { ctx_of(context)? };
        // SAFETY: by the contract.
        let attr = unsafe { &*not_null(init)? };
        if attr.qp_type == QpType::XrcTgt as c_int && attr.comp_mask == MASK_XRCD {
            // SAFETY: by the contract.
            return unsafe { xrc_target::create(context, attr) };
        }
        let extended = check_extended(attr)?;
        // SAFETY: by the contract; the long form begins with the short one.
        unsafe { create(attr.pd, &mut *init.cast::<ibv_qp_init_attr>(), extended) }
    })
}

/// Whether the queue pair shall have the extended interface.
fn check_extended(attr: &ibv_qp_init_attr_ex) -> Result<bool, Errno> {
    let flags = attr.comp_mask & MASK_CREATE_FLAGS != 0 && attr.create_flags != 0;
    if flags || attr.comp_mask & !(MASK_PD | MASK_CREATE_FLAGS | MASK_SEND_OPS) != 0 {
        return Err(NOT_SUPPORTED);
    }
    if attr.comp_mask & MASK_PD == 0 {
        return Err(INVALID);
    }
    if attr.comp_mask & MASK_SEND_OPS == 0 {
        return Ok(false);
    }
    let possible = match qp_type(attr.qp_type)? {
        QpType::Rc | QpType::XrcIni => OPS_RC,
        QpType::XrcTgt => 0,
        QpType::Uc => OPS_UC,
        QpType::Ud => OPS_UD,
    };
    if attr.send_ops_flags & !possible != 0 { Err(NOT_SUPPORTED) } else { Ok(true) }
}

fn qp_type(number: c_int) -> Result<QpType, Errno> {
    match number {
        2 => Ok(QpType::Rc),
        3 => Ok(QpType::Uc),
        4 => Ok(QpType::Ud),
        9 => Ok(QpType::XrcIni),
        10 => Ok(QpType::XrcTgt),
        _ => Err(NOT_SUPPORTED),
    }
}

/// # Safety
/// By the contract.
unsafe fn create(
    pd: *mut ibv_pd,
    init: &mut ibv_qp_init_attr,
    extended: bool,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: by the contract.
    let owner = unsafe { pd_of(pd)? };
    // SAFETY: by the contract.
    let mut request = unsafe { request(owner.id, init)? };
    if extended {
        // `ibv_wr_atomic_write` takes its word by value, whatever the program asked for.
        request.caps.max_inline = request.caps.max_inline.max(ATOMIC_WORD);
    }
    init.cap = cap_of(request.caps);
    let qpn = owner.device().create_qp(&request)?;
    let mut place = Place::new();
    owner.device().own_events(EventOwner::Qp(qpn), &owner.ctx.events, place.address());
    // SAFETY: by the contract; the context of a domain does not change.
    let context = unsafe { (*pd).context };
    let qp_base = base(context, pd, init, qpn);
    let qp = Qp::new((&owner.card, &owner.ctx), qpn, request.qp_type, None);
    let max_send_sge = request.caps.max_send_sge as usize;
    Ok(fill(place, qp_base, Qp { pd: Some(owner.id), max_send_sge, extended, ..qp }))
}

/// The object for the program.
pub(crate) fn fill(place: Place<ibv_qp_ex, Qp>, qp_base: ibv_qp, qp: Qp) -> *mut ibv_qp {
    let c = ibv_qp_ex { qp_base, comp_mask: 0, wr_id: 0, wr_flags: 0, ops: FUNCTIONS };
    place.fill(c, qp).cast()
}

pub(crate) fn base(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    init: &ibv_qp_init_attr,
    qpn: Qpn,
) -> ibv_qp {
    let (mutex, cond) = fresh_locks();
    ibv_qp {
        context,
        qp_context: init.qp_context,
        pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: qpn.get(),
        qp_num: qpn.get(),
        state: 0,
        qp_type: init.qp_type,
        mutex,
        cond,
        events_completed: 0,
    }
}

/// # Safety
/// By the contract.
unsafe fn request(pd: PdId, init: &ibv_qp_init_attr) -> Result<QpRequest, Errno> {
    // SAFETY: by the contract.
    let id = |cq: *mut ibv_cq| unsafe { live_cq(cq) }.map(|cq| cq.id);
    let (qp_type, send_cq) = (qp_type(init.qp_type)?, id(init.send_cq)?);
    // An XRC initiator receives nothing, and its program may have left these fields as they were.
    let initiator = qp_type == QpType::XrcIni;
    let no_srq = initiator || init.srq.is_null();
    // SAFETY: by the contract.
    let srq = if no_srq { None } else { Some(unsafe { live_srq(init.srq)? }.id) };
    Ok(QpRequest {
        qp_type,
        pd,
        send_cq,
        recv_cq: if initiator { send_cq } else { id(init.recv_cq)? },
        srq,
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

/// The sizes as the program has them.
pub(crate) fn cap_of(caps: QpCaps) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline,
    }
}

/// ibv_qp_to_qp_ex(3): null if the queue pair was not created for it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: by the contract.
    match unsafe { live_qp(qp) } {
        Ok(inner) if inner.extended => qp.cast(),
        _ => {
            set_errno(NOT_SUPPORTED);
            null_mut()
        }
    }
}

/// ibv_destroy_qp(3). Waits until its events are acknowledged.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        if unsafe { Whole::is_inherited(qp.cast()) } {
            return Ok(());
        }
        // SAFETY: by the contract.
        let inner = unsafe { live_qp(qp)? };
        match &inner.domain {
            Some(domain) => xrc_target::leave(domain, inner, qp)?,
            None => inner.device().destroy_qp(inner.qpn)?,
        }
        inner.unacknowledged.wait();
        // SAFETY: by the contract nobody uses it any more.
        unsafe { Whole::destroy(qp.cast()) };
        Ok(())
    })
}

/// ibv_query_ece(3): nothing was agreed upon.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        // SAFETY: by the contract.
        unsafe {
            live_qp(qp)?;
            *not_null(ece)? = ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 };
        }
        Ok(())
    })
}
