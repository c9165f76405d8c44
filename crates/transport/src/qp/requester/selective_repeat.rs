//! The requester's side of selective repeat: only what is missing is sent again, to a peer with a reorder buffer (ADR 17).
//!
//! No message tells whether a peer has a reorder buffer; its answer to a retransmission does. After its first sequence NAK
//! the requester sends the missing packet alone and waits. An ACK beyond that packet can only come from a peer that had
//! buffered the ones behind it. An ACK of just that packet comes from a peer that dropped them: the requester goes back
//! (go-back-N), now and at each later NAK at once.

use uroce_wire::Psn;

use crate::context::{Context, Transmit};
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp::requester::Requester;
use crate::qp::requester::scoreboard::Scoreboard;
use crate::qp::requester::send_queue::SendWqe;
use crate::retransmission::Retransmission;
use crate::time::Instant;

/// What the peer does with packets behind a PSN gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Peer {
    #[default]
    Unknown,
    Reorders,
    Discards,
}

/// Packets that are sent again before new ones.
#[derive(Debug, Default)]
pub(crate) struct SelectiveRepeat {
    /// Switched on by the device. Without it the requester goes back (go-back-N) at each NAK.
    enabled: bool,
    peer: Peer,
    /// The next of them, and how many still have to go out.
    next: Psn,
    left: u32,
    /// Their number, and one past the PSN of the last, until a later packet is acknowledged.
    run: u32,
    end: Option<Psn>,
    /// The last of them has just been written; the batch ends behind it.
    pause: bool,
    /// Whether a NAK has asked for them, and when they left: the ACK then gives a sample of the round trip.
    asked: bool,
    left_at: Option<Instant>,
    /// Smoothed round trip of a retransmission in nanoseconds; 0 until one was measured.
    round_trip_ns: u64,
    /// Retransmissions in a row behind which the peer missed everything.
    misses: u32,
    /// When the peer was found to discard what comes behind a gap.
    judged_at: Instant,
    /// READ responses that are missing.
    pub(crate) responses: Scoreboard,
    /// Packets or responses of this kind are outstanding.
    under_way: bool,
}

impl SelectiveRepeat {
    pub(crate) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// True while packets that were sent again before new ones are not acknowledged, or READ responses are missing.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// Something that was sent before goes out next.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.left > 0
    }

    /// The missing responses may have changed.
    pub(crate) fn note_responses(&mut self) {
        self.under_way = self.end.is_some() || self.responses.is_active();
    }

    /// Repeating what is missing costs a packet or two, and more than that will not be sent.
    fn repeats_little(&self) -> bool {
        self.peer_reorders() || self.responses.answered().is_some()
    }

    /// True if a NAK has asked for the packets that were sent again last, from `una` on, and none of them is
    /// acknowledged: another NAK for them is a copy.
    pub(crate) fn was_asked_for(&self, una: Psn) -> bool {
        self.asked && self.end.is_some_and(|end| end == una.add(self.run))
    }

    /// True if this peer has shown that it has a reorder buffer.
    pub(crate) fn peer_reorders(&self) -> bool {
        self.enabled && self.peer == Peer::Reorders
    }

    /// True if nothing else may go out: what was sent again leaves alone, so that the answer comes soon;
    /// or what the peer does with the rest is not known yet.
    pub(crate) fn holds_others(&self) -> bool {
        self.end.is_some() && (self.pause || self.peer == Peer::Unknown)
    }

    /// True once behind the last packet of a repair: there may be more to write right afterwards.
    pub(crate) fn take_pause(&mut self) -> bool {
        std::mem::take(&mut self.pause)
    }

    /// Tail probes before the requester waits for its timeout.
    pub(crate) fn probes(&self) -> u32 {
        if self.repeats_little() { limits::SELECTIVE_REPEAT_PROBES } else { limits::TAIL_PROBES }
    }

    /// How long silence lasts before it means that something was lost; `in_turn_ns` is the round trip
    /// of a packet in its turn, 0 if it was never measured. To ask a peer that keeps once too often costs
    /// one packet. `None`: no round trip is known.
    pub(crate) fn probe_timeout_ns(&self, in_turn_ns: u64) -> Option<u64> {
        let known = |ns: u64| Some(ns).filter(|ns| *ns > 0);
        if !self.repeats_little() {
            return known(in_turn_ns).map(|ns| 4 * ns + limits::TAIL_PROBE_NS);
        }
        let in_turn = known(in_turn_ns).filter(|_| !self.is_under_way());
        let round_trip_ns = in_turn.or(known(self.round_trip_ns)).or(known(in_turn_ns));
        round_trip_ns.map(|ns| 2 * ns + limits::SELECTIVE_REPEAT_PROBE_NS)
    }

    /// Everything is sent again, or nothing is left to send.
    pub(crate) fn forget(&mut self) {
        (self.left, self.run, self.end, self.left_at) = (0, 0, None, None);
        self.pause = false;
        self.note_responses();
    }

    /// Everything before `una` is acknowledged.
    #[inline]
    pub(crate) fn note_progress(&mut self, una: Psn, now: Instant) {
        if self.under_way {
            self.note_repaired(una, now);
        }
    }

    #[inline(never)]
    fn note_repaired(&mut self, una: Psn, now: Instant) {
        self.responses.note_progress();
        let Some(beyond) = self.end.map(|end| una.since(end)).filter(|beyond| *beyond >= 0) else {
            return;
        };
        if let Some(left_at) = self.left_at.take() {
            let sample = now.since(left_at).max(1);
            let old = if self.round_trip_ns == 0 { sample } else { self.round_trip_ns };
            self.round_trip_ns = old - old / 8 + sample / 8;
        }
        if beyond > 0 {
            self.peer = Peer::Reorders;
            self.misses = 0;
            self.forget();
        }
    }

    /// How many packets from `missing` on are sent again out of turn; `None`: all of them, in turn.
    /// A gap that goes on right behind what was sent last is one of several packets.
    fn length_for(&mut self, missing: Psn, now: Instant) -> Option<u32> {
        let old = now.since(self.judged_at) >= limits::PEER_DISCARDS_NS;
        if self.peer == Peer::Discards && old {
            // It may have had no memory to keep anything in.
            self.peer = Peer::Unknown;
        }
        if !self.enabled || self.peer == Peer::Discards {
            return None;
        }
        if self.end != Some(missing) {
            return Some(1);
        }
        if self.peer == Peer::Unknown {
            // Nothing was sent behind the repair: a peer that misses more had kept something.
            self.peer = Peer::Reorders;
        }
        if self.run == 1 {
            return Some(limits::SELECTIVE_REPEAT_BURST);
        }
        self.note_miss(now);
        None
    }

    /// The peer had nothing of what came behind the gap.
    fn note_miss(&mut self, now: Instant) {
        self.misses += 1;
        if self.peer == Peer::Unknown || self.misses >= limits::SELECTIVE_REPEAT_MISSES {
            self.peer = Peer::Discards;
            self.judged_at = now;
            self.misses = 0;
        }
    }

    /// The `run` packets from `psn` on go out next; `asked` for by a NAK.
    fn begin(&mut self, psn: Psn, run: u32, asked: bool) {
        (self.next, self.left, self.run, self.end) = (psn, run, run, Some(psn.add(run)));
        (self.asked, self.left_at) = (asked, None);
        self.under_way = true;
    }

    /// The next packet to send out of turn, and whether it is the last of them.
    fn take(&mut self) -> Option<(Psn, bool)> {
        self.left = self.left.checked_sub(1)?;
        let psn = self.next;
        self.next = psn.add(1);
        Some((psn, self.left == 0))
    }

    fn note_sent(&mut self, last: bool, now: Instant) {
        self.pause = last;
        if self.asked {
            self.left_at.get_or_insert(now);
        }
    }
}

