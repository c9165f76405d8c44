//! Tail probes: a lost ACK, or the loss of the last packet before the window closed, leaves both ends
//! silent. Long before the local ACK timeout the requester then sends its last packet again. A peer
//! that has it answers with the ACK that was lost; one that misses something answers with a NAK.
//!
//! A peer that has sent a NAK says nothing more until the missing packet is there (R53). If that is
//! lost again, the requester sends it again after the same time; and if the NAK itself was lost,
//! nobody answers the first probe, and the second one is the oldest packet. A READ whose responses stay away is
//! asked for again. When nothing is heard after the last probe the requester gives up, and waits for its timeout.

use uroce_wire::{Bth, HeaderWriter, ICRC_LEN, Opcode, Psn, ack_timeout_ns};

use crate::attr::{QpState, QpType};
use crate::context::{Step, Transmit};
use crate::limits;
use crate::qp::QueuePair;
use crate::qp::repair::Repair;
use crate::retransmission::Retransmission;
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
    /// When to look whether the wait is over.
    at: Option<Instant>,
    /// When the wait began: with a packet, or with the last sign of the peer.
    since: Instant,
    /// Probes since the last progress.
    sent: u32,
    /// The requester went back and no progress came of it yet.
    went_back: bool,
    /// Nothing was heard in spite of all probes.
    gave_up: bool,
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
        // A wait that runs is made longer when its time has come: this is done for each packet, that seldom.
        self.since = now;
        if self.sent > 0 || self.went_back || self.gave_up {
            (self.sent, self.went_back, self.gave_up, self.at) = (0, false, false, None);
        }
    }

    /// Nothing was heard in spite of all probes: what was sent has arrived or is lost.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Starts the wait unless it runs. Behind the last probe it ends in giving up.
    fn arm(&mut self, now: Instant, repair: &Repair, timeout: u8) {
        if !self.enabled || self.gave_up || self.at.is_some() {
            return;
        }
        self.since = now;
        self.at = self.end(repair, timeout);
    }

    /// When the wait is over, as far as is known now.
    fn end(&self, repair: &Repair, timeout: u8) -> Option<Instant> {
        let wait = repair.patience_ns(self.round_trip_ns).or_else(|| first_patience_ns(timeout));
        wait.map(|ns| self.since.add_ns(ns << self.sent))
    }
}

/// How long silence lasts before it means a loss while no round trip is known: a share of the local ACK timeout, so
/// that all probes come before it. `None`: there is no timeout, and nothing to go by.
fn first_patience_ns(timeout: u8) -> Option<u64> {
    ack_timeout_ns(timeout).map(|ns| ns / limits::FIRST_PROBE_SHARE)
}

impl QueuePair {
    /// Lets this queue pair repeat its last packet when the peer is silent for much longer than
    /// it was before. Off unless asked for.
    pub fn set_tail_probes(&mut self, enabled: bool) {
        self.requester.probe.enabled = enabled && self.init.qp_type.is_reliable();
    }

    /// Starts the wait for a sign of the peer unless it runs.
    pub(crate) fn arm_probe(&mut self, now: Instant) {
        self.requester.probe.arm(now, &self.requester.repair, self.attr.timeout);
    }

    /// Sends something again if the time has come: what is missing, as far as that is known; else the last
    /// packet, once; else the oldest one, or the request for the oldest response. Never more than that: a peer
    /// that stands still finds one window of packets, not several.
    pub(crate) fn run_probe(&mut self, now: Instant) {
        if self.requester.probe.at.is_none_or(|at| now < at) {
            return;
        }
        let end = self.requester.probe.end(&self.requester.repair, self.attr.timeout);
        if self.requester.in_flight() && end.is_some_and(|end| now < end) {
            self.requester.probe.at = end;
            return;
        }
        let Probe { went_back, sent, .. } = self.requester.probe;
        self.requester.probe.forget_sample();
        if !self.requester.in_flight() {
            return;
        }
        if sent >= self.requester.repair.probes() {
            self.requester.probe.gave_up = true;
            return;
        }
        self.requester.probe.sent += 1;
        self.requester.again = Retransmission::TailProbe;
        // Everything was sent again, and not a packet of it has arrived.
        if went_back && !self.requester.repair.is_under_way() {
            self.note_silence_behind_train();
        }
        let plain = self.requester.reads.is_empty();
        if self.requester.repair.responses.answered().is_some() || !self.oldest_may_be_kept() {
            self.ask_again();
        } else if sent > 0 || went_back || !plain || self.requester.repair.is_trusted() {
            self.send_out_of_turn(1, false);
        } else {
            self.repeat_last();
        }
    }

    /// Writes a packet by which an idle peer shows that it is alive: an empty SEND with the PSN before the
    /// oldest one that is not acknowledged. The peer has had that PSN, so the packet is a duplicate, which
    /// does nothing but draw an ACK (C9-105). `None`: what is in flight asks already, or the queue pair
    /// is not one that sends and is answered.
    pub fn write_liveness_probe(&self, out: &mut [u8]) -> Option<Transmit> {
        let sends = self.init.qp_type == QpType::Rc && self.state == QpState::Rts;
        if !sends || self.requester.in_flight() {
            return None;
        }
        let mut bth = Bth::new(Opcode::RC_SEND_ONLY, self.peer_qpn(), self.requester.una.sub(1));
        bth.ack_req = true;
        let mut headers = HeaderWriter::new(out);
        headers.put(&bth)?;
        let len = headers.len() + ICRC_LEN;
        Some(Transmit { len, path: self.path(), step: Step::Ends })
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
