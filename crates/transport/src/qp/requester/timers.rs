//! The timers of a requester: the local ACK timeout, the wait after an RNR NAK, and the tail probe; the retries of the
//! first two.

use uroce_memory::mutation::mutated;
use uroce_wire::{Psn, ack_timeout_ns};

use super::selective_repeat::SelectiveRepeat;
use super::send_window::PsnWindow;
use crate::limits;
use crate::time::Instant;

/// rnr_retry with this value waits for ever (R76, B16).
const RNR_RETRY_FOR_EVER: u8 = 7;

/// The local ACK timeout doubles this often: up to four times the one that was asked for (R75).
const MAX_BACKOFF: u8 = 2;

/// No doubling goes beyond this (ns). A longer timeout that was asked for stays as it is.
const LONGEST_BACKOFF_NS: u64 = 300_000_000;

/// The local ACK timer, and the retries after timeouts and sequence NAKs (R75).
#[derive(Debug, Default)]
pub(super) struct AckTimer {
    deadline: Option<Instant>,
    retry_cnt: u8,
    retries_left: u8,
}

impl AckTimer {
    /// When it fires.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn stop(&mut self) {
        self.deadline = None;
    }

    /// True once when it fires.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let due = self.deadline.is_some_and(|deadline| now >= deadline);
        if due {
            self.deadline = None;
        }
        due
    }

    /// Starts it anew. A try waits T, the next 2T, the others 4T, which is what the specification leaves room for (R75),
    /// as long as that is not long: a peer that stalls for a moment is not buried under repetitions. A longer T is waited
    /// for as it is: a dead peer is noticed after T for each try.
    pub(super) fn restart(&mut self, now: Instant, code: u8) {
        let timeout = ack_timeout_ns(code);
        let used = self.retry_cnt.saturating_sub(self.retries_left);
        let timeout = match used {
            0 => timeout,
            _ => timeout.map(|ns| ns.max(LONGEST_BACKOFF_NS.min(ns << used.min(MAX_BACKOFF)))),
        };
        if mutated("timer-forgotten") && used > 0 {
            return;
        }
        self.deadline = timeout.map(|ns| now.add_ns(ns));
    }

    pub(super) fn set_retries(&mut self, retry_cnt: u8) {
        (self.retry_cnt, self.retries_left) = (retry_cnt, retry_cnt);
    }

    pub(super) fn retries(&self) -> u8 {
        self.retry_cnt
    }

    /// Progress refills the retry counter.
    #[inline]
    pub(super) fn note_progress(&mut self) {
        self.retries_left = self.retry_cnt;
    }

    /// What holds between two calls. `waits`: something that was sent is not acknowledged.
    pub(super) fn assert_invariants(&self, waits: bool) {
        debug_assert!(self.retries_left <= self.retry_cnt, "retries do not grow");
        debug_assert!(waits || self.deadline.is_none(), "a timer without anything to wait for");
    }

    /// False if no retry is left.
    pub(super) fn spend_retry(&mut self) -> bool {
        let left = self.retries_left.checked_sub(1);
        self.retries_left = left.unwrap_or(0);
        left.is_some()
    }
}

/// The wait that an RNR NAK asks for, and the retries after it (R76).
#[derive(Debug, Default)]
pub(super) struct RnrWait {
    /// Nothing goes out before this time (R76, B15).
    until: Option<Instant>,
    /// The PSN that the receiver was not ready for; meaningful during the wait.
    psn: Psn,
    /// One behind the last request that the receiver may have ignored with the one that it was not ready for (R56).
    ignored_end: Option<Psn>,
    retry_cnt: u8,
    retries_left: u8,
}

impl RnrWait {
    /// When the wait ends.
    #[inline]
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// True during the wait.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// True during the wait for this PSN.
    pub(super) fn is_for(&self, psn: Psn) -> bool {
        self.until.is_some() && self.psn == psn
    }

    /// `end`: one behind the last request that was sent.
    pub(super) fn begin(&mut self, psn: Psn, end: Psn, until: Instant) {
        (self.psn, self.until, self.ignored_end) = (psn, Some(until), Some(end));
    }

    /// True once after each RNR NAK, if the receiver has ignored the request with `psn` rather than missed it.
    pub(super) fn excuses(&mut self, psn: Psn) -> bool {
        self.ignored_end.take_if(|end| psn.since(*end) < 0).is_some()
    }

    pub(super) fn end(&mut self) {
        self.until = None;
    }

    pub(super) fn set_retries(&mut self, rnr_retry: u8) {
        (self.retry_cnt, self.retries_left) = (rnr_retry, rnr_retry);
    }

    pub(super) fn retries(&self) -> u8 {
        self.retry_cnt
    }

