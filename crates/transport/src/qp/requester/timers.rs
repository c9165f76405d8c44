//! The local ACK timeout, the wait after an RNR NAK, and the retries of both.

use uroce_wire::{Psn, ack_timeout_ns};

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

    pub(super) fn begin(&mut self, psn: Psn, until: Instant) {
        (self.psn, self.until) = (psn, Some(until));
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
