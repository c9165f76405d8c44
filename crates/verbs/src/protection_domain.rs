//! Protection domains.

use std::sync::{Arc, Mutex, PoisonError};

use uroce_device::CreateError;
use uroce_device::transport::QpType;
use uroce_memory::{
    Access, AllocMwError, DeregError, MrId, MwType, PdError, PdId, RegMrError, Region,
};

use crate::address_handle::{AddressHandle, AddressHandleAttr};
use crate::completion_queue::CompletionQueue;
use crate::context::Context;
use crate::error::{AddressHandleError, AllocMrError, CreateXrcSrqError, ForeignObject};
use crate::memory_region::MemoryRegion;
use crate::memory_window::MemoryWindow;
use crate::queue_pair_builder::QueuePairBuilder;
use crate::shared_receive_queue::SharedReceiveQueue;
use crate::xrc_domain::XrcDomain;

/// A protection domain (`ibv_pd`). A clone is the same domain.
///
/// A queue pair reaches only memory of its own domain, whatever key a work request or a peer
/// names.
#[derive(Debug, Clone)]
pub struct ProtectionDomain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: PdId,
    /// Regions that were dropped while a window was bound to them.
    orphans: Mutex<Vec<MrId>>,
    context: Context,
}

impl ProtectionDomain {
    pub(crate) fn new(context: &Context) -> Result<Self, PdError> {
        let id = context.device().alloc_pd()?;
        let inner = Inner { id, orphans: Mutex::default(), context: context.clone() };
        Ok(ProtectionDomain { inner: Arc::new(inner) })
    }

    pub(crate) fn id(&self) -> PdId {
        self.inner.id
    }

    /// True if both are the same domain of the same device.
    pub(crate) fn is(&self, other: &ProtectionDomain) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The device of this domain.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// Allocates `len` zeroed bytes and registers them at the address where they are.
    ///
    /// # Errors
    /// [`AllocMrError`]: no memory, or rights that do not go together.
    pub fn alloc_mr(&self, len: usize, access: Access) -> Result<MemoryRegion, AllocMrError> {
        Ok(self.reg_mr(Region::alloc(len)?, access)?)
    }

    /// Registers a region at the address where it is (`ibv_reg_mr`).
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr(&self, region: Region, access: Access) -> Result<MemoryRegion, RegMrError> {
        let iova = region.addr();
        self.reg_mr_iova(region, iova, access)
    }

    /// Registers a region (`ibv_reg_mr_iova`); work requests and peers address its first byte as
    /// `iova`. With [`Access::ZERO_BASED`] that is 0, whatever `iova` says.
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr_iova(
        &self,
        region: Region,
        iova: u64,
        access: Access,
    ) -> Result<MemoryRegion, RegMrError> {
        MemoryRegion::new(self, region, iova, access)
    }

    /// Makes a memory window that is not bound yet (`ibv_alloc_mw`).
    ///
    /// # Errors
    /// [`AllocMwError`] at the device's limit.
    pub fn alloc_mw(&self, mw_type: MwType) -> Result<MemoryWindow, AllocMwError> {
        MemoryWindow::new(self, mw_type)
    }

    /// Makes a shared receive queue for `max_wr` receives of up to `max_sge` entries
    /// (`ibv_create_srq`).
    ///
    /// # Errors
    /// [`CreateError`]: a size out of range, or the device has its limit.
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<SharedReceiveQueue, CreateError> {
        self.create_srq_on(0, max_wr, max_sge)
    }

    /// The same for queue pairs whose CQs are for this completion vector
    /// ([`Context::create_cq_on`]).
    ///
    /// # Errors
    /// [`CreateError`]: as above, or there are fewer engines.
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

    /// Makes an address handle (`ibv_create_ah`), the destination of UD messages. Takes an
    /// [`AddressHandleAttr`], or just a GID, an address or a peer's endpoint.
    ///
    /// # Errors
    /// [`AddressHandleError`]: there can be no path to that address.
    pub fn create_ah(
        &self,
        to: impl Into<AddressHandleAttr>,
    ) -> Result<AddressHandle, AddressHandleError> {
        AddressHandle::new(self, &to.into())
    }

    /// Starts to describe a queue pair (`ibv_create_qp`). Both queues may be the same one.
    pub fn qp_builder<'a>(
        &'a self,
        qp_type: QpType,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a> {
        QueuePairBuilder::new(self, qp_type, send_cq, recv_cq)
    }

    /// Deregisters a region whose object is being dropped; when a window is bound to it, later.
    pub(crate) fn drop_mr(&self, mr: MrId) {
        if let Err(DeregError::Busy { .. }) = self.inner.context.device().dereg_mr(mr) {
            self.inner.orphans.lock().unwrap_or_else(PoisonError::into_inner).push(mr);
        }
    }

    /// A window is gone: the region it was bound to may follow.
    pub(crate) fn drop_orphans(&self) {
        self.inner.drop_orphans();
    }
}

impl Inner {
    fn drop_orphans(&self) {
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        let device = self.context.device();
        orphans.retain(|&mr| matches!(device.dereg_mr(mr), Err(DeregError::Busy { .. })));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.drop_orphans();
        // It cannot be busy: each object of the domain holds a clone, and the last of them has gone.
        let _ = self.context.device().dealloc_pd(self.id);
    }
}
