//! Does the peer still have this connection? A message that contradicts it, a REQ or REP with the queue
//! pair of the peer that it connects, may come from a peer that restarted, or be forged (R112). So the
//! queue pair of the peer is asked, and only its silence ends the connection (docs/adr/024-stale-requests.md).

use super::{Connection, State};
use crate::event::Event;
use crate::limits::{LIVENESS_PROBE_INTERVAL, LIVENESS_TIMEOUT};
use crate::outbox::Outbox;
use crate::time::Time;

/// A check of whether the peer is alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct LivenessCheck {
    /// Until then its outcome holds; without a sign of life the connection ends.
    until: Time,
    alive: bool,
}

/// What is to be thought of a message that contradicts a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is not known yet: the message comes again, and is left without an answer.
    InDoubt,
    /// The connection stands, or ends in an orderly way.
    Firm,
}

impl Connection {
    /// A message contradicts this connection. A check begins if none holds and `may_ask`.
    pub(crate) fn contradict(
        &mut self,
        now: Time,
        may_ask: impl FnOnce() -> bool,
        out: &mut Outbox,
    ) -> Standing {
        let recent = self.check.filter(|check| now < check.until || !check.alive);
        match (self.state, recent) {
            (State::Established, Some(LivenessCheck { alive: true, .. })) => Standing::Firm,
            // Under way, or the peer was silent and the connection is over.
            (State::Established | State::DreqSent | State::Timewait, Some(_)) => Standing::InDoubt,
            (State::Established, None) => {
                if may_ask() {
                    self.check =
                        Some(LivenessCheck { until: now + LIVENESS_TIMEOUT, alive: false });
                    self.probe_peer(now, out);
                }
                Standing::InDoubt
            }
            _ => Standing::Firm,
        }
    }

    fn probe_peer(&mut self, now: Time, out: &mut Outbox) {
        let Some(check) = self.check else { return };
        self.deadline = Some((now + LIVENESS_PROBE_INTERVAL).min(check.until));
        self.tell(Event::ProbePeer { id: self.id, qpn: self.local_qpn }, out);
    }

    /// The peer has sent something to the queue pair of the connection.
    pub(super) fn note_alive(&mut self) {
        if let Some(check) = &mut self.check {
            check.alive = true;
            self.deadline = None;
        }
    }

    /// Asks again, or ends the connection whose peer has been silent for long enough. A DREQ goes out
    /// in case the peer is there after all.
    pub(super) fn check_again(&mut self, now: Time, own_tid: u64, out: &mut Outbox) {
        match self.check {
            Some(LivenessCheck { alive: false, until }) if now >= until => {
                self.tell_end(false, &[], out);
                self.send_dreq(now, own_tid, Default::default(), out);
            }
            Some(LivenessCheck { alive: false, .. }) => self.probe_peer(now, out),
            _ => self.deadline = None,
        }
    }
}
