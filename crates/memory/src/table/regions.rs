//! Registering, re-registering and deregistering memory regions.
#![forbid(unsafe_code)]

use super::MemTable;
use crate::access::Access;
use crate::id::{MrId, PdId};
use crate::key::{Lkey, Rkey};
use crate::mr::{DeregError, Mr, MrInfo, RegMrError, Rereg, ReregError};
use crate::mutation::mutated;
use crate::pd::PdError;
use crate::raw::Region;
use crate::registration::{Extent, Registration, RegistrationKind};

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
        self.pds.retain(pd).map_err(|_: PdError| RegMrError::UnknownPd)?;
        self.mrs += 1;
        let kind = RegistrationKind::Mr { windows: 0 };
        let (id, key) =
            self.registrations.insert(Registration { key: 0, pd, kind, extent: Some(extent) });
        Ok(mr(id, key))
    }

    /// Changes a region that no window is bound to. A new translation brings new keys and ends
    /// the old ones; other changes keep the keys.
    ///
    /// # Errors
    /// [`ReregError`]; the region then is as it was.
    pub fn rereg_mr(&mut self, id: MrId, change: Rereg) -> Result<Mr, ReregError> {
        let (windows, old) = self.registrations.mr(id.0).ok_or(ReregError::Unknown)?;
        if windows > 0 {
            return Err(ReregError::Busy { windows });
        }
        let (access, moved) = (change.access.unwrap_or(old.access), change.translation.is_some());
        let kept = || match access.contains(Access::ON_DEMAND) {
            true => (old.region.clone().into_on_demand(), old.start),
            false => (old.region.clone(), old.start),
        };
        let (region, iova) = change.translation.unwrap_or_else(kept);
        let extent = self.extent_of(region, iova, access)?;
        if let Some(pd) = change.pd {
            self.change_pd(id, pd)?;
        }
        if moved {
            self.registrations.rekey(id.0);
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
        match self.registrations.mr(id.0).ok_or(DeregError::Unknown)?.0 {
            0 if mutated("key-lives-on") => Ok(()),
            0 => {
                self.remove(id.0);
                self.mrs -= 1;
                Ok(())
            }
            windows => Err(DeregError::Busy { windows }),
        }
    }

    /// Keys of a region as they are now; `None` if it does not exist.
    pub fn mr(&self, id: MrId) -> Option<Mr> {
        self.registrations.mr(id.0)?;
        Some(mr(id.0, self.registrations.get(id.0)?.key))
    }

    /// The region at this [`place`](MrId::place).
    pub fn mr_at(&self, place: u32) -> Option<Mr> {
        self.mr(MrId(self.registrations.at(place)?.0))
    }

    /// All regions.
    pub fn mrs(&self) -> impl Iterator<Item = MrInfo> {
        self.registrations.iter().filter_map(|(id, entry)| match (&entry.kind, &entry.extent) {
            (RegistrationKind::Mr { .. }, Some(extent)) => Some(MrInfo {
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
        self.pds.retain(pd).map_err(|_: PdError| RegMrError::UnknownPd)?;
        if let Some(entry) = self.registrations.get_mut(id.0) {
            let old = std::mem::replace(&mut entry.pd, pd);
            self.release_owned(old);
        }
        Ok(())
    }

    /// The memory of a region, and what may be done with it.
    pub fn region_of(&self, id: MrId) -> Option<(Region, Access)> {
        let (_, extent) = self.registrations.mr(id.0)?;
        Some((extent.region.clone(), extent.access))
    }
}

fn mr(id: u64, key: u32) -> Mr {
    Mr { id: MrId(id), lkey: Lkey(key), rkey: Rkey(key) }
}
