//! All registrations of a device, by their ids and by their keys.
#![forbid(unsafe_code)]

use crate::access_error::AccessError;
use crate::keys::Keys;
use crate::registration::{Extent, Registration, RegistrationKind};
use crate::stamped::{StampedSlab, place};
use crate::window::MwType;

/// Regions and windows. Each has a key of its own as long as it exists.
pub(crate) struct Registrations {
    entries: StampedSlab<Registration>,
    keys: Keys,
}

impl Registrations {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Registrations { entries: StampedSlab::new(), keys: Keys::new(seed) }
    }

    /// Puts a registration in and gives it a key.
    pub(crate) fn insert(&mut self, registration: Registration) -> (u64, u32) {
        let id = self.entries.insert(registration);
        let key = self.keys.issue(place(id));
        if let Some(entry) = self.entries.get_mut(id) {
            entry.key = key;
        }
        (id, key)
    }

    /// Takes a registration out; its key rests.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Registration> {
        let gone = self.entries.remove(id)?;
        self.keys.retire(gone.key);
        Some(gone)
    }

    /// The registration with this key, and its id.
    #[inline]
    pub(crate) fn named(&self, key: u32) -> Result<(u64, &Registration), AccessError> {
        let found = self.keys.find(key).and_then(|place| self.entries.at(place));
        found.ok_or(AccessError::UnknownKey { key })
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Registration> {
        self.entries.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Registration> {
        self.entries.get_mut(id)
    }

    pub(crate) fn at(&self, place: u32) -> Option<(u64, &Registration)> {
        self.entries.at(place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Registration)> {
        self.entries.iter()
    }

    /// The extent of a region and the number of windows bound to it.
    pub(crate) fn mr(&self, id: u64) -> Option<(u32, &Extent)> {
        let entry = self.entries.get(id)?;
        match (&entry.kind, &entry.extent) {
            (RegistrationKind::Mr { windows }, Some(extent)) => Some((*windows, extent)),
            _ => None,
        }
    }

    pub(crate) fn mw(&self, id: u64) -> Option<(MwType, &Registration)> {
        let entry = self.entries.get(id)?;
        match entry.kind {
            RegistrationKind::Mw { mw_type, .. } => Some((mw_type, entry)),
            RegistrationKind::Mr { .. } => None,
        }
    }

    /// Replaces the whole key of a registration.
    pub(crate) fn rekey(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(id) {
            self.keys.retire(entry.key);
            entry.key = self.keys.issue(place(id));
        }
    }

    /// Replaces the variant of the key of a registration: `new` has its index.
    pub(crate) fn revary(&mut self, id: u64, new: u32) {
        if let Some(entry) = self.entries.get_mut(id) {
            let old = std::mem::replace(&mut entry.key, new);
            self.keys.revary(old, new);
        }
    }

    /// Gives a window, which is not bound, the bytes of `extent`, a part of the region `mr`.
    pub(crate) fn bind(&mut self, id: u64, mr: u64, qpn: u32, extent: Extent) {
        if let Some(window) = self.entries.get_mut(id)
            && let RegistrationKind::Mw { mw_type, .. } = window.kind
        {
            window.extent = Some(extent);
            window.kind = RegistrationKind::Mw { mw_type, mr, qpn };
            self.count_window(mr, 1);
        }
    }

    /// Takes its bytes from a window, if it has some.
    pub(crate) fn unbind(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        if let RegistrationKind::Mw { mr, .. } = entry.kind
            && entry.extent.take().is_some()
        {
            self.count_window(mr, -1);
        }
    }

    /// Counts a window of a region in (1) or out (-1).
    fn count_window(&mut self, mr: u64, by: i32) {
        let entry = self.entries.get_mut(mr).map(|entry| &mut entry.kind);
        let Some(RegistrationKind::Mr { windows }) = entry else {
            unreachable!("a region outlives the windows bound to it")
        };
        *windows = windows.checked_add_signed(by).expect("each unbind follows a bind");
    }
}
