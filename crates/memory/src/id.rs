//! Names of the objects in a table. Local only: they never go on the wire.
#![forbid(unsafe_code)]

/// Names a protection domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PdId(pub(crate) u32);

/// Names a memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MrId(pub(crate) u32);

/// Names a memory window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MwId(pub(crate) u32);

impl PdId {
    /// The number behind the name, for display and for C handles.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl MrId {
    /// The number behind the name, for display and for C handles.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl MwId {
    /// The number behind the name, for display and for C handles.
    pub fn get(self) -> u32 {
        self.0
    }
}
