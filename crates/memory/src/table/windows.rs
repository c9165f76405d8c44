//! Memory windows: made, bound to a part of a region, unbound, freed.
#![forbid(unsafe_code)]

use super::MemTable;
use crate::access_error::AccessError;
use crate::bind::{BindError, MwBind};
use crate::id::{MwId, PdId};
use crate::invalidate::{InvalidateError, check_invalidate};
use crate::key::Rkey;
use crate::mutation::mutated;
use crate::pd::PdError;
use crate::registration::{Registration, RegistrationKind, Requirer};
use crate::window::{AllocMwError, DeallocMwError, Mw, MwType};

impl MemTable {
    /// Makes an unbound window.
    ///
    /// # Errors
    /// [`AllocMwError`].
    pub fn alloc_mw(&mut self, pd: PdId, mw_type: MwType) -> Result<Mw, AllocMwError> {
        let limit = self.limits.max_mw;
        if self.mws >= limit {
            return Err(AllocMwError::TooMany { limit });
        }
        self.pds.retain(pd).map_err(|_: PdError| AllocMwError::UnknownPd)?;
        self.mws += 1;
        let kind = RegistrationKind::Mw { mw_type, mr: 0, qpn: 0 };
        let (id, key) = self.registrations.insert(Registration { key: 0, pd, kind, extent: None });
        Ok(Mw { id: MwId(id), rkey: Rkey(key) })
    }

    /// Frees a window, bound or not; its key is never valid again.
    ///
    /// # Errors
    /// [`DeallocMwError::Unknown`].
    pub fn dealloc_mw(&mut self, id: MwId) -> Result<(), DeallocMwError> {
        self.registrations.mw(id.0).ok_or(DeallocMwError::Unknown)?;
        self.registrations.unbind(id.0);
        self.remove(id.0);
        self.mws -= 1;
        Ok(())
    }

    /// Key of a window as it is now; `None` if it does not exist.
    pub fn mw(&self, id: MwId) -> Option<Mw> {
        let (_, entry) = self.registrations.mw(id.0)?;
        Some(Mw { id, rkey: Rkey(entry.key) })
    }

    /// Binds a window to a part of a region (R94) and returns its key; every older key of the
    /// window is dead then (R95). A type 1 window that is bound moves; a type 2B window must be
    /// invalidated first, and may get the same key again (B40).
    ///
    /// # Errors
    /// [`BindError`]; the window then is as it was.
    pub fn bind_mw(&mut self, bind: &MwBind) -> Result<Rkey, BindError> {
        let (mw_type, window) = self.registrations.mw(bind.mw.0).ok_or(BindError::UnknownMw)?;
        bind.check(mw_type, window)?;
        if bind.length == 0 {
            if !mutated("unbind-forgotten") {
                self.registrations.unbind(bind.mw.0);
            }
            return Ok(self.change_key(mw_type, bind));
        }
        let unknown = BindError::UnknownMr { lkey: bind.mr };
        let (id, mr) = self.registrations.named(bind.mr.0).map_err(|_: AccessError| unknown)?;
        let extent = bind.extent(mw_type, mr)?;
        self.registrations.unbind(bind.mw.0);
        self.registrations.bind(bind.mw.0, id, bind.qpn, extent);
        Ok(self.change_key(mw_type, bind))
    }

    /// Gives a window that was just bound (or unbound) its key.
    fn change_key(&mut self, mw_type: MwType, bind: &MwBind) -> Rkey {
        match mw_type {
            MwType::Type1 if !self.is_other_variant(bind) => self.registrations.rekey(bind.mw.0),
            MwType::Type1 | MwType::Type2B => self.registrations.revary(bind.mw.0, bind.new_rkey.0),
        }
        self.mw(bind.mw).expect("the caller has just found this window").rkey
    }

    /// Callers of `ibv_bind_mw` must know the new key before the bind is done.
    fn is_other_variant(&self, bind: &MwBind) -> bool {
        let current = self.mw(bind.mw).map(|mw| mw.rkey);
        current.is_some_and(|now| now.index() == bind.new_rkey.index() && now != bind.new_rkey)
    }

    /// Ends the binding of a type 2B window, for a LOCAL_INV work request or (`remote`) for a
    /// SEND_WITH_INVALIDATE. Type 1 windows and regions are refused either way, as are windows
    /// of another domain or queue pair (R41, B24).
    ///
    /// # Errors
    /// [`InvalidateError`], with nothing changed.
    pub fn invalidate(
        &mut self,
        rkey: Rkey,
        pd: PdId,
        qpn: u32,
        remote: bool,
    ) -> Result<(), InvalidateError> {
        let unknown = InvalidateError::UnknownKey { rkey };
        let (id, entry) = self.registrations.named(rkey.0).map_err(|_: AccessError| unknown)?;
        check_invalidate(entry, Requirer { pd, qpn }, remote)?;
        self.registrations.unbind(id);
        Ok(())
    }

    /// Unbinds the type 2B windows of a queue pair that is being destroyed, so that a later
    /// queue pair with the same number does not inherit them. Returns how many there were.
    pub fn unbind_windows_of(&mut self, qpn: u32) -> usize {
        if self.mws == 0 {
            return 0;
        }
        let owned = |r: &Registration| {
            r.extent.is_some()
                && matches!(r.kind, RegistrationKind::Mw { mw_type: MwType::Type2B, qpn: q, .. } if q == qpn)
        };
        let ids: Vec<u64> =
            self.registrations.iter().filter(|(_, r)| owned(r)).map(|(id, _)| id).collect();
        ids.iter().for_each(|&id| self.registrations.unbind(id));
        ids.len()
    }
}
