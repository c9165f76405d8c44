//! The datapath of an engine.

use std::ops::{Deref, DerefMut};

use uroce_datapath::{Datapath, IcrcTx, LoopbackDatapath};

/// A datapath. That of an in-process switch keeps its type, as long as nothing is around it: engines
/// on such a switch can find each other.
pub(crate) enum EngineDatapath {
    /// An endpoint of an in-process switch.
    Local(Box<LoopbackDatapath>),
    /// Any other datapath.
    Other(Box<dyn Datapath>),
}

impl EngineDatapath {
    /// True if messages may be copied from memory region to memory region: nothing between the
    /// engines looks at packets, and their ICRC is not computed.
    pub(super) fn may_be_bypassed(&self) -> bool {
        matches!(self, EngineDatapath::Local(local) if local.caps().icrc.tx == IcrcTx::Skip)
    }

    /// The datapath without its type, to put another one around it.
    pub(crate) fn into_dyn(self) -> Box<dyn Datapath> {
        match self {
            EngineDatapath::Local(local) => local,
            EngineDatapath::Other(other) => other,
        }
    }
}

impl Deref for EngineDatapath {
    type Target = dyn Datapath;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            EngineDatapath::Local(local) => &**local,
            EngineDatapath::Other(other) => &**other,
        }
    }
}

impl DerefMut for EngineDatapath {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            EngineDatapath::Local(local) => &mut **local,
            EngineDatapath::Other(other) => &mut **other,
        }
    }
}
