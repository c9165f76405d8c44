//! Numbers of flows.

/// Number of a flow; the first one that is seen is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The flow of packets that found no place in the table of flows.
    pub const UNTRACKED: Self = Self(u32::MAX);
}
