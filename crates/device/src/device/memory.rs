//! Protection domains, memory regions, memory windows.

use super::Device;
use uroce_memory::{
    Access, AccessError, AllocMwError, DeallocMwError, DeregError, Mr, MrId, Mw, MwId, MwType,
    PdError, PdId, RegMrError, Region, Rereg, ReregError, Sge,
};

impl Device {
    /// `ibv_alloc_pd`.
    ///
    /// # Errors
    /// [`PdError::TooMany`] at the limit.
    pub fn alloc_pd(&self) -> Result<PdId, PdError> {
        self.0.shared.lock().nic.tables.mem.alloc_pd()
    }

    /// `ibv_dealloc_pd`.
    ///
    /// # Errors
    /// [`PdError::Busy`] while a region, window, QP or SRQ uses it.
    pub fn dealloc_pd(&self, pd: PdId) -> Result<(), PdError> {
        self.0.shared.lock().nic.tables.mem.dealloc_pd(pd)
    }

    /// The protection domain with this handle ([`PdId::place`]), whoever made it (`ibv_import_pd`).
    pub fn pd_at(&self, place: u32) -> Option<PdId> {
        self.0.shared.lock().nic.tables.mem.pd_at(place)
    }

    /// The region with this handle ([`MrId::place`]), whoever made it (`ibv_import_mr`).
    pub fn mr_at(&self, place: u32) -> Option<Mr> {
        self.0.shared.lock().nic.tables.mem.mr_at(place)
    }

    /// `ibv_reg_mr_iova`: peers and SGEs address the first byte of `region` as `iova`.
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr(
        &self,
        pd: PdId,
        region: Region,
        iova: u64,
        access: Access,
    ) -> Result<Mr, RegMrError> {
        self.0.shared.lock().nic.tables.mem.reg_mr(pd, region, iova, access)
    }

    /// `ibv_rereg_mr`.
    ///
    /// # Errors
    /// [`ReregError`]; the region is as it was.
    pub fn rereg_mr(&self, mr: MrId, change: Rereg) -> Result<Mr, ReregError> {
        self.0.shared.lock().nic.tables.mem.rereg_mr(mr, change)
    }

    /// `ibv_dereg_mr`. When it returns, no packet can reach the memory any more (R93).
    ///
    /// # Errors
    /// [`DeregError::Busy`] while a window is bound to it (B40).
    pub fn dereg_mr(&self, mr: MrId) -> Result<(), DeregError> {
        self.0.shared.lock().nic.tables.mem.dereg_mr(mr)
    }

    /// Whether work requests of `pd` could use these pieces of memory; to write to them, with
    /// [`Access::LOCAL_WRITE`].
    ///
    /// # Errors
    /// [`AccessError`] of the first piece that is not usable.
    pub fn check_sges(&self, pd: PdId, sges: &[Sge], need: Access) -> Result<(), AccessError> {
        let engine = self.0.shared.lock();
        let mem = &engine.nic.tables.mem;
        sges.iter().try_for_each(|sge| mem.check_local(sge, pd, need).map(|_| ()))
    }

    /// `ibv_alloc_mw`.
    ///
    /// # Errors
    /// [`AllocMwError`].
    pub fn alloc_mw(&self, pd: PdId, mw_type: MwType) -> Result<Mw, AllocMwError> {
        self.0.shared.lock().nic.tables.mem.alloc_mw(pd, mw_type)
    }

    /// `ibv_dealloc_mw`; a bound window is unbound first.
    ///
    /// # Errors
    /// [`DeallocMwError`] for a window that does not exist.
    pub fn dealloc_mw(&self, mw: MwId) -> Result<(), DeallocMwError> {
        self.0.shared.lock().nic.tables.mem.dealloc_mw(mw)
    }

    /// The current keys of a window; they change with each bind.
    pub fn query_mw(&self, mw: MwId) -> Option<Mw> {
        self.0.shared.lock().nic.tables.mem.mw(mw)
    }
}
