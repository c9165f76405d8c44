//! Protection domains.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::id::PdId;
use crate::stamped::StampedSlab;

/// The protection domains of a device: how many objects use each.
pub(crate) struct ProtectionDomains {
    users: StampedSlab<u32>,
    limit: u32,
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
        /// Number of regions, windows, queue pairs and other objects that use it.
        users: u32,
    },
    /// The device has no room for another one (`ENOMEM`).
    #[error(
        "the device holds its limit of {limit} protection domains; free one or raise the limit"
    )]
    TooMany {
        /// The limit, `max_pd` of the device.
        limit: u32,
    },
}

impl ProtectionDomains {
    pub(crate) fn new(limit: u32) -> Self {
        ProtectionDomains { users: StampedSlab::new(), limit }
    }

    pub(crate) fn alloc(&mut self) -> Result<PdId, PdError> {
        if self.users.len() >= self.limit as usize {
            return Err(PdError::TooMany { limit: self.limit });
        }
        Ok(PdId(self.users.insert(0)))
    }

    pub(crate) fn dealloc(&mut self, pd: PdId) -> Result<(), PdError> {
        match *self.users.get(pd.0).ok_or(PdError::Unknown)? {
            0 => {
                self.users.remove(pd.0);
                Ok(())
            }
            users => Err(PdError::Busy { users }),
        }
    }

    /// Counts one more user.
    pub(crate) fn retain(&mut self, pd: PdId) -> Result<(), PdError> {
        *self.users.get_mut(pd.0).ok_or(PdError::Unknown)? += 1;
        Ok(())
    }

    /// Counts one user less; the caller pairs it with a [`retain`](Self::retain).
    pub(crate) fn release(&mut self, pd: PdId) -> Result<(), PdError> {
        let users = self.users.get_mut(pd.0).ok_or(PdError::Unknown)?;
        debug_assert!(*users > 0, "every release follows a retain");
        *users = users.saturating_sub(1);
        Ok(())
    }

    pub(crate) fn at(&self, place: u32) -> Option<PdId> {
        self.users.at(place).map(|(id, _)| PdId(id))
    }

    pub(crate) fn users(&self, pd: PdId) -> Option<u32> {
        self.users.get(pd.0).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PdId, u32)> {
        self.users.iter().map(|(id, users)| (PdId(id), *users))
    }

    pub(crate) fn len(&self) -> usize {
        self.users.len()
    }
}

debug_is_display!(PdError);
