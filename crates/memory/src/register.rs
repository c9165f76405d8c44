//! Registering, re-registering and deregistering memory regions.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::registration::{Extent, Kind, Registration};
use crate::stamped::place;
use crate::{Access, Lkey, MemTable, MrId, PdError, PdId, Region, Rkey};

/// A registered region: its name and its key in both roles (the number is the same).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mr {
    /// Name for rereg and dereg.
    pub id: MrId,
    /// Key for SGEs.
    pub lkey: Lkey,
    /// Key for peers.
    pub rkey: Rkey,
}

/// A registered region, for those who list what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MrInfo {
    /// Its name and keys.
    pub mr: Mr,
    /// Its protection domain.
    pub pd: PdId,
    /// Address of its first byte, as users of the keys see it.
    pub iova: u64,
    /// Bytes.
    pub len: u64,
    /// What may be done with it.
    pub access: Access,
}

/// What [`MemTable::rereg_mr`] changes; `None` keeps.
#[derive(Debug, Clone, Default)]
pub struct Rereg {
    /// Another protection domain (`IBV_REREG_MR_CHANGE_PD`).
    pub pd: Option<PdId>,
    /// Other rights (`IBV_REREG_MR_CHANGE_ACCESS`).
    pub access: Option<Access>,
    /// Other memory and its first address (`IBV_REREG_MR_CHANGE_TRANSLATION`).
    pub translation: Option<(Region, u64)>,
}

/// Why a region was not registered.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegMrError {
    /// No such protection domain.
    #[error("the protection domain does not exist (any more); use one that alloc_pd returned")]
    UnknownPd,
    /// A flag nobody knows.
    #[error("access flags {bits:#x} have unknown bits; use the flags of this library's Access")]
    UnknownAccess {
        /// The flags as given.
        bits: u32,
    },
    /// Remote write or atomic rights without the local one.
    #[error("REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well; add it to the access flags")]
    NeedsLocalWrite,
    /// FLUSH to persistence, which memory that a process has mapped does not give.
    #[error(
        "FLUSH_PERSISTENT promises that data survive a power failure, which this device cannot make \
         true; use FLUSH_GLOBAL, and let the program make its memory persistent"
    )]
    NotPersistent,
    /// The addresses would go beyond 2^64.
    #[error("{len} bytes from address {iova:#x} go beyond 2^64; choose a lower address")]
    AddressWrap {
        /// First address asked for.
        iova: u64,
        /// Bytes of the region.
        len: u64,
    },
    /// The region is larger than the device takes.
    #[error("a region of {len} bytes is larger than the device's limit of {limit}; split it")]
    TooLarge {
        /// Bytes of the region.
        len: u64,
        /// [`crate::MemLimits::max_mr_size`].
        limit: u64,
    },
    /// The device has no room for another region (`ENOMEM`).
    #[error("the device holds its limit of {limit} memory regions; free one or raise the limit")]
    TooMany {
        /// [`crate::MemLimits::max_mr`].
        limit: u32,
    },
}

/// Why a region was not re-registered; it is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReregError {
    /// No such region.
    #[error("this memory region does not exist (any more); register it again")]
    Unknown,
    /// Windows are bound to it (`EBUSY`).
    #[error("{windows} memory windows are bound to the region; invalidate or free them first")]
    Busy {
        /// How many.
        windows: u32,
    },
    /// The new values would not do for a registration either.
    #[error(transparent)]
    Reg(#[from] RegMrError),
}

/// Why a region was not deregistered.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeregError {
    /// No such region.
    #[error("this memory region does not exist (any more); it was deregistered before")]
    Unknown,
    /// Windows are bound to it (`EBUSY`, B40).
    #[error("{windows} memory windows are bound to the region; invalidate or free them first")]
    Busy {
        /// How many.
        windows: u32,
    },
}

impl MemTable {
    /// Registers `region` in `pd`; users of the key see its first byte at `iova` (at 0 if
    /// `access` has [`Access::ZERO_BASED`]). A region of 0 bytes is allowed, as in rxe.
    ///
    /// # Errors
    /// [`RegMrError`].
    pub fn reg_mr(
        &mut self,
        pd: PdId,
        region: Region,
        iova: u64,
        access: Access,
    ) -> Result<Mr, RegMrError> {
        let extent = self.extent_of(region, iova, access)?;
        let limit = self.limits.max_mr;
        if self.mrs >= limit {
            return Err(RegMrError::TooMany { limit });
        }
        self.retain_pd(pd).map_err(|_: PdError| RegMrError::UnknownPd)?;
        self.mrs += 1;
        let kind = Kind::Mr { windows: 0 };
        let (id, key) = self.register(Registration { key: 0, pd, kind, extent: Some(extent) });
        Ok(mr(id, key))
    }

