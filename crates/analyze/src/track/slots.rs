//! What was sent with the newest PSNs of a flow.

use super::UnwrappedPsn;
use crate::{Packet, Timestamp};

/// Slots of a flow that has just begun.
const FIRST_SLOTS: usize = 64;

/// One copy of a request, as it was captured.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Transmission {
    /// Number of its frame.
    pub(super) frame: u64,
    /// When it was seen.
    pub(super) time: Timestamp,
    /// Its IPv4 identification, if that is known.
    pub(super) ip_id: Option<u16>,
}

impl Transmission {
    pub(super) fn of(packet: &Packet) -> Self {
        Self { frame: packet.frame, time: packet.time, ip_id: packet.ip_id }
    }
}

/// One PSN that was seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// Set by [`Slots::put`]. 0 in a slot that is empty; no flow uses that number.
    pub(super) psn: UnwrappedPsn,
    /// The first transmission of a request.
    pub(super) first: Transmission,
    /// The newest copy of it.
    pub(super) last: Transmission,
    /// Payload that an acknowledgement of this PSN settles.
    pub(super) bytes: u32,
    /// Requests with this PSN that were seen; the count stays at 255.
    pub(super) copies: u8,
    /// Its response was seen.
    pub(super) answered: bool,
    /// Whether the request asked for an ACK when it was sent first.
    pub(super) ack_req: bool,
}

/// The newest PSNs, addressed by their low bits.
#[derive(Debug, Default)]
pub(super) struct Slots {
    ring: Vec<Slot>,
}

impl Slots {
    fn index(&self, psn: UnwrappedPsn) -> usize {
        psn.0 as usize & self.ring.len().wrapping_sub(1)
    }

    /// PSNs that fit.
    pub(super) fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// What is known about `psn`; `None` if it was not seen, or too long ago.
    pub(super) fn get(&self, psn: UnwrappedPsn) -> Option<&Slot> {
        self.ring.get(self.index(psn)).filter(|slot| slot.psn == psn && psn.0 != 0)
    }

    /// As [`Slots::get`].
    pub(super) fn get_mut(&mut self, psn: UnwrappedPsn) -> Option<&mut Slot> {
        let index = self.index(psn);
        self.ring.get_mut(index).filter(|slot| slot.psn == psn && psn.0 != 0)
    }

    /// Notes `slot` for `psn`, unless a newer PSN has its place.
    pub(super) fn put(&mut self, psn: UnwrappedPsn, slot: Slot) {
        let index = self.index(psn);
        if let Some(place) = self.ring.get_mut(index)
            && place.psn <= psn
        {
            *place = Slot { psn, ..slot };
        }
    }

    /// Makes room for `span` PSNs under way, `max` at most, and takes what it adds from `budget`.
    /// Rare: the room doubles each time.
    pub(super) fn reserve(&mut self, span: u64, max: usize, budget: &mut usize) {
        if !self.ring.is_empty() && span < self.ring.len() as u64 {
            return;
        }
        self.grow(span, max, budget);
    }

    #[cold]
    fn grow(&mut self, span: u64, max: usize, budget: &mut usize) {
        let wanted = usize::try_from(span.saturating_add(1)).unwrap_or(max).min(max);
        let size = wanted.max(FIRST_SLOTS.min(max)).next_power_of_two();
        let more = size.saturating_sub(self.ring.len());
        if more == 0 || more > *budget {
            return;
        }
        *budget -= more;
        let old = std::mem::replace(&mut self.ring, vec![Slot::default(); size]);
        old.into_iter().for_each(|slot| self.put(slot.psn, slot));
    }

    /// Forgets everything and keeps the room.
    pub(super) fn clear(&mut self) {
        self.ring.fill(Slot::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(frame: u64) -> Slot {
        Slot { first: Transmission { frame, ..Transmission::default() }, ..Slot::default() }
    }

    #[test]
    fn a_newer_psn_takes_the_place_of_an_older_one_and_not_the_reverse() {
        let mut slots = Slots::default();
        slots.reserve(1, 64, &mut 64);
        slots.put(UnwrappedPsn(100), slot(1));
        slots.put(UnwrappedPsn(164), slot(2));
        slots.put(UnwrappedPsn(100), slot(3));
        assert!(slots.get(UnwrappedPsn(100)).is_none());
        assert_eq!(slots.get(UnwrappedPsn(164)).map(|slot| slot.first.frame), Some(2));
    }

    #[test]
    fn growing_keeps_what_is_known_and_stops_at_its_limits() {
        let (mut slots, mut budget) = (Slots::default(), 256);
        slots.reserve(1, 1024, &mut budget);
        slots.put(UnwrappedPsn(70), slot(7));
        slots.reserve(200, 1024, &mut budget);
        assert_eq!((slots.capacity(), budget), (256, 0));
        assert_eq!(slots.get(UnwrappedPsn(70)).map(|slot| slot.first.frame), Some(7));
        slots.reserve(5000, 1024, &mut budget);
        assert_eq!(slots.capacity(), 256, "the budget of all flows is used up");
    }

    #[test]
    fn nothing_is_found_without_room() {
        let mut slots = Slots::default();
        slots.put(UnwrappedPsn(1), slot(1));
        assert!(slots.get(UnwrappedPsn(1)).is_none() && slots.get_mut(UnwrappedPsn(0)).is_none());
    }
}
