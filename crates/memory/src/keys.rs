//! Where keys come from and how they are found again.
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

/// Retired indices that are remembered.
pub(crate) const QUARANTINE: usize = 1 << 14;

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
pub(crate) struct Keys {
    places: Vec<Slot>,
    live: usize,
    rng: ChaCha20Rng,
    retired: VecDeque<u32>,
    resting: BTreeSet<u32>,
}

impl Keys {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Keys {
            places: vec![EMPTY; FIRST_PLACES],
            live: 0,
            rng: ChaCha20Rng::from_seed(seed),
            retired: VecDeque::new(),
            resting: BTreeSet::new(),
        }
    }

    /// Draws a new key for `target`.
    pub(crate) fn issue(&mut self, target: u32) -> u32 {
        self.make_room();
        let key = self.draw();
        let place = self.place(key);
        self.places[place] = Slot { key, target };
        self.live += 1;
        key
    }

    /// Ends the life of `key` and puts its index into quarantine.
    pub(crate) fn retire(&mut self, key: u32) {
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
    pub(crate) fn revary(&mut self, old: u32, new: u32) {
        assert!(old >> 8 == new >> 8, "a variant is the low 8 bits");
        let place = self.place(old);
        assert!(self.places[place].key == old, "only a live key changes its variant");
        self.places[place].key = new;
    }

    /// What `key` names. Key 0 and every key that is not live name nothing.
    #[inline]
    pub(crate) fn find(&self, key: u32) -> Option<u32> {
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
