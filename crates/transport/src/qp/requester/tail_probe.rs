//! Tail probes: a lost ACK, or the loss of the last packet before the window closed, leaves both ends
//! silent. Long before the local ACK timeout the requester then sends its last packet again. A peer
//! that has it answers with the ACK that was lost; one that misses something answers with a NAK.
//!
//! A peer that has sent a NAK says nothing more until the missing packet is there (R53). If that is
//! lost again, the requester sends it again after the same time; and if the NAK itself was lost,
//! the first probe has no answer, and the second one is the oldest packet. A READ whose responses stay away is
//! asked for again. When nothing is heard after the last probe the requester gives up, and waits for its timeout.

use uroce_wire::{Psn, ack_timeout_ns};

use super::selective_repeat::SelectiveRepeat;
use crate::limits;
use crate::time::Instant;

/// The tail probe timer of a requester.
#[derive(Debug, Default)]
pub(crate) struct TailProbe {
    /// Switched on by the device. A requester without tail probes waits for its local ACK timeout, as the specification
    /// describes.
    enabled: bool,
    /// The packet whose ACK gives the next sample of the round trip, and when it left.
    asked: Option<(Psn, Instant)>,
    /// When a packet that was not a retransmission last asked for an ACK.
    asked_at: Option<Instant>,
    /// Smoothed time from the request for an ACK to its arrival; 0 until one was measured.
    round_trip_ns: u64,
    /// When the timer fires.
    at: Option<Instant>,
    /// Begin of the silence: a packet that was sent, or the last progress.
    since: Instant,
    /// Probes since the last progress.
    sent: u32,
    /// The requester went back to its oldest packet, and nothing was acknowledged since.
    rewound: bool,
    /// No probe was answered: no further one is sent before there is progress.
    is_exhausted: bool,
}

/// A probe is due.
pub(super) struct TailProbeDue {
    /// Probes before it since the last progress.
    pub(super) sent: u32,
    /// The requester went back to its oldest packet, and nothing was acknowledged since.
    pub(super) rewound: bool,
}

impl TailProbe {
    pub(crate) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    pub(crate) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// A packet that was not sent before asks for an ACK.
    pub(crate) fn note_asked(&mut self, psn: Psn, now: Instant) {
        self.asked.get_or_insert((psn, now));
        self.asked_at = Some(now);
    }

    /// Whether a message whose completion is not asked for may leave without AckReq: another packet asked for an ACK less
    /// than `limits::ACK_REQUEST_INTERVAL_NS` ago, and the round trip is known.
    pub(crate) fn may_suppress_ack_request(&self, now: Instant) -> bool {
        let recent = |at: Instant| now.since(at) < limits::ACK_REQUEST_INTERVAL_NS;
        self.enabled && self.round_trip_ns > 0 && self.asked_at.is_some_and(recent)
    }

    /// The timer starts anew with the next packet.
    pub(crate) fn wait_anew(&mut self) {
        self.at = None;
    }

    /// Packets are sent again, so that the next ACK gives no sample of the round trip (Karn).
    pub(crate) fn forget_sample(&mut self) {
        self.asked = None;
        self.at = None;
    }

    /// The requester goes back to its oldest packet.
    pub(crate) fn note_rewind(&mut self) {
        self.forget_sample();
        self.rewound = true;
    }

    /// Everything before `una` is acknowledged.
    pub(crate) fn note_progress(&mut self, una: Psn, now: Instant) {
        if let Some((psn, left_at)) = self.asked
            && una.since(psn) > 0
        {
            let sample = now.since(left_at).max(1);
            let old = if self.round_trip_ns == 0 { sample } else { self.round_trip_ns };
            self.round_trip_ns = old - old / 8 + sample / 8;
            self.asked = None;
        }
        // A running timer is moved when it fires, which is seldom; progress is made with each ACK.
        self.since = now;
        if self.sent > 0 || self.rewound || self.is_exhausted {
            (self.sent, self.rewound, self.is_exhausted, self.at) = (0, false, false, None);
        }
    }

    /// No probe was answered.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// What a probe that is due shall go by; `None` if none is. One that would come before its time is put off, and behind
    /// the last one the requester waits for its timeout.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        in_flight: bool,
        repair: &SelectiveRepeat,
        timeout: u8,
    ) -> Option<TailProbeDue> {
        if self.at.is_none_or(|at| now < at) {
            return None;
        }
        let end = self.end(repair, timeout);
        if in_flight && end.is_some_and(|end| now < end) {
            self.at = end;
            return None;
        }
        self.forget_sample();
        if !in_flight {
            return None;
        }
        if self.sent >= repair.probes() {
            self.is_exhausted = true;
            return None;
        }
        let due = TailProbeDue { sent: self.sent, rewound: self.rewound };
        self.sent += 1;
        Some(due)
    }

    /// Starts the timer unless it runs or all probes were in vain.
    pub(super) fn arm(&mut self, now: Instant, repair: &SelectiveRepeat, timeout: u8) {
        if !self.enabled || self.is_exhausted || self.at.is_some() {
            return;
        }
        self.since = now;
        self.at = self.end(repair, timeout);
    }

    /// When the timer should fire, as far as is known now. It doubles with each probe.
    fn end(&self, repair: &SelectiveRepeat, timeout: u8) -> Option<Instant> {
        let wait = repair
            .probe_timeout_ns(self.round_trip_ns)
            .or_else(|| initial_probe_timeout_ns(timeout));
        wait.map(|ns| self.since.add_ns(ns << self.sent))
    }
}

/// The probe timeout while no round trip is known: a share of the local ACK timeout, so that all probes come before it.
/// `None`: the queue pair has no local ACK timeout.
fn initial_probe_timeout_ns(timeout: u8) -> Option<u64> {
    ack_timeout_ns(timeout).map(|ns| ns / limits::FIRST_PROBE_SHARE)
}
