//! Queue pairs of ids.

use std::ptr::null_mut;

use libc::{c_int, c_void};
use uroce_device::memory::Access;
use uroce_device::transport::{QpAttr, QpState, QpType};
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use uroce_ibverbs::cq_create::{ibv_create_cq, ibv_destroy_cq};
use uroce_ibverbs::errno::{Errno, INVALID, made};
use uroce_ibverbs::object::zeroed;
use uroce_ibverbs::object_of;
use uroce_ibverbs::pd::pd_of;
use uroce_ibverbs::qp::qp_of;
use uroce_ibverbs::qp_attr::ibv_modify_qp;
use uroce_ibverbs::qp_create::{create_qp_ex, ibv_create_qp, ibv_destroy_qp};
use uroce_ibverbs::return_value::{minus_one, value};
use uroce_verbs_abi::{
    IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_XRCD, IBV_QP_STATE, IBV_QPS_ERR, IBV_QPT_XRC_RECV,
    IBV_QPT_XRC_SEND, RDMA_UDP_QKEY, rdma_cm_id,
};
use uroce_verbs_abi::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
    ibv_qp_init_attr_ex,
};

use crate::contexts::xrcd;
use crate::id::{Id, id_of, is_inherited};
use crate::qp_values::mask;

/// rdma_create_qp(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one(|| {
        not_null(init)?;
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            let inner = unused(id)?;
            let pd = if pd.is_null() { (*id).pd } else { pd };
            if (*init).qp_type == IBV_QPT_XRC_RECV {
                return attach(id, pd, target((*id).verbs, &*init)?);
            }
            check_device(inner, pd)?;
            with_queues(id, inner, init, || attach(id, pd, ibv_create_qp(pd, init)))
        }
    })
}

/// rdma_create_qp_ex(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    init: *mut ibv_qp_init_attr_ex,
) -> c_int {
    minus_one(|| {
        not_null(init)?;
        // SAFETY: the arguments of a call from C; the long form begins with the short one.
        unsafe {
            let inner = unused(id)?;
            if (*init).qp_type == IBV_QPT_XRC_RECV {
                if (*init).comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 || (*init).xrcd.is_null() {
                    ((*init).comp_mask, (*init).xrcd) = (IBV_QP_INIT_ATTR_XRCD, xrcd((*id).verbs)?);
                }
                return attach(id, (*id).pd, create_qp_ex((*id).verbs, init));
            }
            if (*init).comp_mask & IBV_QP_INIT_ATTR_PD == 0 || (*init).pd.is_null() {
                (*init).comp_mask |= IBV_QP_INIT_ATTR_PD;
                (*init).pd = (*id).pd;
            }
            check_device(inner, (*init).pd)?;
            with_queues(id, inner, init.cast(), || {
                attach(id, (*init).pd, create_qp_ex((*id).verbs, init))
            })
        }
    })
}

/// EINVAL: the domain is not of the id's device, to whose queue pairs connections lead.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn check_device(id: &Id, pd: *mut ibv_pd) -> Result<(), Errno> {
    let owner = object_of!(pd_of(pd))?;
    let is_its_device = id.state().used.as_ref().is_some_and(|used| owner.is_on(&used.open_device));
    if is_its_device { Ok(()) } else { Err(INVALID) }
}

/// An XRC target in the domain of the device.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn target(verbs: *mut ibv_context, init: &ibv_qp_init_attr) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: null pointers and integers.
    let mut attr: ibv_qp_init_attr_ex = unsafe { zeroed() };
    (attr.qp_context, attr.qp_type) = (init.qp_context, init.qp_type);
    (attr.comp_mask, attr.xrcd) = (IBV_QP_INIT_ATTR_XRCD, xrcd(verbs)?);
    // SAFETY: the arguments are those of a call from C.
    Ok(unsafe { create_qp_ex(verbs, &raw mut attr) })
}

/// An id that has a device and no queue pair yet.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn unused<'a>(id: *mut rdma_cm_id) -> Result<&'a Id, Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    let (inner, free) = unsafe { (id_of(id)?, (*id).qp.is_null() && !(*id).verbs.is_null()) };
    if free { Ok(inner) } else { Err(INVALID) }
}

/// Makes the completion queues that the program has not given, then the queue pair, which takes its receives from the shared
/// queue of the id if there is one and the program names no other. If that fails, the id has what it had
/// before, and the attributes are those of the program: it may try again with shorter queues.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn with_queues(
    id: *mut rdma_cm_id,
    inner: &Id,
    init: *mut ibv_qp_init_attr,
    create: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        let given = ((*init).send_cq, (*init).recv_cq, (*init).srq);
        let before = IdQueues::of(id, inner);
        if (*init).srq.is_null() {
            (*init).srq = (*id).srq;
        }
        let created = make_queues(id, inner, &mut *init).and_then(|()| create());
        created.inspect_err(|_| {
            before.restore(id, inner);
            ((*init).send_cq, (*init).recv_cq, (*init).srq) = given;
        })
    }
}

/// A program that gives no completion queues gets some.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn make_queues(
    id: *mut rdma_cm_id,
    inner: &Id,
    init: &mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        let (context, id) = (id.cast(), &mut *id);
        if init.send_cq.is_null() {
            inner.state().made_queues = true;
            let (size, channel) = (init.cap.max_send_wr, &mut id.send_cq_channel);
            id.send_cq = queue(id.verbs, context, size, channel)?;
            init.send_cq = id.send_cq;
        }
        let receives = init.qp_type != IBV_QPT_XRC_SEND;
        if receives && init.recv_cq.is_null() {
            inner.state().made_queues = true;
            let (size, channel) = (init.cap.max_recv_wr, &mut id.recv_cq_channel);
            id.recv_cq = queue(id.verbs, context, size, channel)?;
            init.recv_cq = id.recv_cq;
        }
    }
    Ok(())
}

