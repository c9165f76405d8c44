//! Protection domains, memory regions, memory windows.
//!
//! Regions, keys and protection domains belong to the device: queue pairs of all engines use them.
//! So that no engine waits for another one on the data path, each has a copy of the table
//! (docs/adr/016-engines.md).

use std::fmt::Debug;

use uroce_memory::{
    Access, AccessError, AllocMwError, DeallocMwError, DeregError, MemTable, Mr, MrId, Mw, MwId,
    MwType, PdError, PdId, RegMrError, Region, Rereg, ReregError, Sge,
};

use crate::engines::{EngineGuard, Engines};

/// Protection domains, memory regions and windows of a device
/// ([`Device::memory`](crate::Device::memory)).
#[derive(Debug, Clone, Copy)]
pub struct DeviceMemory<'a> {
    engines: &'a Engines,
}

impl<'a> DeviceMemory<'a> {
    pub(super) fn new(engines: &'a Engines) -> Self {
        DeviceMemory { engines }
    }

    /// `ibv_alloc_pd`.
    ///
    /// # Errors
    /// [`PdError::TooMany`] at the limit.
    pub fn alloc_pd(&self) -> Result<PdId, PdError> {
        self.change(MemTable::alloc_pd)
    }

    /// `ibv_dealloc_pd`.
    ///
    /// # Errors
    /// [`PdError::Busy`] while a region, window, QP or SRQ uses it.
    pub fn dealloc_pd(&self, pd: PdId) -> Result<(), PdError> {
        match self.engines.are_several() {
            false => self.first().nic.tables.mem.dealloc_pd(pd),
            true => dealloc_everywhere(self.engines, pd),
        }
    }

    /// The protection domain with this handle ([`PdId::place`]), whichever context made it
    /// (`ibv_import_pd`).
    pub fn pd_at(&self, place: u32) -> Option<PdId> {
        self.first().nic.tables.mem.pd_at(place)
    }

    /// The region with this handle ([`MrId::place`]), whichever context made it (`ibv_import_mr`).
    pub fn mr_at(&self, place: u32) -> Option<Mr> {
        self.first().nic.tables.mem.mr_at(place)
    }

    /// The memory of a region, and what may be done with it.
    pub fn region_of(&self, mr: MrId) -> Option<(Region, Access)> {
        self.first().nic.tables.mem.region_of(mr)
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
        self.change(|mem| mem.reg_mr(pd, region.clone(), iova, access))
    }

    /// `ibv_rereg_mr`.
    ///
    /// # Errors
    /// [`ReregError`]; the region is as it was.
    pub fn rereg_mr(&self, mr: MrId, change: Rereg) -> Result<Mr, ReregError> {
        self.change(|mem| mem.rereg_mr(mr, change.clone()))
    }

    /// `ibv_dereg_mr`. When it returns, no packet can reach the memory any more (R93).
    ///
    /// # Errors
    /// [`DeregError::Busy`] while a window is bound to it (B40).
    pub fn dereg_mr(&self, mr: MrId) -> Result<(), DeregError> {
        self.change(|mem| mem.dereg_mr(mr))
    }

    /// Whether work requests of `pd` could use these pieces of memory; to write to them, with
    /// [`Access::LOCAL_WRITE`].
    ///
    /// # Errors
    /// [`AccessError`] of the first piece that is not usable.
    pub fn check_sges(&self, pd: PdId, sges: &[Sge], need: Access) -> Result<(), AccessError> {
        let engine = self.first();
        let mem = &engine.nic.tables.mem;
        sges.iter().try_for_each(|sge| mem.check_local(sge, pd, need).map(|_| ()))
    }

    /// `ibv_alloc_mw`.
    ///
    /// # Errors
    /// [`AllocMwError`]; [`Unsupported`](AllocMwError::Unsupported) with several engines: windows are bound
    /// on the data path of one of them, and the others would have to be asked.
    pub fn alloc_mw(&self, pd: PdId, mw_type: MwType) -> Result<Mw, AllocMwError> {
        if self.engines.are_several() {
            return Err(AllocMwError::Unsupported);
        }
        self.first().nic.tables.mem.alloc_mw(pd, mw_type)
    }

    /// `ibv_dealloc_mw`; a bound window is unbound first.
    ///
    /// # Errors
    /// [`DeallocMwError`] for a window that does not exist.
    pub fn dealloc_mw(&self, mw: MwId) -> Result<(), DeallocMwError> {
        self.first().nic.tables.mem.dealloc_mw(mw)
    }

    /// The current keys of a window; they change with each bind.
    pub fn query_mw(&self, mw: MwId) -> Option<Mw> {
        self.first().nic.tables.mem.mw(mw)
    }

    fn first(&self) -> EngineGuard<'a> {
        self.engines.first().lock()
    }

    /// Changes the memory table, in all engines in the same order: copies that see the same changes give the
    /// same answers, keys included. When it returns, no engine goes by the old one.
    fn change<T: PartialEq + Debug, E: Debug>(
        &self,
        change: impl Fn(&mut MemTable) -> Result<T, E>,
    ) -> Result<T, E> {
        let _order = self.engines.order();
        let done = change(&mut self.first().nic.tables.mem)?;
        for shared in &self.engines.all()[1..] {
            let copy = change(&mut shared.lock().nic.tables.mem);
            debug_assert!(
                copy.as_ref().is_ok_and(|copy| *copy == done),
                "{copy:?} is not {done:?}"
            );
        }
        Ok(done)
    }
}

/// The queue pairs and SRQs of an engine are users of the domain in its copy only, so all copies are looked
/// at before one is changed.
fn dealloc_everywhere(engines: &Engines, pd: PdId) -> Result<(), PdError> {
    let _order = engines.order();
    let mut locked = engines.lock_all();
    for engine in &locked {
        match engine.nic.tables.mem.pd_users(pd).ok_or(PdError::Unknown)? {
            0 => {}
            users => return Err(PdError::Busy { users }),
        }
    }
    for engine in &mut locked {
        let gone = engine.nic.tables.mem.dealloc_pd(pd);
        debug_assert!(gone.is_ok(), "it had no users a moment ago");
    }
    Ok(())
}
