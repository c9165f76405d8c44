//! A slab whose indices carry a stamp, so that the id of a removed entry does not name the entry
//! that took its place.
#![forbid(unsafe_code)]

use slab::Slab;

/// Most entries a [`StampedSlab`] may hold.
pub(crate) const MAX_ENTRIES: u32 = 1 << 21;

/// A slab; an id is a place (low half) and a stamp (high half) that moves on with every insertion.
pub(crate) struct StampedSlab<T> {
    entries: Slab<(u64, T)>,
    stamp: u32,
}

/// The place in an id, which is also what a key names.
#[inline]
pub(crate) fn place(id: u64) -> u32 {
    id as u32
}

impl<T> StampedSlab<T> {
    pub(crate) fn new() -> Self {
        StampedSlab { entries: Slab::new(), stamp: 0 }
    }

    /// Puts `value` in and returns its id. The caller keeps `len()` below [`MAX_ENTRIES`].
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        assert!(
            self.entries.len() < MAX_ENTRIES as usize,
            "the limits bound the number of entries"
        );
        self.stamp = self.stamp.wrapping_add(1);
        let entry = self.entries.vacant_entry();
        let id = u64::from(self.stamp) << 32 | entry.key() as u64;
        entry.insert((id, value));
        id
    }

    /// What is at a place, and its id.
    #[inline]
    pub(crate) fn at(&self, place: u32) -> Option<(u64, &T)> {
        self.entries.get(place as usize).map(|(id, value)| (*id, value))
    }

    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        match self.entries.get(place(id) as usize) {
            Some((stamped, value)) if *stamped == id => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        match self.entries.get_mut(place(id) as usize) {
            Some((stamped, value)) if *stamped == id => Some(value),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        self.get(id)?;
        Some(self.entries.remove(place(id) as usize).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Ids and values, in the order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().map(|(_, (id, value))| (*id, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_does_not_name_the_successor() {
        let mut slab = StampedSlab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(second, &'b')]);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn any_number_is_a_safe_id() {
        let mut slab = StampedSlab::new();
        slab.insert(());
        assert_eq!([0, 1, u64::MAX, 1 << 63].map(|id| slab.get(id)), [None; 4]);
    }
}
