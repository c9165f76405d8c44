//! Random numbers of a simulation, all from its seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

/// The next number of SplitMix64, a generator that is quick and is not meant to be unpredictable.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// The stream `stream` of a seed. Streams of one seed are independent: what one of them draws
    /// does not change what the others draw.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Random(rng)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of the cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which are not empty.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// Bytes that differ from each other, for payloads: one number is drawn for all of them.
    pub(crate) fn fill_payload(&mut self, bytes: &mut [u8]) {
        let mut state = self.next();
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&split_mix(&mut state).to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_that_of_split_mix() {
        // The first numbers of SplitMix64 for the seed 0, as its reference implementation gives them.
        let mut state = 0;
        let numbers = [split_mix(&mut state), split_mix(&mut state)];
        assert_eq!(numbers, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn payloads_of_one_stream_differ() {
        let mut random = Random::new(1, 2);
        let (mut one, mut other) = ([0; 20], [0; 20]);
        random.fill_payload(&mut one);
        random.fill_payload(&mut other);
        assert_ne!(one, other);
        assert_ne!(one[16..], [0; 4], "the end that is no whole number is filled");
    }
}
