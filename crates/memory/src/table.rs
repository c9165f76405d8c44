//! The table of everything that is registered on a device.
#![forbid(unsafe_code)]

mod check;
mod regions;
mod windows;

use std::fmt;

use crate::id::PdId;
use crate::limits::MemLimits;
use crate::pd::{PdError, ProtectionDomains};
use crate::registrations::Registrations;

/// Protection domains, memory regions and memory windows of one device.
pub struct MemTable {
    limits: MemLimits,
    pds: ProtectionDomains,
    registrations: Registrations,
    mrs: u32,
    mws: u32,
}

impl MemTable {
    /// An empty table. All keys follow from `seed`: give every table 32 fresh random bytes, or
    /// a fixed seed where a run must be repeatable (A7: never a static seed in production).
    /// Limits beyond 2^20 regions, 2^20 windows or 2^21 domains are lowered to those.
    pub fn new(seed: [u8; 32], limits: MemLimits) -> Self {
        let limits = limits.clamped();
        MemTable {
            limits,
            pds: ProtectionDomains::new(limits.max_pd),
            registrations: Registrations::new(seed),
            mrs: 0,
            mws: 0,
        }
    }

    /// The limits in force.
    pub fn limits(&self) -> &MemLimits {
        &self.limits
    }

    /// Number of memory regions.
    pub fn mr_count(&self) -> usize {
        self.mrs as usize
    }

    /// Number of memory windows, bound or not.
    pub fn mw_count(&self) -> usize {
        self.mws as usize
    }

    /// Number of protection domains.
    pub fn pd_count(&self) -> usize {
        self.pds.len()
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`PdError::TooMany`] at the limit.
    pub fn alloc_pd(&mut self) -> Result<PdId, PdError> {
        self.pds.alloc()
    }

    /// Removes a protection domain that nothing uses.
    ///
    /// # Errors
    /// [`PdError::Busy`] while a region, a window or a retainer uses it, [`PdError::Unknown`].
    pub fn dealloc_pd(&mut self, pd: PdId) -> Result<(), PdError> {
        self.pds.dealloc(pd)
    }

    /// The protection domain at this [`place`](PdId::place).
    pub fn pd_at(&self, place: u32) -> Option<PdId> {
        self.pds.at(place)
    }

    /// How many objects use the domain; `None` if it does not exist.
    pub fn pd_users(&self, pd: PdId) -> Option<u32> {
        self.pds.users(pd)
    }

    /// All protection domains, and how many objects use each.
    pub fn pds(&self) -> impl Iterator<Item = (PdId, u32)> {
        self.pds.iter()
    }

    /// Counts one more user (a QP, an SRQ, an address handle) of `pd`.
    ///
    /// # Errors
    /// [`PdError::Unknown`].
    pub fn retain_pd(&mut self, pd: PdId) -> Result<(), PdError> {
        self.pds.retain(pd)
    }

    /// Takes back one [`MemTable::retain_pd`]; the caller pairs the two.
    ///
    /// # Errors
    /// [`PdError::Unknown`].
    pub fn release_pd(&mut self, pd: PdId) -> Result<(), PdError> {
        self.pds.release(pd)
    }

    /// Takes out a region or a window, and its use of the protection domain.
    fn remove(&mut self, id: u64) {
        if let Some(gone) = self.registrations.remove(id) {
            self.release_owned(gone.pd);
        }
    }

    /// Takes back the use of `pd` by an object of this table.
    fn release_owned(&mut self, pd: PdId) {
        self.pds.release(pd).expect("a domain outlives its users");
    }
}

/// Shows counts only: keys and the state of the generator stay out of logs.
impl fmt::Debug for MemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemTable")
            .field("pds", &self.pd_count())
            .field("mrs", &self.mr_count())
            .field("mws", &self.mw_count())
            .finish_non_exhaustive()
    }
}
