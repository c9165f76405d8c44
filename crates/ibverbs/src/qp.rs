//! Queue pairs.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::c_int;
use uroce_device::Device;
use uroce_device::memory::PdId;
use uroce_device::transport::{QpCaps, QpType};
use uroce_device::wire::Qpn;

use crate::abi::{ibv_context, ibv_ece, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr};
use crate::arg::not_null;
use crate::context::Ctx;
use crate::errno::{Errno, INVALID, NOT_SUPPORTED, set_errno};
use crate::object::{Object, fresh_locks};
use crate::object_of;
use crate::open_device::OpenDevice;
use crate::return_value::status;
use crate::unacknowledged::Unacknowledged;
use crate::use_count::Use;
use crate::wr_builder::Builder;
use crate::xrcd::Xrcd;

/// What we keep about a queue pair. In C all of them are long enough for the extended form.
#[derive(Debug)]
pub struct Qp {
    open_device: Arc<OpenDevice>,
    pub(crate) ctx: Arc<Ctx>,
    /// Its number.
    pub qpn: Qpn,
    /// Requests of UD name their destination, those of XRC a shared receive queue.
    pub qp_type: QpType,
    /// None for an XRC target, which posts nothing.
    pub(crate) pd: Option<PdId>,
    /// The parent domain that it belongs to.
    pub(crate) _parent: Option<Use>,
    pub(crate) max_send_sge: usize,
    /// Created for the extended interface.
    pub(crate) extended: bool,
    /// Of an XRC target, which several objects may stand for.
    pub(crate) domain: Option<Arc<Xrcd>>,
    pub(crate) unacknowledged: Unacknowledged,
    /// Requests of the extended interface that are not posted yet.
    pub(crate) builder: Builder,
    /// Multicast groups that the program has attached it to.
    groups: Mutex<HashSet<IpAddr>>,
}

/// The C struct of a queue pair, with what we keep about it.
pub type QpObject = Object<ibv_qp_ex, Qp>;

impl Qp {
    pub(crate) fn new(
        (open_device, ctx): (&Arc<OpenDevice>, &Arc<Ctx>),
        qpn: Qpn,
        qp_type: QpType,
        domain: Option<Arc<Xrcd>>,
    ) -> Qp {
        Qp {
            open_device: Arc::clone(open_device),
            ctx: Arc::clone(ctx),
            qpn,
            qp_type,
            pd: None,
            _parent: None,
            max_send_sge: 0,
            extended: false,
            domain,
            unacknowledged: Unacknowledged::default(),
            builder: Builder::default(),
            groups: Mutex::default(),
        }
    }

    /// Multicast groups that the program has attached it to. It is not destroyed before it has left them.
    pub(crate) fn groups(&self) -> MutexGuard<'_, HashSet<IpAddr>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if it is a queue pair of this device.
    pub(crate) fn is_on(&self, open_device: &Arc<OpenDevice>) -> bool {
        Arc::ptr_eq(&self.open_device, open_device)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.open_device.device
    }
}

/// Our part of a queue pair.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn qp_of<'a>(qp: *const ibv_qp) -> Result<&'a Qp, Errno> {
    // SAFETY: the caller's promise; each queue pair is a `QpObject`, whose first field is an `ibv_qp`.
    unsafe { QpObject::of(qp.cast()) }.ok_or(INVALID)
}

/// Our part of a queue pair, for control verbs; ENOENT if there is none at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn live_qp<'a>(qp: *const ibv_qp) -> Result<&'a Qp, Errno> {
    // SAFETY: the caller's promise, as above.
    unsafe { QpObject::live(qp.cast()) }
}

/// The C struct of a new queue pair, without the functions of the extended form.
pub fn base(
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

/// The sizes as the program has them.
pub fn cap_of(caps: QpCaps) -> ibv_qp_cap {
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
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    match object_of!(live_qp(qp)) {
        Ok(inner) if inner.extended => qp.cast(),
        _ => {
            set_errno(NOT_SUPPORTED);
            null_mut()
        }
    }
}

/// ibv_query_ece(3): as a provider without enhanced connection establishment. A program asks before it tells its peer by
/// rdma_set_local_ece(3), which refuses what says nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            live_qp(qp)?;
            not_null(ece)?;
        }
        Err(NOT_SUPPORTED)
    })
}
