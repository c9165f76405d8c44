//! Communication ids.

use std::fmt;

use uroce_wire::Slot;

/// A communication id: one side's number for a connection, chosen at random by that side. 0 stands for "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommId(pub u32);

/// Bits behind the slot.
const LOW_BITS: u32 = 24;
const LOW: u32 = (1 << LOW_BITS) - 1;

impl CommId {
    /// No id.
    pub const NONE: CommId = CommId(0);

    /// An id of the process that has `slot`: the upper 8 bits name it.
    pub const fn in_slot(slot: Slot, low: u32) -> CommId {
        CommId((slot.get() as u32) << LOW_BITS | low & LOW)
    }

    /// The process that gave it out, if several share the address.
    pub const fn slot(self) -> Option<Slot> {
        Slot::new((self.0 >> LOW_BITS) as u8)
    }
}

impl fmt::Display for CommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}
