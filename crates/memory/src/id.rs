//! Names of the objects in a table. Local only: they never go on the wire.
//!
//! A name holds the place of the object and a stamp that does not repeat for 2^32 objects, so the
//! name of a freed object does not name its successor.
#![forbid(unsafe_code)]

use crate::stamped::place;

/// Names a protection domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PdId(pub(crate) u64);

/// Number of a memory region inside its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MrId(pub(crate) u64);

/// Number of a memory window inside its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MwId(pub(crate) u64);

impl PdId {
    /// The number behind the name, for display.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Its place in the table, a small number that no other one has as long as it exists (`handle` in C).
    pub fn place(self) -> u32 {
        place(self.0)
    }
}

impl MrId {
    /// The number behind the name, for display.
    pub fn get(self) -> u64 {
        self.0
    }

    /// Its place in the table, a small number that no other one has as long as it exists (`handle` in C).
    pub fn place(self) -> u32 {
        place(self.0)
    }
}

impl MwId {
    /// The number behind the name, for display.
    pub fn get(self) -> u64 {
        self.0
    }
}
