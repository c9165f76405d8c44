//! Which number a new queue pair gets: unpredictable, never reserved, not recently used (A8).

use std::collections::{HashSet, VecDeque};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use uroce_wire::{Qpn, Slot};

use crate::limits::{QPN_DRAWS, QPN_QUARANTINE, QPN_QUARANTINE_IN_SLOT};

/// Draws QPNs from a ChaCha20 stream and remembers those given back.
#[derive(Debug)]
pub(crate) struct QpnAllocator {
    rng: ChaCha20Rng,
    /// The upper 8 bits, where several processes share the address.
    slot: Option<Slot>,
    retired: VecDeque<u32>,
    retired_set: HashSet<u32>,
}

impl QpnAllocator {
    pub(crate) fn new(seed: [u8; 32], slot: Option<Slot>) -> Self {
        QpnAllocator {
            rng: ChaCha20Rng::from_seed(seed),
            slot,
            retired: VecDeque::new(),
            retired_set: HashSet::new(),
        }
    }

    /// A fresh QPN; `in_use` says which ones live. `None`: no free number within the draw limit.
    pub(crate) fn allocate(&mut self, in_use: impl Fn(Qpn) -> bool) -> Option<Qpn> {
        let QpnAllocator { rng, slot, retired_set, .. } = self;
        (0..QPN_DRAWS)
            .map(|_| draw(rng, *slot))
            .find(|&raw| !is_reserved(raw) && !retired_set.contains(&raw) && !in_use(Qpn::new(raw)))
            .map(Qpn::new)
    }

    fn quarantine(&self) -> usize {
        if self.slot.is_some() { QPN_QUARANTINE_IN_SLOT } else { QPN_QUARANTINE }
    }

    /// Puts the number of a destroyed queue pair into quarantine.
    pub(crate) fn retire(&mut self, qpn: Qpn) {
        if self.retired.len() >= self.quarantine()
            && let Some(oldest) = self.retired.pop_front()
        {
            self.retired_set.remove(&oldest);
        }
        if self.retired_set.insert(qpn.get()) {
            self.retired.push_back(qpn.get());
        }
        debug_assert_eq!(
            self.retired.len(),
            self.retired_set.len(),
            "the list and the set are one"
        );
        debug_assert!(self.retired.len() <= self.quarantine(), "the quarantine has a size");
    }
}

fn draw(rng: &mut ChaCha20Rng, slot: Option<Slot>) -> u32 {
    let random = rng.next_u32();
    slot.map_or(random >> 8, |slot| slot.qpn((random >> 16) as u16).get())
}

/// 0 (SMI), 1 (GSI) and 0xffffff (multicast) are reserved.
fn is_reserved(raw: u32) -> bool {
    raw == Qpn::SMI.get() || raw == Qpn::GSI.get() || raw == Qpn::MULTICAST.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_QP_IN_SLOT;

    fn draw(count: usize, seed: u8) -> Vec<u32> {
        let mut allocator = QpnAllocator::new([seed; 32], None);
        (0..count).filter_map(|_| allocator.allocate(|_| false)).map(Qpn::get).collect()
    }

    #[test]
    fn a8_never_reserved() {
        let drawn = draw(200_000, 1);
        assert_eq!(drawn.len(), 200_000);
        assert!(drawn.iter().all(|&raw| !is_reserved(raw) && raw < 1 << 24));
    }

    /// The correlation of each number with the one before it must be noise: below 4 sigma.
    #[test]
    fn a8_no_serial_correlation() {
        let drawn = draw(100_000, 2);
        let mean = f64::from(1u32 << 23);
        let centred: Vec<f64> = drawn.iter().map(|&raw| f64::from(raw) - mean).collect();
        let variance: f64 = centred.iter().map(|x| x * x).sum();
        let covariance: f64 = centred.windows(2).map(|w| w[0] * w[1]).sum();
        let correlation = covariance / variance;
        assert!(correlation.abs() < 4.0 / (drawn.len() as f64).sqrt(), "{correlation}");
    }

    #[test]
    fn a8_every_bit_is_fair() {
        let drawn = draw(100_000, 3);
        for bit in 0..24 {
            let ones = drawn.iter().filter(|&&raw| raw >> bit & 1 == 1).count();
            assert!((48_500..51_500).contains(&ones), "bit {bit}: {ones} of 100000");
        }
    }

    #[test]
    fn a8_other_seed_other_numbers() {
        assert_ne!(draw(4, 4), draw(4, 5));
    }

    #[test]
    fn a8_retired_numbers_wait() {
        let mut first = QpnAllocator::new([6; 32], None);
        let mut second = QpnAllocator::new([6; 32], None);
        let would_be = first.allocate(|_| false).expect("free");
        second.retire(would_be);
        assert_ne!(second.allocate(|_| false), Some(would_be));
    }

    #[test]
    fn a8_quarantine_is_bounded() {
        let mut allocator = QpnAllocator::new([7; 32], None);
        for raw in 0..QPN_QUARANTINE as u32 + 10 {
            allocator.retire(Qpn::new(raw + 2));
        }
        assert_eq!(allocator.retired.len(), QPN_QUARANTINE);
        assert_eq!(allocator.retired_set.len(), QPN_QUARANTINE);
    }

    /// The 16 bits in a slot are as unpredictable as 24, and as many as a device may have are found.
    #[test]
    fn a8_numbers_of_a_slot_stay_in_it_and_are_spread() {
        let slot = Slot::new(77).expect("a slot");
        let mut allocator = QpnAllocator::new([9; 32], Some(slot));
        let mut live = HashSet::new();
        for raw in 0..QPN_QUARANTINE_IN_SLOT as u16 {
            allocator.retire(slot.qpn(raw));
        }
        while live.len() < MAX_QP_IN_SLOT {
            let qpn = allocator.allocate(|qpn| live.contains(&qpn)).expect("half are free");
            assert_eq!(Slot::of(qpn), Some(slot));
            live.insert(qpn);
        }
        for bit in 0..16 {
            let ones = live.iter().filter(|qpn| qpn.get() >> bit & 1 == 1).count();
            // The lower quarter is in quarantine: two thirds of the rest have each upper bit set.
            let fair = if bit < 14 { MAX_QP_IN_SLOT / 2 } else { MAX_QP_IN_SLOT * 2 / 3 };
            assert!(ones.abs_diff(fair) < MAX_QP_IN_SLOT / 32, "bit {bit}: {ones}");
        }
    }

    #[test]
    fn a_full_space_ends_in_none() {
        let mut allocator = QpnAllocator::new([8; 32], None);
        assert_eq!(allocator.allocate(|_| true), None);
    }
}