/// A completion queue with a channel of its own. Its context is the id: inline functions of rdma/rdma_verbs.h assert that.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn queue(
    verbs: *mut ibv_context,
    context: *mut c_void,
    size: u32,
    channel: &mut *mut ibv_comp_channel,
) -> Result<*mut ibv_cq, Errno> {
    let size = c_int::try_from(size.max(1)).map_err(|_| INVALID)?;
    // SAFETY: the context of an id that has its device.
    unsafe {
        *channel = made(ibv_create_comp_channel(verbs))?;
        made(ibv_create_cq(verbs, size, context, *channel, 0))
    }
}

/// The new queue pair is the id's, and takes receives. One that cannot is destroyed.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn attach(id: *mut rdma_cm_id, pd: *mut ibv_pd, qp: *mut ibv_qp) -> Result<(), Errno> {
    let qp = made(qp)?;
    // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
    unsafe {
        get_ready(qp).inspect_err(|_| {
            ibv_destroy_qp(qp);
        })?;
        ((*id).qp, (*id).pd, (*id).qp_type) = (qp, pd, (*qp).qp_type);
    }
    Ok(())
}

/// INIT for connections, whose other steps the device makes; datagrams can go at once.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
unsafe fn get_ready(qp: *mut ibv_qp) -> Result<(), Errno> {
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let attr = QpAttr { access, qkey: RDMA_UDP_QKEY, ..QpAttr::default() };
    let inner = object_of!(qp_of(qp))?;
    let (qp_type, steps): (_, &[QpState]) = if inner.qp_type == QpType::Ud {
        (QpType::Ud, &[QpState::Init, QpState::Rtr, QpState::Rts])
    } else {
        (inner.qp_type, &[QpState::Init])
    };
    for &state in steps {
        let mask = mask(qp_type, state)?;
        inner.device().modify_qp(inner.qpn, &QpAttr { state, ..attr }, mask)?;
        // SAFETY: the object was found, and the program does not write to this field.
        unsafe { (*qp).state = state as c_int };
    }
    Ok(())
}

/// rdma_destroy_qp(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    value((), || {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            if is_inherited(id) {
                return;
            }
            if let Ok(inner) = id_of(id) {
                ibv_destroy_qp((*id).qp);
                (*id).qp = null_mut();
                if (*id).srq.is_null() {
                    drop_queues(id, inner);
                }
            }
        }
    });
}

/// Destroys the completion queues and channels that were made for the program.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub(crate) unsafe fn drop_queues(id: *mut rdma_cm_id, inner: &Id) {
    if inner.state().made_queues {
        // SAFETY: the caller's promise.
        unsafe { IdQueues::NONE.restore(id, inner) }
    }
}

/// The completion queues and channels of an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdQueues {
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    send_cq_channel: *mut ibv_comp_channel,
    recv_cq_channel: *mut ibv_comp_channel,
    /// Some of them were made for the program.
    made: bool,
}

impl IdQueues {
    /// Those of an id without queues.
    const NONE: IdQueues = IdQueues {
        send_cq: null_mut(),
        recv_cq: null_mut(),
        send_cq_channel: null_mut(),
        recv_cq_channel: null_mut(),
        made: false,
    };

    /// Those that the id has.
    ///
    /// # Safety
    /// The pointers are arguments of a call from C, as the contract with C has them.
    pub(crate) unsafe fn of(id: *const rdma_cm_id, inner: &Id) -> Self {
        // SAFETY: the caller's promise.
        let id = unsafe { &*id };
        IdQueues {
            send_cq: id.send_cq,
            recv_cq: id.recv_cq,
            send_cq_channel: id.send_cq_channel,
            recv_cq_channel: id.recv_cq_channel,
            made: inner.state().made_queues,
        }
    }

    /// The id has these again, and what it has got since is destroyed.
    ///
    /// # Safety
    /// The pointers are arguments of a call from C, as the contract with C has them.
    pub(crate) unsafe fn restore(self, id: *mut rdma_cm_id, inner: &Id) {
        inner.state().made_queues = self.made;
        // SAFETY: the caller's promise; what goes was made by this library for this id, whose queue pair uses it no more.
        // Null is refused, and does nothing.
        unsafe {
            let now = IdQueues::of(id, inner);
            for (new, old) in [(now.send_cq, self.send_cq), (now.recv_cq, self.recv_cq)] {
                if new != old {
                    ibv_destroy_cq(new);
                }
            }
            let channels = [
                (now.send_cq_channel, self.send_cq_channel),
                (now.recv_cq_channel, self.recv_cq_channel),
            ];
            for (new, old) in channels {
                if new != old {
                    ibv_destroy_comp_channel(new);
                }
            }
            ((*id).send_cq, (*id).recv_cq) = (self.send_cq, self.recv_cq);
            ((*id).send_cq_channel, (*id).recv_cq_channel) =
                (self.send_cq_channel, self.recv_cq_channel);
        }
    }
}

/// Moves the queue pair of an id, if it has one, to the error state, as librdmacm does.
///
/// # Safety
/// A living id.
pub(crate) unsafe fn flush(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise; integers, and a queue pair that is looked up.
    unsafe {
        let (qp, mut attr) = ((*id).qp, zeroed::<ibv_qp_attr>());
        attr.qp_state = IBV_QPS_ERR;
        if !qp.is_null() {
            let _gone = ibv_modify_qp(qp, &raw mut attr, IBV_QP_STATE);
        }
    }
}
