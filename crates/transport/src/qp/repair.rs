//! Sending again only what is missing, to a peer that keeps what came behind it (ADR 17).
//!
//! Whether a peer keeps cannot be asked, but seen. After its first sequence NAK the requester sends the
//! missing packet alone and waits. An acknowledgement beyond that packet can only come from a peer that
//! had kept the ones behind it; one of just that packet comes from a peer that had not, to which the
//! requester goes back as ever, now and from then on at once.

use uroce_wire::Psn;

use crate::context::{Context, Transmit};
use crate::limits;
use crate::qp::QueuePair;
use crate::qp::scoreboard::Scoreboard;
use crate::qp::send_queue::SendWqe;
use crate::retransmission::Retransmission;
use crate::time::Instant;

/// What the peer does with packets behind a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Peer {
    #[default]
    Unknown,
    Keeps,
    Discards,
}

/// Packets that are sent again out of turn.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    /// Switched on by the device; without it every NAK is answered by going back.
    enabled: bool,
    peer: Peer,
    /// Those that still have to go out.
    next: Psn,
    left: u32,
    /// How many they were at first, and one past the last of them, until more than they is acknowledged.
    run: u32,
    end: Option<Psn>,
    /// The last of them has just been written: it leaves before anything else is written.
    pause: bool,
    /// When they left, if a NAK has asked for them: its answer gives a round trip.
    asked: bool,
    left_at: Option<Instant>,
    /// Smoothed; 0 until one was measured.
    round_trip_ns: u64,
    /// Times in a row that the peer missed everything behind them.
    misses: u32,
    /// When the peer was found to discard what comes behind a gap.
    judged_at: Instant,
    /// Responses that are missing.
    pub(crate) responses: Scoreboard,
    /// There are such packets, or such responses.
    under_way: bool,
}

impl Repair {
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// True while packets that were sent again out of turn are not acknowledged, or responses are missing
    /// that the peer has sent.
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
        self.is_trusted() || self.responses.answered().is_some()
    }

    /// True if a NAK has asked for the packets that were sent again last, from `una` on, and none of them is
    /// acknowledged: another NAK for them is a copy.
    pub(crate) fn was_asked_for(&self, una: Psn) -> bool {
        self.asked && self.end.is_some_and(|end| end == una.add(self.run))
    }

    /// True if this peer has shown that it keeps what comes behind a gap.
    pub(crate) fn is_trusted(&self) -> bool {
        self.enabled && self.peer == Peer::Keeps
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
        if self.repeats_little() { limits::REPAIR_PROBES } else { limits::TAIL_PROBES }
    }

    /// How long silence lasts before it means that something was lost; `in_turn_ns` is the round trip
    /// of a packet in its turn, 0 if it was never measured. To ask a peer that keeps once too often costs
    /// one packet. `None`: no round trip is known.
    pub(crate) fn patience_ns(&self, in_turn_ns: u64) -> Option<u64> {
        let known = |ns: u64| Some(ns).filter(|ns| *ns > 0);
        if !self.repeats_little() {
            return known(in_turn_ns).map(|ns| 4 * ns + limits::TAIL_PROBE_NS);
        }
        let in_turn = known(in_turn_ns).filter(|_| !self.is_under_way());
        let round_trip_ns = in_turn.or(known(self.round_trip_ns)).or(known(in_turn_ns));
        round_trip_ns.map(|ns| 2 * ns + limits::REPAIR_PROBE_NS)
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
            self.peer = Peer::Keeps;
            self.misses = 0;
            self.forget();
        }
    }

    /// How many packets from `missing` on are sent again out of turn; `None`: all of them, in turn.
    /// A gap that goes on right behind what was sent last is one of several packets.
    fn length_for(&mut self, missing: Psn, now: Instant) -> Option<u32> {
        let old = now.since(self.judged_at) >= limits::VERDICT_NS;
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
            self.peer = Peer::Keeps;
        }
        if self.run == 1 {
            return Some(limits::REPAIR_RUN);
        }
        self.note_miss(now);
        None
    }

    /// The peer had nothing of what came behind the gap.
    fn note_miss(&mut self, now: Instant) {
        self.misses += 1;
        if self.peer == Peer::Unknown || self.misses >= limits::REPAIRS_IN_VAIN {
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
    fn may_be_kept(&self) -> bool {
        self.numbered && !self.needs_response()
    }
}

impl QueuePair {
    /// Lets this queue pair send only what is missing to a peer that keeps the rest. Off unless
    /// asked for: it then goes back to the missing packet and sends everything again.
    pub fn set_repairs(&mut self, enabled: bool) {
        self.requester.repair.enabled = enabled && self.init.qp_type.is_reliable();
    }

    /// R71: the peer misses `psn`, the oldest packet that it has not acknowledged. True if only that
    /// will be sent again.
    pub(crate) fn repair(&mut self, now: Instant, psn: Psn) -> bool {
        if psn != self.requester.una || !self.oldest_may_be_kept() {
            return false;
        }
        let Some(run) = self.requester.repair.length_for(psn, now) else {
            return false;
        };
        self.send_out_of_turn(run, true);
        true
    }

    pub(crate) fn oldest_may_be_kept(&self) -> bool {
        self.send_queue.front().is_some_and(SendWqe::may_be_kept)
    }

    /// Sends the oldest `run` packets again before everything else.
    pub(crate) fn send_out_of_turn(&mut self, run: u32, asked: bool) {
        let run = run.min(self.requester.outstanding());
        if run == 0 {
            return;
        }
        self.requester.repair.begin(self.requester.una, run, asked);
        self.requester.again =
            if asked { Retransmission::Repair } else { Retransmission::TailProbe };
        if asked {
            self.requester.ack_deadline = None;
        }
        self.requester.probe.note_back();
        self.wake();
    }

    /// The next packet that is sent again out of turn. The last one asks for an ACK.
    #[inline(never)]
    pub(crate) fn poll_repair(
        &mut self,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let (psn, last) = self.requester.repair.take()?;
        let index = self.index_of(psn)?;
        let wqe = *self.send_queue.get(index).filter(|wqe| wqe.may_be_kept())?;
        let turn = std::mem::replace(&mut self.requester.psn, psn);
        let unrequested = if last { limits::MAX_WINDOW } else { 0 };
        let unrequested = std::mem::replace(&mut self.requester.unrequested, unrequested);
        let sent = self.emit_request(&wqe, out, cx);
        self.requester.psn = turn;
        self.requester.unrequested = unrequested;
        match sent {
            Ok(transmit) => {
                cx.counters.retransmit(1, self.requester.again);
                self.requester.repair.note_sent(last, now);
                self.arm_ack_timer(now);
                Some(transmit)
            }
            Err(failure) => self.fail_if_oldest(now, index, failure, cx),
        }
    }

    /// An ACK has come. If it covers what was sent out of turn and nothing behind it, the peer had
    /// not kept the rest.
    #[inline(never)]
    pub(crate) fn check_repair(&mut self, now: Instant, cx: &mut Context<'_>) {
        let una = self.requester.una;
        if self.requester.repair.end != Some(una) {
            return;
        }
        if una == self.requester.psn {
            // Nothing had been sent behind it.
            return self.requester.repair.forget();
        }
        if self.oldest_may_be_kept() {
            self.requester.repair.note_miss(now);
        }
        self.requester.note_loss();
        self.requester.again = Retransmission::SequenceNak;
        self.go_back_to(una, cx);
    }
}
