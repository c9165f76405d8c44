//! Shared receive queues.

use std::ptr::null_mut;
use std::rc::Rc;

use uroce_verbs_abi::{ibv_srq, ibv_srq_attr, ibv_srq_init_attr};

use crate::completion_queue::CompletionQueue;
use crate::domain::Domain;
use crate::outcome::{Tried, failed};
use crate::xrc::XrcDomain;

pub(crate) struct SharedQueue {
    domain: Rc<Domain>,
    pub(crate) srq: *mut ibv_srq,
    /// What an XRC shared receive queue uses beside.
    _xrc: Option<(Rc<XrcDomain>, Rc<CompletionQueue>)>,
}

impl SharedQueue {
    pub(crate) fn new(domain: &Rc<Domain>, receives: u32) -> Tried<Rc<SharedQueue>> {
        let attr = ibv_srq_attr { max_wr: receives, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
        // SAFETY: a domain that lives.
        let srq = unsafe { (domain.device().library.ibv_create_srq)(domain.pd, &raw mut init) };
        if srq.is_null() {
            return failed("ibv_create_srq");
        }
        Ok(Rc::new(SharedQueue { domain: domain.clone(), srq, _xrc: None }))
    }

    /// An XRC shared receive queue, and its number.
    pub(crate) fn of_xrc(
        domain: &Rc<Domain>,
        xrc: &Rc<XrcDomain>,
        completions: &Rc<CompletionQueue>,
        receives: u32,
    ) -> Tried<(Rc<SharedQueue>, u32)> {
        let (srq, number) = xrc.shared_queue(domain, completions, receives)?;
        let used = Some((xrc.clone(), completions.clone()));
        Ok((Rc::new(SharedQueue { domain: domain.clone(), srq, _xrc: used }), number))
    }
}

impl Drop for SharedQueue {
    fn drop(&mut self) {
        // SAFETY: once; its queue pairs hold it, and are gone.
        unsafe { (self.domain.device().library.ibv_destroy_srq)(self.srq) };
    }
}
