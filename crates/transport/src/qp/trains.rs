//! Trains that get lost as a whole.
//!
//! A driver, tunnel or peer may swallow packets that travel as one, while single ones pass. Then nothing
//! that is sent again arrives either. After some tries in vain a QP therefore wants its packets to leave
//! singly; when that brings progress, whoever sends for it should know.

use uroce_wire::Psn;

use crate::limits;
use crate::qp::QueuePair;
use crate::time::Instant;

/// READs that are asked for again and again.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The request that came last.
    psn: Option<Psn>,
    /// How often in a row.
    count: u32,
    /// Since when.
    since: Instant,
    /// They are to be sent singly.
    in_vain: bool,
}

impl Repeats {
    /// The peer asks for the response `psn` again.
    pub(crate) fn note(&mut self, psn: Psn, now: Instant) {
        if self.psn != Some(psn) {
            *self = Repeats { psn: Some(psn), since: now, ..Repeats::default() };
        }
        self.count += 1;
        let long = now.since(self.since) >= limits::READS_IN_VAIN_NS;
        self.in_vain = long && self.count >= limits::READS_IN_VAIN;
    }
}

impl QueuePair {
    /// True if packets of this QP had better travel singly: what was sent in trains did not arrive.
    #[inline]
    pub fn doubts_trains(&self) -> bool {
        self.requester.in_vain >= limits::TIMEOUTS_IN_VAIN || self.responder.repeats.in_vain
    }

    /// True once after single packets brought the progress that trains did not bring.
    #[inline]
    pub fn take_lost_trains(&mut self) -> bool {
        std::mem::take(&mut self.lost_trains)
    }

    /// The peer has acknowledged something.
    pub(crate) fn note_requests_arrived(&mut self) {
        self.lost_trains |= self.requester.in_vain >= limits::TIMEOUTS_IN_VAIN;
        self.requester.in_vain = 0;
    }

    /// The peer asks for something new: it has the responses that it asked for before.
    pub(crate) fn note_responses_arrived(&mut self) {
        self.lost_trains |= self.responder.repeats.in_vain;
        self.responder.repeats = Repeats::default();
    }
}
