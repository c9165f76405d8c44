//! Protection domains.

use std::sync::{Arc, Mutex, PoisonError};

use uroce_memory::{DeregError, MrId, PdError, PdId};

use crate::context::Context;

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

impl Context {
    /// A protection domain (`ibv_alloc_pd`): regions, windows and queue pairs of one domain work
    /// together.
    ///
    /// # Errors
    /// [`PdError::TooMany`] at the device's limit.
    pub fn alloc_pd(&self) -> Result<ProtectionDomain, PdError> {
        ProtectionDomain::new(self)
    }
}

impl ProtectionDomain {
    pub(crate) fn new(context: &Context) -> Result<Self, PdError> {
        let id = context.device().memory().alloc_pd()?;
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

    /// Deregisters a region whose object is being dropped; when a window is bound to it, later.
    pub(crate) fn drop_mr(&self, mr: MrId) {
        if let Err(DeregError::Busy { .. }) = self.inner.context.device().memory().dereg_mr(mr) {
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
        orphans.retain(|&mr| matches!(device.memory().dereg_mr(mr), Err(DeregError::Busy { .. })));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.drop_orphans();
        // It cannot be busy: each object of the domain holds a clone, and the last of them has gone.
        let _ = self.context.device().memory().dealloc_pd(self.id);
    }
}
