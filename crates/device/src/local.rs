//! Devices of one process on one in-process switch, which spare each other work
//! (docs/adr/019-visits.md, docs/adr/020-one-copy.md).
//!
//! A thread that has sent packets to another device of the process releases its own engine and then
//! polls that of the receiver: the packets are still in the cache of its processor, and no thread has
//! to wake up. The middle of a long message is copied from memory region to memory region.
//!
//! [`peer`] has engines as others use them, and the registry by which they are found.

mod peer;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub(crate) use peer::{Assist, LocalPeer, PeerEngine, PendingPeers, register, unregister};
use uroce_datapath::{Datapath, IcrcTx, LoopbackDatapath, LoopbackEndpoint};
use uroce_transport::Instant;

use crate::limits::SPIN_NS;

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
    fn may_be_bypassed(&self) -> bool {
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

/// Whether threads of other devices may poll an engine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AssistPolicy {
    /// Never: an engine without a progress thread works only when it is called.
    #[default]
    Never,
    /// Yes. The time of the last such poll.
    Allowed(Option<Instant>),
    /// Not now: the application polls, so its own thread has the engine in its cache.
    Busy,
}

/// What an engine records about other devices of the process.
#[derive(Debug, Default)]
pub(crate) struct LocalState {
    /// Peers that have been sent packets, and are polled after the lock of this engine is released.
    pub(crate) pending: PendingPeers,
    /// Messages may be copied in bulk.
    pub(crate) copies_in_bulk: bool,
    /// The endpoint of the engine, if it is on an in-process switch.
    endpoint: Option<LoopbackEndpoint>,
    /// Whether threads of other devices may poll this engine.
    policy: AssistPolicy,
    /// The engine is being polled by a thread of another device, which holds no other engine.
    being_assisted: bool,
    /// The last peer; most traffic has one.
    last: Option<Arc<LocalPeer>>,
}

impl LocalState {
    /// The state of an engine with this datapath, from which the engine takes over the wake-up of
    /// peers.
    pub(crate) fn of(datapath: &mut EngineDatapath) -> Self {
        let EngineDatapath::Local(local) = datapath else { return LocalState::default() };
        local.defer_wakeups();
        let endpoint = Some(local.endpoint().clone());
        LocalState { copies_in_bulk: datapath.may_be_bypassed(), endpoint, ..LocalState::default() }
    }

    /// The endpoint of the engine, if it is on an in-process switch.
    pub(crate) fn endpoint(&self) -> Option<&LoopbackEndpoint> {
        self.endpoint.as_ref()
    }

    /// Lists the peers that the last flushes have sent packets to without a wake-up.
    #[inline]
    pub(crate) fn collect_pending(&mut self, datapath: &mut EngineDatapath) {
        let EngineDatapath::Local(local) = datapath else { return };
        while let Some(endpoint) = local.next_unwoken() {
            self.add_pending(&endpoint);
        }
    }

    /// Adds a peer that got packets and was not woken.
    fn add_pending(&mut self, endpoint: &LoopbackEndpoint) {
        let Some(peer) = self.peer(endpoint).map(Arc::clone) else {
            endpoint.wake();
            return;
        };
        self.pending.push(peer);
    }

    /// The peer with this endpoint, if it is registered.
    fn peer(&mut self, endpoint: &LoopbackEndpoint) -> Option<&Arc<LocalPeer>> {
        if self.last.as_ref().is_none_or(|last| last.endpoint() != endpoint) {
            self.last = Some(peer::find(endpoint)?);
        }
        self.last.as_ref()
    }

    /// The peer at `to`, if no application polls its engine. A thread of another device that polls
    /// this engine may use the one it came from in any case.
    pub(crate) fn peer_for_copy(
        &mut self,
        datapath: &mut EngineDatapath,
        to: &SocketAddr,
    ) -> Option<Arc<LocalPeer>> {
        let EngineDatapath::Local(datapath) = datapath else { return None };
        let endpoint = datapath.find(to)?;
        if !self.being_assisted && !endpoint.is_assisted() {
            return None;
        }
        self.peer(endpoint).map(Arc::clone)
    }

    /// From now on threads of other devices may poll the engine: the application does not.
    pub(crate) fn allow_assist(&mut self) {
        if !self.allows_assist() {
            self.policy = AssistPolicy::Allowed(None);
            self.set_assisted(true);
        }
    }

    /// The application is about to sleep.
    pub(crate) fn allow_assist_before_sleep(&mut self) {
        if self.is_driven_by_application() {
            self.allow_assist();
        }
    }

    /// From now on the application polls the engine.
    #[inline]
    pub(crate) fn refuse_assist(&mut self) {
        if self.allows_assist() {
            self.policy = AssistPolicy::Busy;
            self.set_assisted(false);
        }
    }

    #[inline]
    pub(crate) fn allows_assist(&self) -> bool {
        matches!(self.policy, AssistPolicy::Allowed(_))
    }

    /// True if the application polls the engine, and will soon do so again.
    #[inline]
    pub(crate) fn is_driven_by_application(&self) -> bool {
        self.policy == AssistPolicy::Busy
    }

    fn set_assisted(&self, assisted: bool) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.set_assisted(assisted);
        }
    }

    /// A thread of another device, which holds no other engine, polls this one.
    pub(crate) fn begin_assist(&mut self) {
        self.being_assisted = true;
    }

    /// That poll is over.
    pub(crate) fn end_assist(&mut self, now: Instant) {
        self.being_assisted = false;
        if let AssistPolicy::Allowed(last) = &mut self.policy {
            *last = Some(now);
        }
    }

    /// True if another thread has polled the engine shortly before `now`, and will probably do so
    /// again.
    pub(crate) fn was_assisted_recently(&self, now: Instant) -> bool {
        let AssistPolicy::Allowed(Some(last)) = self.policy else { return false };
        now.as_nanos().saturating_sub(last.as_nanos()) < SPIN_NS
    }
}
