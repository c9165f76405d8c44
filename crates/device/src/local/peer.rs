//! Engines of the process by their endpoint of an in-process switch.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use uroce_datapath::LoopbackEndpoint;
use uroce_memory::MrSlice;
use uroce_transport::{Arrival, Run};

use super::PendingPeers;
use super::assist::Assist;
use crate::engines::shared::Shared;

/// The engines that other devices of the process may use. An entry ends with its device.
static PEERS: RwLock<BTreeMap<LoopbackEndpoint, Arc<LocalPeer>>> = RwLock::new(BTreeMap::new());

/// An engine on an in-process switch, as other devices of the process see it.
pub(crate) struct LocalPeer {
    endpoint: LoopbackEndpoint,
    /// Locked while another device uses the engine.
    engine: Mutex<Weak<Shared>>,
}

impl LocalPeer {
    pub(super) fn endpoint(&self) -> &LoopbackEndpoint {
        &self.endpoint
    }

    /// Wakes the progress thread of the engine if it sleeps.
    pub(crate) fn wake(&self) {
        self.endpoint.wake();
    }

    /// Polls the engine, and wakes its progress thread when that is not possible. After
    /// [`Assist::Again`] and [`Assist::Later`] the caller comes again or [wakes](Self::wake) it.
    pub(super) fn assist(&self, further: &mut PendingPeers) -> Assist {
        let poll = |engine: &Shared| engine.poll_for_peer(further);
        let allowed = self.endpoint.is_assisted();
        let outcome = if allowed { self.with_engine(poll) } else { None };
        match outcome.unwrap_or(Assist::Busy) {
            Assist::Busy => {
                self.wake();
                Assist::Busy
            }
            // Another device has sent more meanwhile.
            Assist::Done if self.endpoint.has_packets() => Assist::Again,
            outcome => outcome,
        }
    }

    /// Hands over a run of packets at once. Never waits. False, with nothing changed, if the packets
    /// have to be sent one by one.
    pub(super) fn receive_run(&self, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool {
        self.with_engine(|engine| engine.receive_run(arrival, run, payload)) == Some(true)
    }

    /// Calls `call` with the engine, unless another device uses it now.
    fn with_engine<T>(&self, call: impl FnOnce(&Shared) -> T) -> Option<T> {
        let engine = self.engine.try_lock().ok()?;
        // Dropped before the lock is released: see `unregister`.
        let engine = engine.upgrade()?;
        Some(call(&engine))
    }
}

impl fmt::Debug for LocalPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalPeer").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Lets other devices of the process find this engine, if it is on an in-process switch.
pub(crate) fn register(engine: &Arc<Shared>) {
    let Some(endpoint) = engine.lock().local_endpoint() else { return };
    let peer = LocalPeer { endpoint: endpoint.clone(), engine: Mutex::new(Arc::downgrade(engine)) };
    let mut peers = PEERS.write().unwrap_or_else(PoisonError::into_inner);
    peers.insert(endpoint, Arc::new(peer));
}

/// Undoes [`register`]. When it returns, no other device uses the engine.
pub(crate) fn unregister(engine: &Shared) {
    let Some(endpoint) = engine.lock().local_endpoint() else { return };
    let peer = PEERS.write().unwrap_or_else(PoisonError::into_inner).remove(&endpoint);
    if let Some(peer) = peer {
        *peer.engine.lock().unwrap_or_else(PoisonError::into_inner) = Weak::new();
    }
}

/// The engine with this endpoint; `None` if there is none, or if the registry is being changed.
pub(super) fn find(endpoint: &LoopbackEndpoint) -> Option<Arc<LocalPeer>> {
    PEERS.try_read().ok()?.get(endpoint).cloned()
}
