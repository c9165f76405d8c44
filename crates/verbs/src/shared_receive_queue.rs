//! Shared receive queues.

use std::sync::Arc;

use uroce_device::transport::{SrqAttr, SrqId, XrcSrq};
use uroce_device::{CreateError, ModifyError};

use crate::completion_queue::CompletionQueue;
use crate::error::PostError;
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
        let id = pd.context().device().create_xrc_srq(pd.id(), xrc, &attr)?;
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

    /// The number by which XRC peers name it (`ibv_get_srq_num`), for
    /// [`SendWr::to_srq`](crate::SendWr::to_srq).
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// What events call it.
    pub fn id(&self) -> SrqId {
        self.inner.id
    }

    /// The protection domain of its buffers.
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
