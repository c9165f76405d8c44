//! Engines of the process as other devices use them, by their endpoint of an in-process switch.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use uroce_datapath::LoopbackEndpoint;
use uroce_memory::MrSlice;
use uroce_transport::{Arrival, Run};

use crate::limits::MAX_ASSISTS;

/// Most peers of a list; further ones are woken at once.
const CAPACITY: usize = 4;

/// The engines that other devices of the process may use. An entry ends with its device.
static PEERS: RwLock<BTreeMap<LoopbackEndpoint, Arc<LocalPeer>>> = RwLock::new(BTreeMap::new());

/// An engine behind its lock, as threads of other devices use it. Neither call waits.
pub(crate) trait PeerEngine: Send + Sync {
    /// Polls the engine, unless it is in use. Peers that are sent packets by that are added to
    /// `further`.
    fn poll_for_peer(&self, further: &mut PendingPeers) -> Assist;

    /// Receives a run of packets from a device of this process, whose engine the caller holds.
    /// False, with nothing changed, if the packets have to be sent one by one.
    fn receive_run(&self, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool;
}

/// How a poll of a peer's engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assist {
    /// Nothing is left to do.
    Done,
    /// More packets are queued there.
    Again,
    /// The engine has more to send, once its receivers have read what it sent.
    Later,
    /// The engine is in use, or its policy forbids the poll.
    Busy,
}

/// An engine on an in-process switch, as other devices of the process see it.
pub(crate) struct LocalPeer {
    endpoint: LoopbackEndpoint,
    /// Locked while another device uses the engine.
    engine: Mutex<Option<Weak<dyn PeerEngine>>>,
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
    fn assist(&self, further: &mut PendingPeers) -> Assist {
        let poll = |engine: &dyn PeerEngine| engine.poll_for_peer(further);
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
    pub(crate) fn receive_run(&self, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool {
        self.with_engine(|engine| engine.receive_run(arrival, run, payload)) == Some(true)
    }

    /// Calls `call` with the engine, unless another device uses it now.
    fn with_engine<T>(&self, call: impl FnOnce(&dyn PeerEngine) -> T) -> Option<T> {
        let engine = self.engine.try_lock().ok()?;
        // Dropped before the lock is released: see `unregister`.
        let engine = engine.as_ref()?.upgrade()?;
        Some(call(&*engine))
    }
}

impl fmt::Debug for LocalPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalPeer").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// Lets other devices of the process find the engine with this endpoint.
pub(crate) fn register(endpoint: &LoopbackEndpoint, engine: Weak<dyn PeerEngine>) {
    let peer = LocalPeer { endpoint: endpoint.clone(), engine: Mutex::new(Some(engine)) };
    let mut peers = PEERS.write().unwrap_or_else(PoisonError::into_inner);
    peers.insert(endpoint.clone(), Arc::new(peer));
}

/// Undoes [`register`]. When it returns, no other device uses the engine.
pub(crate) fn unregister(endpoint: &LoopbackEndpoint) {
    let peer = PEERS.write().unwrap_or_else(PoisonError::into_inner).remove(endpoint);
    if let Some(peer) = peer {
        *peer.engine.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The engine with this endpoint; `None` if there is none, or if the registry is being changed.
pub(super) fn find(endpoint: &LoopbackEndpoint) -> Option<Arc<LocalPeer>> {
    PEERS.try_read().ok()?.get(endpoint).cloned()
}

/// A few peers, each once, in order.
#[derive(Debug, Default)]
pub(crate) struct PendingPeers {
    list: [Option<Arc<LocalPeer>>; CAPACITY],
    count: usize,
}

impl PendingPeers {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a peer; where there is no room, it is woken.
    pub(super) fn push(&mut self, peer: Arc<LocalPeer>) {
        if self.list[..self.count].iter().flatten().any(|known| Arc::ptr_eq(known, &peer)) {
            return;
        }
        match self.list.get_mut(self.count) {
            Some(free) => {
                debug_assert!(free.is_none(), "a place behind the last peer is free");
                *free = Some(peer);
                self.count += 1;
            }
            None => peer.wake(),
        }
    }

    /// Moves all of `others` behind these.
    pub(crate) fn append(&mut self, others: &mut PendingPeers) {
        while let Some(peer) = others.pop() {
            self.push(peer);
        }
    }

    fn pop(&mut self) -> Option<Arc<LocalPeer>> {
        let first = self.list[0].take()?;
        self.list.rotate_left(1);
        self.count -= 1;
        debug_assert!(self.list[self.count].is_none(), "as many peers as are counted");
        Some(first)
    }

    /// Polls the engines of these peers, and of those that get packets by that, as far as their
    /// policies allow and up to a limit. Those with more to do remain in the list. The caller holds
    /// no engine.
    pub(crate) fn assist(&mut self) {
        let mut left = PendingPeers::default();
        for _ in 0..MAX_ASSISTS {
            let Some(next) = self.pop() else { break };
            let mut further = PendingPeers::default();
            match next.assist(&mut further) {
                Assist::Done | Assist::Busy => {}
                Assist::Again => self.push(next),
                Assist::Later => left.push(next),
            }
            self.append(&mut further);
        }
        self.append(&mut left);
    }

    /// Wakes all of these peers, and empties the list.
    pub(crate) fn wake(&mut self) {
        while let Some(peer) = self.pop() {
            peer.wake();
        }
    }
}
