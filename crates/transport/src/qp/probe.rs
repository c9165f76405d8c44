//! Tail probes: a lost ACK, or the loss of the last packet before the window closed, leaves both ends
//! silent. Long before the local ACK timeout the requester then sends its last packet again. A peer
//! that has it answers with the ACK that was lost; one that misses something answers with a NAK.
//!
//! A peer that has sent a NAK says nothing more until the missing packet is there (R53). If that is
//! lost again, the requester goes back to it again after the same time; and if the NAK itself was lost,
//! nobody answers the first probe, and the second one goes back as far.

use uroce_wire::Psn;

use crate::context::Context;
use crate::limits;
use crate::qp::QueuePair;
use crate::qp::repair::Repair;
use crate::time::Instant;

/// When to send the last packet again.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// Switched on by the device; a requester without it waits for its timeout, as the
    /// specification describes.
    enabled: bool,
    /// A packet that asked for an ACK, and when it left.
    asked: Option<(Psn, Instant)>,
    /// When a packet that was not sent before last asked for an ACK.
    asked_at: Option<Instant>,
    /// Smoothed time from the request for an ACK to its arrival; 0 until one was measured.
    round_trip_ns: u64,
    at: Option<Instant>,
    /// Probes since the last progress.
    sent: u32,
    /// The requester went back and no progress came of it yet.
    went_back: bool,
}

impl Probe {
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    pub(crate) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// A packet that was not sent before asks for an ACK.
    pub(crate) fn note_asked(&mut self, psn: Psn, now: Instant) {
        self.asked.get_or_insert((psn, now));
        self.asked_at = Some(now);
    }

    /// Whether a message that nobody waits for may leave without asking for an ACK: one was asked for a
    /// moment ago, and how long silence may last is known.
    pub(crate) fn may_spare_ack(&self, now: Instant) -> bool {
        let recent = |at: Instant| now.since(at) < limits::SPARED_ACK_NS;
        self.enabled && self.round_trip_ns > 0 && self.asked_at.is_some_and(recent)
    }

    /// The wait starts with the next packet.
    pub(crate) fn wait_anew(&mut self) {
        self.at = None;
    }

    /// Packets are sent again: whose ACK comes next cannot be told.
    pub(crate) fn forget_sample(&mut self) {
        self.asked = None;
        self.at = None;
    }

    /// The requester goes back to its oldest packet.
    pub(crate) fn note_back(&mut self) {
        self.forget_sample();
        self.went_back = true;
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
        self.sent = 0;
        self.at = None;
        self.went_back = false;
    }

    /// Starts the wait unless it runs.
    fn arm(&mut self, now: Instant, repair: &Repair) {
        if !self.enabled || self.sent >= repair.probes() || self.at.is_some() {
            return;
        }
        let wait = repair.patience_ns(self.round_trip_ns);
        self.at = wait.map(|ns| now.add_ns(ns << self.sent));
    }
}

impl QueuePair {
    /// Lets this queue pair repeat its last packet when the peer is silent for much longer than
    /// it was before. Off unless asked for.
    pub fn set_tail_probes(&mut self, enabled: bool) {
        self.requester.probe.enabled = enabled && self.init.qp_type.is_reliable();
    }

    /// Starts the wait for a sign of the peer unless it runs.
    pub(crate) fn arm_probe(&mut self, now: Instant) {
        self.requester.probe.arm(now, &self.requester.repair);
    }

    /// Sends the last packet again if the time has come, or all that a NAK or a gap in the responses
    /// has asked for. READs and atomics that nothing is known to be wrong with wait for their timeout:
    /// to ask for a response twice costs more than a packet.
    pub(crate) fn run_probe(&mut self, now: Instant, cx: &mut Context<'_>) {
        if self.requester.probe.at.is_none_or(|at| now < at) {
            return;
        }
        let Probe { went_back, sent, .. } = self.requester.probe;
        self.requester.probe.forget_sample();
        let plain = self.requester.reads.is_empty();
        if !self.requester.in_flight() || !(plain || went_back) {
            return;
        }
        self.requester.probe.sent += 1;
        if sent < limits::REPAIR_PROBES - 1 && self.probe_by_repair() {
            return;
        }
        if went_back || sent > 0 {
            self.go_back_to(self.requester.una, cx);
        } else {
            self.repeat_last();
        }
    }

    fn repeat_last(&mut self) {
        let last = self.requester.next_new.sub(1);
        let all_sent = self.requester.psn == self.requester.next_new;
        let Some(index) = self.index_of(last).filter(|_| all_sent) else {
            return;
        };
        self.requester.psn = last;
        self.requester.cursor = index;
        self.requester.unrequested = limits::MAX_WINDOW;
        self.wake();
    }
}
