//! Protection domains.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::{MemTable, PdId};

/// A protection domain: a name and how many objects use it.
#[derive(Default)]
pub(crate) struct Pd {
    pub(crate) users: u32,
}

/// Why an operation on a protection domain failed.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PdError {
    /// No such protection domain.
    #[error("this protection domain does not exist (any more); use one that alloc_pd returned")]
    Unknown,
    /// Something still uses it (`EBUSY`).
    #[error("{users} objects still use this protection domain; destroy them first")]
    Busy {
        /// Regions, windows, and whatever else retained it.
        users: u32,
    },
    /// The device has no room for another one (`ENOMEM`).
    #[error(
        "the device holds its limit of {limit} protection domains; free one or raise the limit"
    )]
    TooMany {
        /// [`crate::MemLimits::max_pd`].
        limit: u32,
    },
}

impl MemTable {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`PdError::TooMany`] at the limit.
    pub fn alloc_pd(&mut self) -> Result<PdId, PdError> {
        let limit = self.limits.max_pd;
        if self.pds.len() >= limit as usize {
            return Err(PdError::TooMany { limit });
        }
        Ok(PdId(self.pds.insert(Pd::default())))
    }

    /// Removes a protection domain that nothing uses.
    ///
    /// # Errors
    /// [`PdError::Busy`] while a region, a window or a retainer uses it, [`PdError::Unknown`].
    pub fn dealloc_pd(&mut self, pd: PdId) -> Result<(), PdError> {
        match self.pds.get(pd.0).ok_or(PdError::Unknown)?.users {
            0 => {
                self.pds.remove(pd.0);
                Ok(())
            }
            users => Err(PdError::Busy { users }),
        }
    }

    /// The protection domain at this [`place`](PdId::place).
    pub fn pd_at(&self, place: u32) -> Option<PdId> {
        self.pds.at(place).map(|(id, _)| PdId(id))
    }

    /// How many objects use the domain; `None` if it does not exist.
    pub fn pd_users(&self, pd: PdId) -> Option<u32> {
        self.pds.get(pd.0).map(|pd| pd.users)
    }

    /// All protection domains, and how many objects use each.
    pub fn pds(&self) -> impl Iterator<Item = (PdId, u32)> {
        self.pds.iter().map(|(id, pd)| (PdId(id), pd.users))
    }

    /// Counts one more user (a QP, an SRQ, an address handle) of `pd`.
    ///
    /// # Errors
    /// [`PdError::Unknown`].
    pub fn retain_pd(&mut self, pd: PdId) -> Result<(), PdError> {
        let entry = self.pds.get_mut(pd.0).ok_or(PdError::Unknown)?;
        entry.users += 1;
        Ok(())
    }

    /// Takes back one [`MemTable::retain_pd`]; the caller pairs the two.
    ///
    /// # Errors
    /// [`PdError::Unknown`].
    pub fn release_pd(&mut self, pd: PdId) -> Result<(), PdError> {
        let entry = self.pds.get_mut(pd.0).ok_or(PdError::Unknown)?;
        debug_assert!(entry.users > 0, "every release follows a retain");
        entry.users = entry.users.saturating_sub(1);
        Ok(())
    }
}

debug_is_display!(PdError);
