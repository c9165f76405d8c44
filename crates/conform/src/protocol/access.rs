//! Rights that the tester asks for.

use serde::Serialize;

use super::fields::read_struct;

/// Rights of a region or a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Remote READ.
    pub read: bool,
    /// Remote WRITE; for a region local writing, too.
    pub write: bool,
    /// Remote atomics; for a region local writing, too.
    pub atomic: bool,
    /// FLUSH to global visibility.
    pub flush: bool,
    /// FLUSH to persistence.
    pub persist: bool,
    /// Memory windows may be bound to the region.
    pub bind: bool,
}

read_struct!(Access { read, write, atomic, flush, persist, bind });

impl Access {
    /// Nothing remote.
    pub const NONE: Access = Access {
        read: false,
        write: false,
        atomic: false,
        flush: false,
        persist: false,
        bind: false,
    };
    /// READ, WRITE and atomics.
    pub const ALL: Access = Access { read: true, write: true, atomic: true, ..Access::NONE };
    /// Remote READ.
    pub const READ: Access = Access { read: true, ..Access::NONE };
    /// Remote WRITE.
    pub const WRITE: Access = Access { write: true, ..Access::NONE };
}
