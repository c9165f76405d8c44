//! XRC: a domain, queue pairs that answer in it, and shared receive queues that have a number.

use std::mem::zeroed;
use std::ptr::null_mut;
use std::rc::Rc;

use uroce_verbs_abi::{
    ibv_context, ibv_qp, ibv_qp_init_attr_ex, ibv_srq, ibv_srq_attr, ibv_srq_init_attr_ex,
    ibv_xrcd, ibv_xrcd_init_attr,
};

use crate::completion_queue::CompletionQueue;
use crate::device::Device;
use crate::domain::Domain;
use crate::outcome::{Tried, done, failed};
use crate::slots::find;

/// `IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS`.
const DOMAIN_MASK: u32 = 0b11;
/// `IBV_QPT_XRC_RECV`, and `IBV_QP_INIT_ATTR_XRCD`.
const QP_TYPE: i32 = 10;
const QP_MASK: u32 = 1 << 1;
/// `IBV_SRQT_XRC`, and `IBV_SRQ_INIT_ATTR_TYPE`, `_PD`, `_XRCD` and `_CQ`.
const SRQ_TYPE: i32 = 1;
const SRQ_MASK: u32 = 0b1111;

/// What is said where libibverbs or the driver lacks a function.
fn missing<T>(call: &str) -> Tried<T> {
    Err(format!("{call}: this libibverbs or driver has no XRC"))
}

/// An XRC domain that no file names: no other process can open it.
pub(crate) struct XrcDomain {
    device: Rc<Device>,
    xrcd: *mut ibv_xrcd,
}

impl XrcDomain {
    pub(crate) fn new(device: &Rc<Device>) -> Tried<Rc<XrcDomain>> {
        let Some(open) = find!(device.context, open_xrcd) else { return missing("ibv_open_xrcd") };
        let mut attr = ibv_xrcd_init_attr { comp_mask: DOMAIN_MASK, fd: -1, oflags: libc::O_CREAT };
        // SAFETY: an open device.
        let xrcd = unsafe { open(device.context, &raw mut attr) };
        if xrcd.is_null() {
            return failed("ibv_open_xrcd");
        }
        Ok(Rc::new(XrcDomain { device: device.clone(), xrcd }))
    }

    fn context(&self) -> *mut ibv_context {
        self.device.context
    }

    /// A queue pair that answers in the domain.
    pub(crate) fn queue_pair(&self) -> Tried<*mut ibv_qp> {
        let Some(create) = find!(self.context(), create_qp_ex) else {
            return missing("ibv_create_qp_ex");
        };
        // SAFETY: integers and null pointers.
        let mut init: ibv_qp_init_attr_ex = unsafe { zeroed() };
        (init.qp_type, init.comp_mask, init.xrcd) = (QP_TYPE, QP_MASK, self.xrcd);
        // SAFETY: an open device and a domain that lives.
        let qp = unsafe { create(self.context(), &raw mut init) };
        if qp.is_null() { failed("ibv_create_qp_ex") } else { Ok(qp) }
    }

    /// A shared receive queue of the domain, and its number.
    pub(crate) fn shared_queue(
        &self,
        domain: &Domain,
        completions: &CompletionQueue,
        receives: u32,
    ) -> Tried<(*mut ibv_srq, u32)> {
        let found = find!(self.context(), create_srq_ex).zip(find!(self.context(), get_srq_num));
        let Some((create, number_of)) = found else { return missing("ibv_create_srq_ex") };
        let mut init = ibv_srq_init_attr_ex {
            srq_context: null_mut(),
            attr: ibv_srq_attr { max_wr: receives, max_sge: 1, srq_limit: 0 },
            comp_mask: SRQ_MASK,
            srq_type: SRQ_TYPE,
            pd: domain.pd,
            xrcd: self.xrcd,
            cq: completions.cq,
            tm_cap: [0; 2],
        };
        // SAFETY: an open device, domains and a completion queue that live.
        let srq = unsafe { create(self.context(), &raw mut init) };
        if srq.is_null() {
            return failed("ibv_create_srq_ex");
        }
        let mut number = 0;
        // SAFETY: it was just made, and there is room for the answer.
        let status = unsafe { number_of(srq, &raw mut number) };
        if status != 0 {
            // SAFETY: once; nothing uses it.
            unsafe { (self.device.library.ibv_destroy_srq)(srq) };
        }
        done("ibv_get_srq_num", status).map(|()| (srq, number))
    }
}

impl Drop for XrcDomain {
    fn drop(&mut self) {
        if let Some(close) = find!(self.context(), close_xrcd) {
            // SAFETY: once; what is in the domain holds it, and is gone.
            unsafe { close(self.xrcd) };
        }
    }
}
