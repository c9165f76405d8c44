//! All registrations of a device, by their ids and by their keys; where keys come from and how they are found again.
//!
//! # Drawing
//!
//! All 32 bits of a key are drawn from ChaCha20; no counter or cipher of our own lies between
//! the generator and the wire, so knowing any number of keys says nothing about the next beyond
//! which places of the table are taken. A draw is thrown away when its index is 0 (so that no
//! variant can make key 0), when its place is occupied, or when its index is in quarantine. The
//! table is kept at most half full, so at least half of all 2^32 keys can come next: 31 bits of
//! min-entropy less the quarantine's thousandth part (A6 asks for 24).
//!
//! # Finding
//!
//! The place of a key is its index modulo the size of the table, a power of two. Because a
//! colliding draw is thrown away there is never a second place to look at: a look-up is one
//! masked load and one compare of all 32 bits. A wrong index and a right index with a wrong
//! variant fail in that same compare (A5: no timing oracle). When the table doubles, keys with
//! different places keep different places.
//!
//! # Quarantine
//!
//! A retired index stays in a FIFO until [`QUARANTINE`] others have followed it; while it is
//! there no key with that index, of any variant, is drawn (A7).
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::access_error::AccessError;
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

/// Retired indices that are remembered.
const QUARANTINE: usize = 1 << 14;

/// Places in a fresh table.
const FIRST_PLACES: usize = 16;

/// A place of the table; key 0 marks an empty one.
#[derive(Clone, Copy)]
struct Slot {
    key: u32,
    target: u32,
}

const EMPTY: Slot = Slot { key: 0, target: 0 };

/// Live keys, each with the number of what it names.
struct Keys {
    places: Vec<Slot>,
    live: usize,
    rng: ChaCha20Rng,
    retired: VecDeque<u32>,
    resting: BTreeSet<u32>,
}

impl Keys {
    fn new(seed: [u8; 32]) -> Self {
        Keys {
            places: vec![EMPTY; FIRST_PLACES],
            live: 0,
            rng: ChaCha20Rng::from_seed(seed),
            retired: VecDeque::new(),
            resting: BTreeSet::new(),
        }
    }

    /// Draws a new key for `target`.
    fn issue(&mut self, target: u32) -> u32 {
        self.make_room();
        let key = self.draw();
        let place = self.place(key);
        self.places[place] = Slot { key, target };
        self.live += 1;
        key
    }

    /// Ends the life of `key` and puts its index into quarantine.
    fn retire(&mut self, key: u32) {
        let place = self.place(key);
        assert!(key != 0 && self.places[place].key == key, "only a live key is retired");
        self.places[place] = EMPTY;
        self.live -= 1;
        self.retired.push_back(key >> 8);
        self.resting.insert(key >> 8);
        if self.retired.len() > QUARANTINE
            && let Some(index) = self.retired.pop_front()
        {
            self.resting.remove(&index);
        }
    }

    /// Replaces the variant of a live key: both have the same index.
    fn revary(&mut self, old: u32, new: u32) {
        assert!(old >> 8 == new >> 8, "a variant is the low 8 bits");
        let place = self.place(old);
        assert!(self.places[place].key == old, "only a live key changes its variant");
        self.places[place].key = new;
    }

    /// What `key` names. Key 0 and every key that is not live name nothing.
    #[inline]
    fn find(&self, key: u32) -> Option<u32> {
        let place = self.places[self.place(key)];
        if (place.key != key) | (key == 0) { None } else { Some(place.target) }
    }

    #[inline]
    fn place(&self, key: u32) -> usize {
        (key >> 8) as usize & (self.places.len() - 1)
    }

    fn draw(&mut self) -> u32 {
        loop {
            let key = self.rng.next_u32();
            let index = key >> 8;
            let taken = self.places[self.place(key)].key != 0;
            if index != 0 && !taken && !self.resting.contains(&index) {
                return key;
            }
        }
    }

    /// Doubles the table when one more key would make it more than half full.
    fn make_room(&mut self) {
        if (self.live + 1) * 2 <= self.places.len() {
            return;
        }
        let grown = vec![EMPTY; self.places.len() * 2];
        let old = std::mem::replace(&mut self.places, grown);
        for entry in old.into_iter().filter(|entry| entry.key != 0) {
            let place = self.place(entry.key);
            self.places[place] = entry;
        }
    }
}

#[cfg(test)]
mod tests;
