//! Work requests that only the extended interface has: FLUSH and ATOMIC WRITE.

use std::mem::zeroed;

use uroce_verbs_abi::{ibv_qp, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex};

use crate::device::Device;
use crate::domain::Domain;
use crate::outcome::{Tried, done, failed};
use crate::slots::find;

/// `IBV_QP_INIT_ATTR_PD` and `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`.
const MASK: u32 = 1 | 1 << 6;
/// `IBV_QP_EX_WITH_*` of WRITE, SEND and READ, with and without immediate data; of FLUSH; of ATOMIC WRITE.
const PLAIN: u64 = 0b1_1111;
const FLUSH: u64 = 1 << 11;
const ATOMIC_WRITE: u64 = 1 << 12;
/// `IBV_SEND_SIGNALED`.
const SIGNALED: u32 = 1 << 1;

/// Makes a queue pair that takes the work requests below, as far as the device has them.
pub(crate) fn create(domain: &Domain, init: &ibv_qp_init_attr) -> Tried<*mut ibv_qp> {
    let device = domain.device();
    let Some(create) = find!(device.context, create_qp_ex) else {
        return Err("this libibverbs or driver has no ibv_create_qp_ex".to_owned());
    };
    let has = device.card.extensions;
    let wanted = [(has.flush, FLUSH), (has.atomic_write, ATOMIC_WRITE)];
    let beside: u64 = wanted.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
    // SAFETY: integers and null pointers.
    let mut long: ibv_qp_init_attr_ex = unsafe { zeroed() };
    (long.send_cq, long.recv_cq, long.srq) = (init.send_cq, init.recv_cq, init.srq);
    (long.cap, long.qp_type) = (init.cap, init.qp_type);
    (long.comp_mask, long.pd, long.send_ops_flags) = (MASK, domain.pd, PLAIN | beside);
    // SAFETY: an open device, a domain and queues that live.
    let qp = unsafe { create(device.context, &raw mut long) };
    if qp.is_null() { failed("ibv_create_qp_ex") } else { Ok(qp) }
}

/// Posts one work request to a queue pair that [`create`] made; `write` calls the function of the extended interface.
fn post(
    device: &Device,
    qp: *mut ibv_qp,
    wr_id: u64,
    write: impl FnOnce(*mut ibv_qp_ex),
) -> Tried<()> {
    // SAFETY: a queue pair that lives; libibverbs answers null for one that was not made for the extended interface.
    let extended = unsafe { (device.library.ibv_qp_to_qp_ex)(qp) };
    if extended.is_null() {
        return Err("the queue pair was not made for FLUSH and ATOMIC WRITE".to_owned());
    }
    // SAFETY: the extended form of a queue pair that lives; what belongs to one work request stands between start and
    // complete.
    let status = unsafe {
        ((*extended).ops.wr_start)(extended);
        (*extended).wr_id = wr_id;
        (*extended).wr_flags = SIGNALED;
        write(extended);
        ((*extended).ops.wr_complete)(extended)
    };
    done("ibv_wr_complete", status)
}

/// What a FLUSH is about.
pub(crate) struct Flush {
    pub(crate) va: u64,
    pub(crate) rkey: u32,
    pub(crate) length: u32,
    pub(crate) placement: u8,
    pub(crate) selectivity: u8,
}

/// Posts a FLUSH.
pub(crate) fn post_flush(device: &Device, qp: *mut ibv_qp, wr_id: u64, flush: &Flush) -> Tried<()> {
    if !device.card.extensions.flush {
        return Err("the device has no FLUSH".to_owned());
    }
    let Flush { va, rkey, length, placement, selectivity } = *flush;
    post(device, qp, wr_id, |extended| {
        // SAFETY: the slot is there: the queue pair was made for FLUSH.
        unsafe {
            let write = (*extended).ops.wr_flush;
            write(extended, rkey, va, length as usize, placement, selectivity);
        }
    })
}

/// Posts an ATOMIC WRITE of these bytes.
pub(crate) fn post_atomic_write(
    device: &Device,
    qp: *mut ibv_qp,
    wr_id: u64,
    (va, rkey): (u64, u32),
    bytes: [u8; 8],
) -> Tried<()> {
    if !device.card.extensions.atomic_write {
        return Err("the device has no ATOMIC WRITE".to_owned());
    }
    post(device, qp, wr_id, |extended| {
        // SAFETY: the slot is there: the queue pair was made for ATOMIC WRITE. The bytes are copied at once.
        unsafe {
            ((*extended).ops.wr_atomic_write)(extended, rkey, va, bytes.as_ptr().cast());
        }
    })
}
