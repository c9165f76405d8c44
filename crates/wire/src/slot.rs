//! Slots: which of the processes on one address a queue pair belongs to.

use core::fmt;
use core::num::NonZeroU8;

use crate::Qpn;

/// The place of a process among those that share one address: the upper 8 bits of its queue pair
/// numbers.
///
/// 0 belongs to no process, so that QP 0 and QP 1 do not, and 255 neither: all its bits are set in the
/// multicast QPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(NonZeroU8);

/// Bits of a QPN behind the slot.
const LOW_BITS: u32 = 16;

impl Slot {
    /// How many there are on one address.
    pub const COUNT: usize = 254;
    /// Queue pair numbers of one slot.
    pub const QPNS: usize = 1 << LOW_BITS;
    /// Where a packet has the slot of its destination: the byte of the BTH with the upper bits of the
    /// QPN.
    pub const OFFSET: usize = 5;

    /// The slot with that number, 1 to 254.
    #[inline]
    pub const fn new(number: u8) -> Option<Self> {
        match NonZeroU8::new(number) {
            Some(number) if number.get() < u8::MAX => Some(Slot(number)),
            _ => None,
        }
    }

    /// Its number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0.get()
    }

    /// All slots in order.
    pub fn all() -> impl Iterator<Item = Slot> {
        (0..=u8::MAX).filter_map(Slot::new)
    }

    /// The slot that a QPN belongs to; `None` for the numbers that belong to no process.
    #[inline]
    pub const fn of(qpn: Qpn) -> Option<Self> {
        Slot::new((qpn.get() >> LOW_BITS) as u8)
    }

    /// A QPN of this slot.
    #[inline]
    pub const fn qpn(self, low: u16) -> Qpn {
        Qpn::new((self.get() as u32) << LOW_BITS | low as u32)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bth, Header, Opcode, Psn};

    #[test]
    fn the_numbers_without_a_process_have_no_slot() {
        for qpn in [Qpn::SMI, Qpn::GSI, Qpn::MULTICAST] {
            assert_eq!(Slot::of(qpn), None);
        }
        assert_eq!(Slot::all().count(), Slot::COUNT);
        assert_eq!((Slot::new(0), Slot::new(255)), (None, None));
    }

    #[test]
    fn every_qpn_of_a_slot_leads_back_to_it() {
        for slot in Slot::all() {
            for low in [0, 1, 0x8000, 0xffff] {
                assert_eq!(Slot::of(slot.qpn(low)), Some(slot));
                assert_eq!(slot.qpn(low).get() & 0xffff, u32::from(low));
            }
        }
    }

    #[test]
    fn the_slot_of_a_packet_is_one_byte_of_it() {
        for slot in Slot::all() {
            let mut bytes = [0; 12];
            let bth = Bth::new(Opcode::RC_SEND_ONLY, slot.qpn(0xabcd), Psn::new(0));
            bth.write(&mut bytes).expect("room");
            assert_eq!(bytes[Slot::OFFSET], slot.get());
        }
    }
}