impl SendWqe {
    /// SEND and WRITE: what a responder may keep.
    fn may_be_reordered(&self) -> bool {
        self.numbered && !self.needs_response()
    }
}

impl Requester {
    /// R71: the peer misses `psn`, the oldest packet that it has not acknowledged. True if only that
    /// will be sent again.
    pub(crate) fn repair(&mut self, now: Instant, psn: Psn) -> bool {
        if psn != self.una || !self.oldest_may_be_reordered() {
            return false;
        }
        let Some(run) = self.selective_repeat.length_for(psn, now) else {
            return false;
        };
        self.retransmit_oldest(run, true);
        true
    }

    pub(crate) fn oldest_may_be_reordered(&self) -> bool {
        self.send_queue.front().is_some_and(SendWqe::may_be_reordered)
    }

    /// Sends the oldest `run` packets again before everything else.
    pub(crate) fn retransmit_oldest(&mut self, run: u32, asked: bool) {
        let run = run.min(self.outstanding());
        if run == 0 {
            return;
        }
        self.selective_repeat.begin(self.una, run, asked);
        self.retransmission =
            if asked { Retransmission::SelectiveRepeat } else { Retransmission::TailProbe };
        if asked {
            self.ack_deadline = None;
        }
        self.tail_probe.note_rewind();
        self.wake();
    }

    /// The next packet that is sent again out of turn. The last one asks for an ACK.
    #[inline(never)]
    pub(crate) fn poll_selective_repeat(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let (psn, last) = self.selective_repeat.take()?;
        let index = self.index_of(psn)?;
        let wqe = *self.send_queue.get(index).filter(|wqe| wqe.may_be_reordered())?;
        let turn = std::mem::replace(&mut self.psn, psn);
        let since_ack_request = if last { limits::MAX_WINDOW } else { 0 };
        let since_ack_request = std::mem::replace(&mut self.since_ack_request, since_ack_request);
        let sent = self.emit_request(config, &wqe, out, cx);
        self.psn = turn;
        self.since_ack_request = since_ack_request;
        match sent {
            Ok(transmit) => {
                cx.counters.retransmit(1, self.retransmission);
                self.selective_repeat.note_sent(last, now);
                self.arm_ack_timer(config, now);
                Some(transmit)
            }
            Err(failure) => self.fail_if_oldest(config, index, failure, cx),
        }
    }

    /// An ACK has come. If it covers what was sent out of turn and nothing behind it, the peer had
    /// not kept the rest.
    #[inline(never)]
    pub(crate) fn check_selective_repeat(&mut self, now: Instant, cx: &mut Context<'_>) {
        let una = self.una;
        if self.selective_repeat.end != Some(una) {
            return;
        }
        if una == self.psn {
            // Nothing had been sent behind it.
            return self.selective_repeat.forget();
        }
        if self.oldest_may_be_reordered() {
            self.selective_repeat.note_miss(now);
        }
        self.note_loss();
        self.retransmission = Retransmission::SequenceNak;
        self.go_back_to(una, cx);
    }
}
