//! Shared receive queues.

use std::sync::Arc;

use uroce_device::transport::{SrqAttr, SrqId, XrcSrq};
use uroce_device::{CreateError, ModifyError};

use crate::completion_queue::CompletionQueue;
use crate::error::{CreateXrcSrqError, ForeignObject, PostError};
use crate::protection_domain::ProtectionDomain;
use crate::work_request::RecvWr;
use crate::xrc_domain::XrcDomain;

/// A shared receive queue (`ibv_srq`): several queue pairs take their receives from it. A clone is
/// the same queue.
#[derive(Debug, Clone)]
pub struct SharedReceiveQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: SrqId,
    number: u32,
    pd: ProtectionDomain,
    /// Of an XRC queue, dropped behind it.
    _xrc: Option<(XrcDomain, CompletionQueue)>,
}

impl ProtectionDomain {
    /// Makes a shared receive queue for `max_wr` receives of up to `max_sge` entries
    /// (`ibv_create_srq`).
    ///
    /// # Errors
    /// [`CreateError`]: a size out of range, or the device has its limit.
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<SharedReceiveQueue, CreateError> {
        self.create_srq_on(0, max_wr, max_sge)
    }

    /// Makes a shared receive queue as [`create_srq`](Self::create_srq) does, for queue pairs whose CQs are for this
    /// completion vector
    /// ([`Context::create_cq_on`](crate::Context::create_cq_on)).
    ///
    /// # Errors
    /// [`CreateError`]: a size out of range, the device has its limit, or there are fewer engines.
    pub fn create_srq_on(
        &self,
        vector: u32,
        max_wr: u32,
        max_sge: u32,
    ) -> Result<SharedReceiveQueue, CreateError> {
        SharedReceiveQueue::new(self, vector, max_wr, max_sge)
    }

    /// Makes a shared receive queue of an XRC domain (`ibv_create_srq_ex`) for `max_wr` receives of up
    /// to `max_sge` entries, which complete to `cq`. What its peers may write to and read from is the
    /// memory of this protection domain.
    ///
    /// # Errors
    /// [`CreateXrcSrqError`]: a size out of range, an object of another device, or the device has its
    /// limit.
    pub fn create_xrc_srq(
        &self,
        domain: &XrcDomain,
        cq: &CompletionQueue,
        max_wr: u32,
        max_sge: u32,
    ) -> Result<SharedReceiveQueue, CreateXrcSrqError> {
        for (what, context) in
            [("XRC domain", domain.context()), ("completion queue", cq.context())]
        {
            if !context.is(self.context()) {
                return Err(ForeignObject { what }.into());
            }
        }
        Ok(SharedReceiveQueue::new_xrc(self, domain, cq, [max_wr, max_sge])?)
    }
}

impl SharedReceiveQueue {
    pub(crate) fn new(
        pd: &ProtectionDomain,
        vector: u32,
        max_wr: u32,
        max_sge: u32,
    ) -> Result<Self, CreateError> {
        let attr = SrqAttr { max_wr, max_sge, limit: 0 };
        let id = pd.context().device().create_srq_on(vector, pd.id(), &attr)?;
        Self::wrap(id, pd, None)
    }

    pub(crate) fn new_xrc(
        pd: &ProtectionDomain,
        domain: &XrcDomain,
        cq: &CompletionQueue,
        [max_wr, max_sge]: [u32; 2],
    ) -> Result<Self, CreateError> {
        let attr = SrqAttr { max_wr, max_sge, limit: 0 };
        let xrc = XrcSrq { xrcd: domain.id(), cq: cq.id() };
        let id = pd.context().device().xrc().create_srq(pd.id(), xrc, &attr)?;
        Self::wrap(id, pd, Some((domain.clone(), cq.clone())))
    }

    fn wrap(
        id: SrqId,
        pd: &ProtectionDomain,
        xrc: Option<(XrcDomain, CompletionQueue)>,
    ) -> Result<Self, CreateError> {
        let number = pd.context().device().srq_number(id)?;
        let inner = Inner { id, number, pd: pd.clone(), _xrc: xrc };
        Ok(SharedReceiveQueue { inner: Arc::new(inner) })
    }

    /// The number by which XRC peers name the queue (`ibv_get_srq_num`), for
    /// [`SendWr::to_srq`](crate::SendWr::to_srq).
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// The number of the queue inside its device, as events name it.
    pub fn id(&self) -> SrqId {
        self.inner.id
    }

    /// The protection domain of the queue's buffers.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.inner.pd
    }

    /// Sizes and limit (`ibv_query_srq`). The limit is 0 once its event was raised.
    pub fn query(&self) -> SrqAttr {
        let device = self.inner.pd.context().device();
        // The queue exists as long as this object, so it is always found.
        device.query_srq(self.id()).unwrap_or_default()
    }

    /// Asks for one [`SrqLimitReached`](crate::AsyncEvent::SrqLimitReached) when fewer than `limit`
    /// receives wait (R90); 0 asks for none.
    ///
    /// # Errors
    /// [`ModifyError`] when `limit` is above the size.
    pub fn set_limit(&self, limit: u32) -> Result<(), ModifyError> {
        self.modify(None, Some(limit)).map(|_| ())
    }

    /// Changes the size (`ibv_modify_srq`) and returns the attributes in force.
    ///
    /// # Errors
    /// [`ModifyError`] when more receives wait than would fit; the queue is then as it was (B41).
    pub fn resize(&self, max_wr: u32) -> Result<SrqAttr, ModifyError> {
        self.modify(Some(max_wr), None)
    }

    fn modify(&self, max_wr: Option<u32>, limit: Option<u32>) -> Result<SrqAttr, ModifyError> {
        self.inner.pd.context().device().modify_srq(self.id(), max_wr, limit)
    }

    /// Posts receives (`ibv_post_srq_recv`).
    ///
    /// # Errors
    /// [`PostError`] names the request that was refused, and why; those before it are posted (B36).
    pub fn post_recv(&self, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        let posted = self.inner.pd.context().device().post_srq_recv(self.id(), wrs);
        posted.map_err(PostError::from)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // It cannot be busy: each queue pair that uses it holds a clone.
        let _ = self.pd.context().device().destroy_srq(self.id);
    }
}
