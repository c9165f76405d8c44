//! The table of everything that is registered on a device.
#![forbid(unsafe_code)]

use std::fmt;

use crate::MemLimits;
use crate::keys::Keys;
use crate::pd::Pd;
use crate::registration::Registration;
use crate::stamped::StampedSlab;

/// Protection domains, memory regions and memory windows of one device.
pub struct MemTable {
    pub(crate) limits: MemLimits,
    pub(crate) pds: StampedSlab<Pd>,
    pub(crate) registrations: StampedSlab<Registration>,
    pub(crate) keys: Keys,
    pub(crate) mrs: u32,
    pub(crate) mws: u32,
}

impl MemTable {
    /// An empty table. All keys follow from `seed`: give every table 32 fresh random bytes, or
    /// a fixed seed where a run must be repeatable (A7: never a static seed in production).
    /// Limits beyond 2^20 regions, 2^20 windows or 2^21 domains are lowered to those.
    pub fn new(seed: [u8; 32], limits: MemLimits) -> Self {
        MemTable {
            limits: limits.clamped(),
            pds: StampedSlab::new(),
            registrations: StampedSlab::new(),
            keys: Keys::new(seed),
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
