//! Threads that poll the engines of other devices (docs/adr/019-visits.md).
//!
//! A thread that has sent packets to another device of the process releases its own engine and then
//! polls that of the receiver: the packets are still in the cache of its processor, and no thread has
//! to wake up.

use uroce_datapath::LoopbackEndpoint;
use uroce_transport::Instant;

use super::{EngineDatapath, PendingPeers};
use crate::engine::Engine;
use crate::engines::shared::Shared;
use crate::limits::{RX_BUDGET, SPIN_NS};

/// Whether threads of other devices may poll an engine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssistPolicy {
    /// Never: an engine without a progress thread works only when it is called.
    #[default]
    Never,
    /// Yes. The time of the last such poll.
    Allowed(Option<Instant>),
    /// Not now: the application polls, so its own thread has the engine in its cache.
    Busy,
}

/// How a poll of a peer's engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assist {
    /// Nothing is left to do.
    Done,
    /// More packets are queued there.
    Again,
    /// The engine has more to send, once its receivers have read what it sent.
    Later,
    /// The engine is in use, or its policy forbids the poll.
    Busy,
}

impl Shared {
    /// Polls the engine in the thread of another device, unless it is in use. Peers that are sent
    /// packets by that are added to `further`.
    pub(super) fn poll_for_peer(&self, further: &mut PendingPeers) -> Assist {
        let Some(mut engine) = self.try_lock() else {
            return Assist::Busy;
        };
        let outcome = engine.poll_for_peer();
        further.append(&mut engine.local.pending);
        // After `Later` the other thread comes again, or wakes the progress thread.
        engine.wakes_thread = outcome != Assist::Later;
        outcome
    }
}

impl Engine {
    /// The endpoint of the engine, if it is on an in-process switch.
    pub(super) fn local_endpoint(&self) -> Option<LoopbackEndpoint> {
        match &self.datapath {
            EngineDatapath::Local(local) => Some(local.endpoint().clone()),
            EngineDatapath::Other(_) => None,
        }
    }

    fn set_assisted(&self, assisted: bool) {
        if let EngineDatapath::Local(local) = &self.datapath {
            local.endpoint().set_assisted(assisted);
        }
    }

    /// Lists the peers that the last flushes have sent packets to without a wake-up.
    #[inline]
    pub(crate) fn collect_pending_peers(&mut self) {
        let EngineDatapath::Local(local) = &mut self.datapath else { return };
        while let Some(endpoint) = local.next_unwoken() {
            self.local.add_pending(&endpoint);
        }
    }

    /// From now on threads of other devices may poll the engine: the application does not.
    pub(crate) fn allow_assist(&mut self) {
        if !self.allows_assist() {
            self.local.policy = AssistPolicy::Allowed(None);
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
            self.local.policy = AssistPolicy::Busy;
            self.set_assisted(false);
        }
    }

    #[inline]
    pub(crate) fn allows_assist(&self) -> bool {
        matches!(self.local.policy, AssistPolicy::Allowed(_))
    }

    /// True if the application polls the engine, and will soon do so again.
    #[inline]
    pub(crate) fn is_driven_by_application(&self) -> bool {
        self.local.policy == AssistPolicy::Busy
    }

    /// A poll iteration in the thread of another device. It sends as much as a receiver takes in one
    /// iteration. ACKs are not delayed, since the application does not poll.
    fn poll_for_peer(&mut self) -> Assist {
        self.local.being_assisted = true;
        let (arrived, _) = self.poll_with_budget(RX_BUDGET);
        let now = self.polled_at;
        if !self.nic.delayed_acks.is_empty() {
            self.send_ready(now);
        }
        self.local.being_assisted = false;
        if let AssistPolicy::Allowed(last) = &mut self.local.policy {
            *last = Some(now);
        }
        match arrived >= RX_BUDGET {
            true => Assist::Again,
            false if self.has_work() => Assist::Later,
            false => Assist::Done,
        }
    }

    /// True if another thread has polled the engine shortly before `now`, and will probably do so
    /// again.
    pub(crate) fn was_assisted_recently(&self, now: Instant) -> bool {
        let AssistPolicy::Allowed(Some(last)) = self.local.policy else { return false };
        now.as_nanos().saturating_sub(last.as_nanos()) < SPIN_NS
    }
}
