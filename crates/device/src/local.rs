//! Devices of one process on one in-process switch, which spare each other work
//! (docs/adr/019-visits.md, docs/adr/020-one-copy.md).
//!
//! - [`assist`]: a thread that has sent packets to another device polls the engine of that device;
//! - [`bulk_copy`]: the middle of a long message is copied from memory region to memory region;
//! - [`peer`]: the registry by which engines find each other;
//! - [`datapath`]: the datapath of an engine, of which this folder needs the switch by its own type.

mod assist;
mod bulk_copy;
mod datapath;
mod peer;
mod pending;

use std::sync::Arc;

pub(crate) use assist::AssistPolicy;
pub(crate) use datapath::EngineDatapath;
pub(crate) use peer::{LocalPeer, register, unregister};
pub(crate) use pending::PendingPeers;
use uroce_datapath::LoopbackEndpoint;

/// What an engine records about other devices of the process.
#[derive(Debug, Default)]
pub(crate) struct LocalState {
    /// Peers that have been sent packets, and are polled after the lock of this engine is released.
    pub(crate) pending: PendingPeers,
    /// Whether threads of other devices may poll this engine.
    policy: AssistPolicy,
    /// The engine is being polled by a thread of another device, which holds no other engine.
    being_assisted: bool,
    /// Messages may be copied in bulk.
    pub(crate) copies_in_bulk: bool,
    /// The last peer; most traffic has one.
    last: Option<Arc<LocalPeer>>,
}

impl LocalState {
    /// The state of an engine with this datapath, from which the engine takes over the wake-up of
    /// peers.
    pub(crate) fn of(datapath: &mut EngineDatapath) -> Self {
        if let EngineDatapath::Local(local) = datapath {
            local.defer_wakeups();
        }
        LocalState { copies_in_bulk: datapath.may_be_bypassed(), ..LocalState::default() }
    }

    /// The peer with this endpoint, if it is registered.
    fn peer(&mut self, endpoint: &LoopbackEndpoint) -> Option<&Arc<LocalPeer>> {
        if self.last.as_ref().is_none_or(|last| last.endpoint() != endpoint) {
            self.last = Some(peer::find(endpoint)?);
        }
        self.last.as_ref()
    }

    /// Adds a peer that got packets and was not woken.
    fn add_pending(&mut self, endpoint: &LoopbackEndpoint) {
        let Some(peer) = self.peer(endpoint).map(Arc::clone) else {
            endpoint.wake();
            return;
        };
        self.pending.push(peer);
    }
}
