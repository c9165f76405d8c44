//! Completion queues.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use libc::c_int;
use uroce_device::Device;
use uroce_device::transport::{CqId, Moderation, Notify, Wc, WcFlags, WcStatus};

use crate::abi::{
    IBV_CQ_ATTR_MODERATE, ibv_comp_channel, ibv_cq, ibv_cq_ex, ibv_modify_cq_attr, ibv_wc,
};
use crate::errno::{Errno, INVALID, NOT_SUPPORTED};
use crate::object::Object;
use crate::open_device::OpenDevice;
use crate::return_value::{data_path_status, status, value};
use crate::unacknowledged::Unacknowledged;
use crate::use_count::Use;
use crate::wr_builder::this_thread;
use crate::{input, object_of};

/// What we keep about a completion queue. In C all of them are long enough for the extended form.
#[derive(Debug)]
pub struct Cq {
    pub(crate) open_device: Arc<OpenDevice>,
    /// What the device calls it.
    pub id: CqId,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) unacknowledged: Unacknowledged,
    pub(crate) unacknowledged_async: Unacknowledged,
    /// What the service level of a datagram's completion says, see [`Cq::service_level`].
    packet_type: u8,
    /// The completion that `ibv_start_poll` or `ibv_next_poll` has fetched.
    fetched: Mutex<Wc>,
    /// The thread that has the extended interface, from `ibv_start_poll` to `ibv_end_poll`; 0: none.
    poller: Mutex<usize>,
    poller_left: Condvar,
    /// The parent domain that it was made with.
    pub(crate) _parent: Option<Use>,
}

// SAFETY: the pointer is used only to find the channel again when the queue is destroyed, at a time
// when (a channel with queues cannot be destroyed) it is still there.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

/// The C struct of a completion queue, with what we keep about it.
pub type CqObject = Object<ibv_cq_ex, Cq>;

impl Cq {
    pub(crate) fn new(
        open_device: Arc<OpenDevice>,
        id: CqId,
        channel: *mut ibv_comp_channel,
        packet_type: u8,
    ) -> Cq {
        Cq {
            open_device,
            id,
            channel,
            unacknowledged: Unacknowledged::default(),
            unacknowledged_async: Unacknowledged::default(),
            packet_type,
            fetched: Mutex::default(),
            poller: Mutex::default(),
            poller_left: Condvar::new(),
            _parent: None,
        }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.open_device.device
    }

    /// This thread has the extended interface until [`end_poll`](Self::end_poll); others wait. It may begin again.
    pub(crate) fn begin_poll(&self) {
        let me = this_thread();
        let poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner);
        let of_another = |poller: &mut usize| *poller != 0 && *poller != me;
        let waited = self.poller_left.wait_while(poller, of_another);
        *waited.unwrap_or_else(PoisonError::into_inner) = me;
    }

    /// Others may poll, if this thread did.
    pub(crate) fn end_poll(&self) {
        let mut poller = self.poller.lock().unwrap_or_else(PoisonError::into_inner);
        if *poller == this_thread() {
            *poller = 0;
            self.poller_left.notify_one();
        }
    }

    /// The extended interface reads this completion from now on.
    pub(crate) fn keep(&self, wc: Wc) {
        *self.fetched.lock().unwrap_or_else(PoisonError::into_inner) = wc;
    }

    pub(crate) fn fetched(&self) -> Wc {
        *self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service level of a completion. RoCE has none; a datagram's says how the packet came.
    pub(crate) fn service_level(&self, wc: &Wc) -> u8 {
        if wc.flags.contains(WcFlags::GRH) { self.packet_type } else { 0 }
    }
}

/// Our part of a completion queue.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn cq_of<'a>(cq: *const ibv_cq) -> Result<&'a Cq, Errno> {
    // SAFETY: the caller's promise; each queue is a `CqObject`, whose first field is an `ibv_cq`.
    unsafe { CqObject::of(cq.cast()) }.ok_or(INVALID)
}

/// Our part of a completion queue, for control verbs; ENOENT if there is none at that address.
///
/// # Safety
/// The pointers are arguments of a call from C, as the contract with C has them.
pub unsafe fn live_cq<'a>(cq: *const ibv_cq) -> Result<&'a Cq, Errno> {
    // SAFETY: the caller's promise, as above.
    unsafe { CqObject::live(cq.cast()) }
}

/// ibv_resize_cq(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    status(|| {
        let inner = object_of!(live_cq(cq))?;
        inner.device().resize_cq(inner.id, u32::try_from(cqe).map_err(|_| INVALID)?)?;
        // SAFETY: the object was found, and the program does not write to this field.
        unsafe { (*cq).cqe = cqe };
        Ok(())
    })
}

/// The slot behind `ibv_modify_cq`.
pub unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    status(|| {
        let (inner, attr) = (object_of!(live_cq(cq))?, input!(attr)?);
        if attr.attr_mask != IBV_CQ_ATTR_MODERATE {
            return Err(if attr.attr_mask == 0 { INVALID } else { NOT_SUPPORTED });
        }
        let (count, period_ns) = (attr.cq_count.into(), u64::from(attr.cq_period) * 1_000);
        Ok(inner.device().moderate_cq(inner.id, Moderation { count, period_ns })?)
    })
}

/// `ibv_poll_cq`: the number of completions, or a negative errno value.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, out: *mut ibv_wc) -> c_int {
    value(-libc::EIO, || {
        // SAFETY: room for as many completions as the program says.
        unsafe {
            match cq_of(cq) {
                Ok(inner) => poll_into(inner, usize::try_from(count).unwrap_or(0), out),
                Err(errno) => -errno.0,
            }
        }
    })
}

/// # Safety
/// `out` has room for `count` completions.
unsafe fn poll_into(cq: &Cq, count: usize, out: *mut ibv_wc) -> c_int {
    let mut next = out;
    let polled = cq.device().poll_cq_each(cq.id, count, |wc| {
        explain(wc);
        // SAFETY: it is shown `count` completions at most.
        unsafe {
            next.write(ibv_wc { sl: cq.service_level(wc), ..wc_of(wc) });
            next = next.add(1);
        }
    });
    polled.map_or_else(|error| -Errno::from(error).0, |count| count as c_int)
}

/// Tells users who want to know why a work request failed. Those that were flushed only follow.
pub fn explain(wc: &Wc) {
    if !wc.is_ok() && wc.status != WcStatus::WrFlushErr {
        crate::log::explain_failure(wc);
    }
}

/// The completion as the program has it.
fn wc_of(wc: &Wc) -> ibv_wc {
    ibv_wc {
        wr_id: wc.wr_id,
        status: wc.status as c_int,
        opcode: wc.opcode as c_int,
        vendor_err: wc.vendor_err,
        byte_len: wc.byte_len,
        imm_data: imm_data(wc),
        qp_num: wc.qpn,
        src_qp: wc.src_qpn,
        wc_flags: wc.flags.bits(),
        ..ibv_wc::default()
    }
}

/// Immediate data in network byte order, or the key that was invalidated: they share a field.
pub fn imm_data(wc: &Wc) -> u32 {
    wc.imm.map(u32::to_be).or(wc.invalidated).unwrap_or(0)
}

/// `ibv_req_notify_cq`.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    data_path_status(|| {
        let inner = object_of!(cq_of(cq))?;
        let notify = if solicited_only == 0 { Notify::Next } else { Notify::Solicited };
        Ok(inner.device().req_notify(inner.id, notify)?)
    })
}