    /// Progress refills the retry counter.
    #[inline]
    pub(super) fn note_progress(&mut self) {
        self.retries_left = self.retry_cnt;
    }

    /// What holds between two calls.
    pub(super) fn assert_invariants(&self, psns: &PsnWindow) {
        debug_assert!(self.retries_left <= self.retry_cnt, "retries do not grow");
        let was_sent = psns.next_new().since(self.psn) > 0;
        debug_assert!(!self.is_on() || was_sent, "a wait for what was never sent");
    }

    /// False if no retry is left.
    pub(super) fn spend_retry(&mut self) -> bool {
        if self.retry_cnt == RNR_RETRY_FOR_EVER {
            return true;
        }
        let left = self.retries_left.checked_sub(1);
        self.retries_left = left.unwrap_or(0);
        left.is_some()
    }
}

/// The tail probe timer of a requester.
///
/// A lost ACK, or the loss of the last packet before the window closed, leaves both ends silent. Long before the local
/// ACK timeout the requester then sends its last packet again. A peer that has it answers with the ACK that was lost;
/// one that misses something answers with a NAK.
///
/// A peer that has sent a NAK says nothing more until the missing packet is there (R53). If that is lost again, the
/// requester sends it again after the same time; and if the NAK itself was lost, the first probe has no answer, and the
/// second one is the oldest packet. A READ whose responses stay away is asked for again. When nothing is heard after the
/// last probe the requester gives up, and waits for its timeout. A probe costs no retry, nor does the NAK that it draws.
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
    /// How often the wait of the first probe is doubled while no round trip is known: a probe that comes too early
    /// prevents that it is measured (Karn).
    doublings: u32,
    /// The requester went back to its oldest packet, and nothing was acknowledged since.
    rewound: bool,
    /// When it did so last.
    rewound_at: Instant,
    /// No probe was answered: no further one is sent before there is progress.
    is_exhausted: bool,
    /// The next sequence NAK answers a probe.
    draws_nak: bool,
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
    pub(crate) fn note_rewind(&mut self, now: Instant) {
        self.forget_sample();
        (self.rewound, self.rewound_at) = (true, now);
    }

    /// R155: a NAK for the oldest packet, which left again a moment ago, can be no answer to that.
    pub(super) fn is_too_early(&self, now: Instant) -> bool {
        self.rewound && now.since(self.rewound_at) < self.round_trip_ns / 2
    }

    /// Everything before `una` is acknowledged. The round trip in ns, if one was measured by that.
    pub(crate) fn note_progress(&mut self, una: Psn, now: Instant) -> Option<u64> {
        let mut measured = None;
        if let Some((psn, left_at)) = self.asked
            && una.since(psn) > 0
        {
            let sample = now.since(left_at).max(1);
            let old = if self.round_trip_ns == 0 { sample } else { self.round_trip_ns };
            self.round_trip_ns = old - old / 8 + sample / 8;
            self.asked = None;
            measured = Some(sample);
        }
        // A running timer is moved when it fires, which is seldom; progress is made with each ACK.
        self.since = now;
        if self.sent > 0 || self.rewound || self.is_exhausted {
            self.doublings = (self.doublings + self.sent.min(1)).min(limits::FIRST_PROBE_DOUBLINGS);
            (self.sent, self.rewound, self.is_exhausted, self.at) = (0, false, false, None);
            self.draws_nak = false;
        }
        measured
    }

    /// The peer has answered what is behind a missing response: there are as many probes again for that.
    pub(crate) fn note_answer(&mut self) {
        if self.sent > 0 || self.is_exhausted {
            (self.sent, self.is_exhausted, self.at) = (0, false, None);
        }
    }

    /// R71: a sequence NAK that a probe has drawn uses up no retry; each probe draws one.
    pub(super) fn excuses(&mut self) -> bool {
        std::mem::take(&mut self.draws_nak)
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
        self.draws_nak = true;
        Some(due)
    }

    /// What holds between two calls.
    pub(super) fn assert_invariants(&self) {
        debug_assert!(self.at.is_none() || self.enabled, "a probe of a QP without probes");
        debug_assert!(self.at.is_none() || !self.is_exhausted, "a probe behind the last one");
        debug_assert!(self.sent <= limits::SELECTIVE_REPEAT_PROBES.max(limits::TAIL_PROBES));
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
            .or_else(|| initial_probe_timeout_ns(timeout).map(|ns| ns << self.doublings));
        wait.map(|ns| self.since.add_ns(ns << self.sent))
    }
}

/// The probe timeout while no round trip is known: a share of the local ACK timeout, so that all probes come before it.
/// `None`: the queue pair has no local ACK timeout.
fn initial_probe_timeout_ns(timeout: u8) -> Option<u64> {
    ack_timeout_ns(timeout).map(|ns| ns / limits::FIRST_PROBE_SHARE)
}
