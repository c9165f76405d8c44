//! A slab whose indices carry a stamp, so that the id of a removed entry does not name the entry
//! that took its place.
#![forbid(unsafe_code)]

use slab::Slab;

/// Low bits of an id that are the place in the slab.
const PLACE_BITS: u32 = 21;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;

/// Most entries a [`StampedSlab`] can number.
pub(crate) const MAX_ENTRIES: u32 = 1 << PLACE_BITS;

/// A slab; an id is a place and, above it, a stamp that moves on with every insertion.
pub(crate) struct StampedSlab<T> {
    entries: Slab<(u32, T)>,
    stamp: u32,
}

impl<T> StampedSlab<T> {
    pub(crate) fn new() -> Self {
        StampedSlab {
            entries: Slab::new(),
            stamp: 0,
        }
    }

    /// Puts `value` in and returns its id. The caller keeps `len()` below [`MAX_ENTRIES`].
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        assert!(
            self.entries.len() < MAX_ENTRIES as usize,
            "the limits bound the number of entries"
        );
        self.stamp = self.stamp.wrapping_add(1 << PLACE_BITS);
        let entry = self.entries.vacant_entry();
        let id = self.stamp | entry.key() as u32;
        entry.insert((id, value));
        id
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        match self.entries.get((id & PLACE_MASK) as usize) {
            Some((stamped, value)) if *stamped == id => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self.entries.get_mut((id & PLACE_MASK) as usize) {
            Some((stamped, value)) if *stamped == id => Some(value),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        self.get(id)?;
        Some(self.entries.remove((id & PLACE_MASK) as usize).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Ids and values, in the order of places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
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
        assert_eq!(
            [0, 1, u32::MAX, PLACE_MASK].map(|id| slab.get(id)),
            [None; 4]
        );
    }
}
