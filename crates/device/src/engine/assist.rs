//! Devices of one process that work for each other (docs/adr/019-visits.md).
//!
//! Whoever has sent packets to another device of the process lets go of his own engine and then visits that
//! one: it takes a turn in his thread, with the packets still in the cache of his processor, and nobody has
//! to wake up.

use super::Engine;
use crate::limits::{RX_BUDGET, SPIN_NS};
use uroce_datapath::{Datapath, Visit};
use uroce_transport::Instant;

/// Whether others may visit the engine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssistPolicy {
    /// Never: it works when it is called, and only then.
    #[default]
    Never,
    /// Yes. The last visit was then.
    Allowed(Option<Instant>),
    /// Not now: the application polls, so its own thread has the engine in its cache.
    Busy,
}

impl Engine {
    /// From now on others may come: the application does not poll.
    pub(crate) fn allow_assist(&mut self) {
        if !self.allows_assist() {
            self.assist = AssistPolicy::Allowed(None);
            self.datapath.invite(true);
        }
    }

    /// The application is about to sleep.
    pub(crate) fn allow_assist_before_sleep(&mut self) {
        if self.assist == AssistPolicy::Busy {
            self.allow_assist();
        }
    }

    /// Nobody should come any more.
    #[inline]
    pub(crate) fn refuse_assist(&mut self) {
        if self.allows_assist() {
            self.assist = AssistPolicy::Busy;
            self.datapath.invite(false);
        }
    }

    /// Others may come.
    #[inline]
    pub(crate) fn allows_assist(&self) -> bool {
        matches!(self.assist, AssistPolicy::Allowed(_))
    }

    /// The application drives the engine, and will be back soon.
    #[inline]
    pub(crate) fn is_driven_by_application(&self) -> bool {
        self.assist == AssistPolicy::Busy
    }

    /// A turn by somebody else. It sends as much as its receiver takes in a turn. An ACK does not wait for
    /// the application, which does not poll.
    pub(crate) fn poll_for_peer(&mut self) -> Visit {
        self.being_assisted = true;
        let (arrived, _) = self.poll_with_budget(RX_BUDGET);
        let now = self.polled_at;
        if !self.nic.delayed_acks.is_empty() {
            self.send_ready(now);
        }
        self.being_assisted = false;
        if let AssistPolicy::Allowed(last) = &mut self.assist {
            *last = Some(now);
        }
        match arrived >= RX_BUDGET {
            true => Visit::Again,
            false if self.has_work() => Visit::Later,
            false => Visit::Done,
        }
    }

    /// Somebody has been here lately, and will probably come again.
    pub(crate) fn was_assisted_recently(&self, now: Instant) -> bool {
        let AssistPolicy::Allowed(Some(last)) = self.assist else { return false };
        now.as_nanos().saturating_sub(last.as_nanos()) < SPIN_NS
    }
}
