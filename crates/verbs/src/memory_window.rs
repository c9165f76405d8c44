//! Memory windows.

use uroce_memory::{AllocMwError, Mw, MwId, MwType, Rkey};

use crate::protection_domain::ProtectionDomain;
use crate::remote::RemoteSlice;

/// A memory window (`ibv_mw`): a key of its own for a part of a region, with rights of its own, that
/// can be given and withdrawn by work requests. Dropping it withdraws it.
///
/// [`SendWr::bind_mw`](crate::SendWr::bind_mw) binds it; [`SendWr::local_invalidate`](crate::SendWr::local_invalidate), or a
/// peer's SEND with invalidate, unbinds a type 2 window.
#[derive(Debug)]
pub struct MemoryWindow {
    mw: Mw,
    mw_type: MwType,
    pd: ProtectionDomain,
}

impl ProtectionDomain {
    /// Makes a memory window that is not bound yet (`ibv_alloc_mw`).
    ///
    /// # Errors
    /// [`AllocMwError`]: the device has its limit of windows, or several engines.
    pub fn alloc_mw(&self, mw_type: MwType) -> Result<MemoryWindow, AllocMwError> {
        MemoryWindow::new(self, mw_type)
    }
}

impl MemoryWindow {
    pub(crate) fn new(pd: &ProtectionDomain, mw_type: MwType) -> Result<Self, AllocMwError> {
        let mw = pd.context().device().memory().alloc_mw(pd.id(), mw_type)?;
        Ok(MemoryWindow { mw, mw_type, pd: pd.clone() })
    }

    /// The number of the window inside its device, for display.
    pub fn id(&self) -> MwId {
        self.mw.id
    }

    /// Type of the window: 1 or 2B.
    pub fn mw_type(&self) -> MwType {
        self.mw_type
    }

    /// The protection domain of this window.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// The key as it is now; each bind changes it. A bind has happened when its completion came.
    pub fn rkey(&self) -> Rkey {
        self.pd.context().device().memory().query_mw(self.mw.id).map_or(self.mw.rkey, |mw| mw.rkey)
    }

    /// The key that the next bind of a type 2 window should ask for: the present one with the next
    /// variant (`ibv_inc_rkey`).
    pub fn next_rkey(&self) -> Rkey {
        let now = self.rkey();
        now.with_variant(now.variant().wrapping_add(1))
    }

    /// The memory under the window as a peer names it, given what the window was bound to: `len`
    /// bytes at `addr` (0 for a zero-based window).
    pub fn remote(&self, addr: u64, len: u64) -> RemoteSlice {
        RemoteSlice::new(addr, self.rkey(), len)
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        // It exists as long as this object, bound or not.
        let _ = self.pd.context().device().memory().dealloc_mw(self.mw.id);
        self.pd.drop_orphans();
    }
}