    /// Changes a region that no window is bound to. A new translation brings new keys and ends
    /// the old ones; other changes keep the keys.
    ///
    /// # Errors
    /// [`ReregError`]; the region then is as it was.
    pub fn rereg_mr(&mut self, id: MrId, change: Rereg) -> Result<Mr, ReregError> {
        let (windows, old) = self.mr_extent(id).ok_or(ReregError::Unknown)?;
        if windows > 0 {
            return Err(ReregError::Busy { windows });
        }
        let (access, moved) = (change.access.unwrap_or(old.access), change.translation.is_some());
        let (region, iova) = change.translation.unwrap_or((old.region.clone(), old.start));
        let extent = self.extent_of(region, iova, access)?;
        if let Some(pd) = change.pd {
            self.change_pd(id, pd)?;
        }
        if moved {
            self.rekey(id.0);
        }
        let entry = self.registrations.get_mut(id.0).ok_or(ReregError::Unknown)?;
        entry.extent = Some(extent);
        Ok(mr(id.0, entry.key))
    }

    /// Ends a registration; its key is never valid again. The memory itself lives as long as
    /// other handles of it.
    ///
    /// # Errors
    /// [`DeregError::Busy`] while windows are bound (B40), [`DeregError::Unknown`].
    pub fn dereg_mr(&mut self, id: MrId) -> Result<(), DeregError> {
        match self.mr_extent(id).ok_or(DeregError::Unknown)?.0 {
            0 => {
                self.unregister(id.0);
                self.mrs -= 1;
                Ok(())
            }
            windows => Err(DeregError::Busy { windows }),
        }
    }

    /// Keys of a region as they are now; `None` if it does not exist.
    pub fn mr(&self, id: MrId) -> Option<Mr> {
        self.mr_extent(id)?;
        Some(mr(id.0, self.registrations.get(id.0)?.key))
    }

    /// The region at this [`place`](MrId::place).
    pub fn mr_at(&self, place: u32) -> Option<Mr> {
        self.mr(MrId(self.registrations.at(place)?.0))
    }

    /// All regions.
    pub fn mrs(&self) -> impl Iterator<Item = MrInfo> {
        self.registrations.iter().filter_map(|(id, entry)| match (&entry.kind, &entry.extent) {
            (Kind::Mr { .. }, Some(extent)) => Some(MrInfo {
                mr: mr(id, entry.key),
                pd: entry.pd,
                iova: extent.start,
                len: extent.length,
                access: extent.access,
            }),
            _ => None,
        })
    }

    fn extent_of(&self, region: Region, iova: u64, access: Access) -> Result<Extent, RegMrError> {
        let bits = access.bits();
        let access = access.sanitised().ok_or(RegMrError::UnknownAccess { bits })?;
        if access.intersects(Access::REMOTE_CHANGE) && !access.contains(Access::LOCAL_WRITE) {
            return Err(RegMrError::NeedsLocalWrite);
        }
        if access.contains(Access::FLUSH_PERSISTENT) {
            return Err(RegMrError::NotPersistent);
        }
        let (len, limit) = (region.len() as u64, self.limits.max_mr_size);
        if len > limit {
            return Err(RegMrError::TooLarge { len, limit });
        }
        let start = if access.contains(Access::ZERO_BASED) { 0 } else { iova };
        Extent::whole(region, start, access).ok_or(RegMrError::AddressWrap { iova, len })
    }

    fn change_pd(&mut self, id: MrId, pd: PdId) -> Result<(), RegMrError> {
        self.retain_pd(pd).map_err(|_: PdError| RegMrError::UnknownPd)?;
        if let Some(entry) = self.registrations.get_mut(id.0) {
            let old = std::mem::replace(&mut entry.pd, pd);
            self.pd_lost_user(old);
        }
        Ok(())
    }

    /// The memory of a region, and what may be done with it.
    pub fn region_of(&self, id: MrId) -> Option<(Region, Access)> {
        let (_, extent) = self.mr_extent(id)?;
        Some((extent.region.clone(), extent.access))
    }

    /// The extent of a region and the number of windows bound to it.
    pub(crate) fn mr_extent(&self, id: MrId) -> Option<(u32, &Extent)> {
        let entry = self.registrations.get(id.0)?;
        match (&entry.kind, &entry.extent) {
            (Kind::Mr { windows }, Some(extent)) => Some((*windows, extent)),
            _ => None,
        }
    }

    /// Puts a registration in and gives it a key.
    pub(crate) fn register(&mut self, registration: Registration) -> (u64, u32) {
        let id = self.registrations.insert(registration);
        let key = self.keys.issue(place(id));
        if let Some(entry) = self.registrations.get_mut(id) {
            entry.key = key;
        }
        (id, key)
    }

    /// Takes a registration out; its key rests.
    pub(crate) fn unregister(&mut self, id: u64) {
        if let Some(gone) = self.registrations.remove(id) {
            self.keys.retire(gone.key);
            self.pd_lost_user(gone.pd);
        }
    }

    /// Replaces the whole key of a registration.
    pub(crate) fn rekey(&mut self, id: u64) {
        if let Some(entry) = self.registrations.get_mut(id) {
            self.keys.retire(entry.key);
            entry.key = self.keys.issue(place(id));
        }
    }

    fn pd_lost_user(&mut self, pd: PdId) {
        self.release_pd(pd).expect("a domain outlives its users");
    }
}

fn mr(id: u64, key: u32) -> Mr {
    Mr { id: MrId(id), lkey: Lkey(key), rkey: Rkey(key) }
}

debug_is_display!(RegMrError, ReregError, DeregError);
