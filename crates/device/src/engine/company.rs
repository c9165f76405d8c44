//! Devices of one process that work for each other (docs/adr/019-visits.md).
//!
//! Whoever has sent packets to another device of the process lets go of his own engine and then visits that
//! one: it takes a turn in his thread, with the packets still in the cache of his processor, and nobody has
//! to wake up.

use super::Engine;
use crate::limits::{RX_PACKETS_PER_TURN, SPIN_NS};
use uroce_datapath::{Datapath, Visit};
use uroce_transport::Instant;

/// Whether others may visit the engine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// Never: it works when it is called, and only then.
    #[default]
    Never,
    /// Yes. The last visit was then.
    Welcome(Option<Instant>),
    /// Not now: the application polls, so its own thread has the engine in its cache.
    Declined,
}

impl Engine {
    /// From now on others may come: the application does not poll.
    pub(crate) fn welcome(&mut self) {
        if !self.is_welcoming() {
            self.company = Company::Welcome(None);
            self.datapath.invite(true);
        }
    }

    /// The application is about to sleep.
    pub(crate) fn welcome_again(&mut self) {
        if self.company == Company::Declined {
            self.welcome();
        }
    }

    /// Nobody should come any more.
    #[inline]
    pub(crate) fn decline(&mut self) {
        if self.is_welcoming() {
            self.company = Company::Declined;
            self.datapath.invite(false);
        }
    }

    /// Others may come.
    #[inline]
    pub(crate) fn is_welcoming(&self) -> bool {
        matches!(self.company, Company::Welcome(_))
    }

    /// The application drives the engine, and will be back soon.
    #[inline]
    pub(crate) fn is_left_to_application(&self) -> bool {
        self.company == Company::Declined
    }

    /// A turn by somebody else. It sends as much as its receiver takes in a turn. An ACK does not wait for
    /// the application, which does not poll.
    pub(crate) fn take_visit(&mut self) -> Visit {
        self.hosts = true;
        let (arrived, _) = self.turn_of(RX_PACKETS_PER_TURN);
        let now = self.turned_at;
        if !self.nic.patient.is_empty() {
            self.send_ready(now);
        }
        self.hosts = false;
        if let Company::Welcome(last) = &mut self.company {
            *last = Some(now);
        }
        match arrived >= RX_PACKETS_PER_TURN {
            true => Visit::Again,
            false if self.wants_turn() => Visit::Later,
            false => Visit::Done,
        }
    }

    /// Somebody has been here lately, and will probably come again.
    pub(crate) fn is_visited(&self, now: Instant) -> bool {
        let Company::Welcome(Some(last)) = self.company else { return false };
        now.as_nanos().saturating_sub(last.as_nanos()) < SPIN_NS
    }
}
