//! How many objects a table may hold.
#![forbid(unsafe_code)]

use crate::stamped::MAX_ENTRIES;

/// Limits of a [`crate::MemTable`]. The defaults are rxe's index ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemLimits {
    /// Protection domains.
    pub max_pd: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Memory windows.
    pub max_mw: u32,
    /// Bytes in one region.
    pub max_mr_size: u64,
}

impl Default for MemLimits {
    fn default() -> Self {
        MemLimits { max_pd: 1 << 16, max_mr: 1 << 19, max_mw: 1 << 19, max_mr_size: u64::MAX }
    }
}

impl MemLimits {
    /// The same limits, lowered to what the tables can number.
    pub(crate) fn clamped(self) -> MemLimits {
        MemLimits {
            max_pd: self.max_pd.min(MAX_ENTRIES),
            max_mr: self.max_mr.min(MAX_ENTRIES / 2),
            max_mw: self.max_mw.min(MAX_ENTRIES / 2),
            max_mr_size: self.max_mr_size,
        }
    }
}
