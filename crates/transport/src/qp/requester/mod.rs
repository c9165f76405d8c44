//! The requester's bookkeeping: which PSN comes next, what is in flight, what it waits for.

mod completer;
mod completion;
mod emit;
mod local;
mod middle;
mod read_split;
mod retry;
mod scoreboard;
mod segment;
mod selective_repeat;
mod send_queue;
mod small;
mod tail_probe;
mod transmit;

use crate::attr::QpCaps;
use crate::cause::FlushReason;
use crate::qp::requester::send_queue::SendQueue;
use std::collections::VecDeque;

use uroce_wire::Psn;

use crate::limits;
use crate::qp::requester::middle::Middle;
use crate::qp::requester::scoreboard::Scoreboard;
use crate::qp::requester::selective_repeat::SelectiveRepeat;
use crate::qp::requester::tail_probe::TailProbe;
use crate::qp::trains::Doubts;
use crate::retransmission::Retransmission;
use crate::time::Instant;

/// A READ request or atomic on its way, by the PSNs of its response (R79).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadSlot {
    pub(crate) first: Psn,
    pub(crate) last: Psn,
}

/// State of the requester of one QP.
///
/// PSNs run `una <= psn <= next_new`: everything before `una` is acknowledged, `psn` goes out next,
/// `next_new` was never sent. `psn < next_new` while packets are being sent again.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) send_queue: SendQueue,
    /// There may be something to send; cleared when there was nothing.
    pub(crate) awake: bool,
    /// What takes the QP down at the end of this call.
    failure: Option<FlushReason>,
    sent_messages: u64,
    rcvd_rnr_naks: u64,
    pub(crate) una: Psn,
    pub(crate) psn: Psn,
    pub(crate) next_new: Psn,
    /// Index in the send queue of the request that `psn` belongs to, or that is numbered next.
    pub(crate) cursor: usize,
    /// READs and atomics whose responses are expected, in PSN order.
    pub(crate) reads: VecDeque<ReadSlot>,
    /// Packets since the last one with AckReq.
    pub(crate) since_ack_request: u32,
    /// An ACK was asked for a moment ago, so that unsignaled messages leave without AckReq (ADR 18).
    pub(crate) suppresses_ack_requests: bool,
    /// Most PSNs in flight; shrinks on loss, grows with progress.
    pub(crate) window: u32,
    /// PSNs acknowledged since the window last grew (congestion avoidance).
    pub(crate) acked_since_growth: u32,
    pub(crate) retries_left: u8,
    pub(crate) rnr_retries_left: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    /// When the local ACK timeout fires.
    pub(crate) ack_deadline: Option<Instant>,
    /// Nothing goes out before this time (R76, B15).
    pub(crate) rnr_until: Option<Instant>,
    /// The PSN that the receiver was not ready for; meaningful during the wait.
    pub(crate) rnr_psn: Psn,
    /// Why what was sent before `next_new` is sent again.
    pub(crate) retransmission: Retransmission,
    /// Any response arrived on this QP.
    pub(crate) any_response: bool,
    /// The middle packets of the message that is being sent.
    pub(crate) middle: Option<Middle>,
    pub(crate) tail_probe: TailProbe,
    pub(crate) selective_repeat: SelectiveRepeat,
    /// Slow start: nothing was lost yet, and the window doubles in each round trip.
    pub(crate) slow_start: bool,
    /// Whether trains get lost.
    pub(crate) doubts: Doubts,
}

impl Default for Requester {
    fn default() -> Self {
        Requester {
            send_queue: SendQueue::default(),
            awake: false,
            failure: None,
            sent_messages: 0,
            rcvd_rnr_naks: 0,
            una: Psn::new(0),
            psn: Psn::new(0),
            next_new: Psn::new(0),
            cursor: 0,
            reads: VecDeque::new(),
            since_ack_request: 0,
            suppresses_ack_requests: false,
            window: limits::INITIAL_WINDOW,
            acked_since_growth: 0,
            retries_left: 0,
            rnr_retries_left: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            ack_deadline: None,
            rnr_until: None,
            rnr_psn: Psn::new(0),
            retransmission: Retransmission::default(),
            any_response: false,
            middle: None,
            tail_probe: TailProbe::default(),
            selective_repeat: SelectiveRepeat::default(),
            slow_start: true,
            doubts: Doubts::default(),
        }
    }
}

impl Requester {
    pub(crate) fn new(caps: &QpCaps) -> Self {
        Requester { send_queue: SendQueue::new(caps), ..Requester::default() }
    }

    /// Something changed: there may be something to send.
    pub(crate) fn wake(&mut self) {
        self.awake = true;
    }

    /// True if the QP fails at the end of this call.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// What takes the QP down.
    pub(crate) fn take_failure(&mut self) -> Option<FlushReason> {
        self.failure.take()
    }

    /// Send work requests that succeeded.
    pub(crate) fn sent_messages(&self) -> u64 {
        self.sent_messages
    }

    /// RNR NAKs received.
    pub(crate) fn rcvd_rnr_naks(&self) -> u64 {
        self.rcvd_rnr_naks
    }

    /// True if the oldest request has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.send_queue.front().is_some_and(|wqe| wqe.numbered)
    }

    /// Sets the first PSN (R20).
    pub(crate) fn start(&mut self, psn: Psn) {
        self.una = psn;
        self.psn = psn;
        self.next_new = psn;
        self.cursor = 0;
        self.middle = None;
        self.tail_probe.forget_sample();
        self.selective_repeat.forget();
        self.selective_repeat.responses = Scoreboard::default();
        self.selective_repeat.note_responses();
        self.reads.clear();
    }

    pub(crate) fn refill_retries(&mut self, retry_cnt: u8, rnr_retry: u8) {
        self.retry_cnt = retry_cnt;
        self.rnr_retry = rnr_retry;
        self.retries_left = retry_cnt;
        self.rnr_retries_left = rnr_retry;
    }

    /// First PSN that was never sent.
    pub(crate) fn next_new(&self) -> Psn {
        self.next_new
    }

    /// PSNs between the oldest unacknowledged one and the next to send.
    pub(crate) fn outstanding(&self) -> u32 {
        self.psn.since(self.una).max(0) as u32
    }

    /// A packet leaves that asks for an ACK, or not.
    #[inline]
    pub(crate) fn note_ack_request(&mut self, asked: bool) {
        self.since_ack_request = if asked { 0 } else { self.since_ack_request + 1 };
        if self.suppresses_ack_requests && !asked && self.since_ack_request > self.outstanding() {
            // No answer was asked for: the silence begins with this packet.
            self.tail_probe.wait_anew();
        }
    }

    /// True while a request that was sent waits for its acknowledgement.
    pub(crate) fn in_flight(&self) -> bool {
        self.next_new != self.una
    }

    /// True if `psn` was sent and is not acknowledged.
    pub(crate) fn is_outstanding(&self, psn: Psn) -> bool {
        psn.since(self.una) >= 0 && psn.since(self.next_new) < 0
    }

    /// When the next timer fires.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let probe = self.tail_probe.at().into_iter();
        self.rnr_until.or_else(|| probe.chain(self.ack_deadline).min())
    }

    /// True if what goes out next has never been out, and nothing holds it back.
    #[inline]
    pub(crate) fn sends_new(&self) -> bool {
        self.psn == self.next_new
            && self.rnr_until.is_none()
            && !self.selective_repeat.is_under_way()
    }

    /// Forgets READs that will be asked for again from `psn` on.
    pub(crate) fn forget_reads_from(&mut self, psn: Psn) {
        while self.reads.back().is_some_and(|read| read.last.since(psn) >= 0) {
            self.reads.pop_back();
        }
    }

    /// R75: progress refills the retry counters. Until something is lost the window doubles in
    /// each round, afterwards it grows slowly.
    pub(crate) fn note_progress(&mut self, acknowledged: u32) {
        self.retries_left = self.retry_cnt;
        self.rnr_retries_left = self.rnr_retry;
        if self.slow_start {
            self.window = self.window.saturating_add(acknowledged).min(limits::MAX_WINDOW);
            return;
        }
        self.acked_since_growth += acknowledged;
        let growth = self.acked_since_growth / limits::WINDOW_GROWTH;
        self.acked_since_growth %= limits::WINDOW_GROWTH;
        self.window = (self.window + growth).min(limits::MAX_WINDOW);
    }

    /// Loss: a quarter less in flight.
    pub(crate) fn note_loss(&mut self) {
        self.window = (self.window - self.window / 4).max(limits::MIN_WINDOW);
        self.acked_since_growth = 0;
        self.slow_start = false;
    }

    /// The peer did not answer at all: as little as there can be in flight.
    pub(crate) fn note_silence(&mut self) {
        self.note_loss();
        self.window = limits::MIN_WINDOW;
    }

    /// Loss of a packet whose followers have arrived: a little less in flight.
    pub(crate) fn note_single_loss(&mut self) {
        let less = self.window - self.window / limits::SINGLE_LOSS_SHARE;
        self.window = less.max(limits::MIN_WINDOW);
        self.slow_start = false;
    }

    /// SQE to RTS (UC, UD): start over behind what was flushed.
    pub(crate) fn resume_after_error(&mut self) {
        self.start(self.next_new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r15_outstanding_psns_across_the_wrap() {
        let mut requester = Requester::default();
        requester.start(Psn::new(0xff_fffe));
        requester.next_new = Psn::new(3);
        requester.psn = Psn::new(3);
        assert_eq!(requester.outstanding(), 5);
        assert!(requester.is_outstanding(Psn::new(0xff_ffff)));
        assert!(requester.is_outstanding(Psn::new(2)));
        assert!(!requester.is_outstanding(Psn::new(3)));
        assert!(!requester.is_outstanding(Psn::new(0xff_fffd)));
    }

    #[test]
    fn rnr_wait_hides_the_ack_timeout() {
        let requester = Requester {
            rnr_until: Some(Instant::from_nanos(500)),
            ack_deadline: Some(Instant::from_nanos(100)),
            ..Requester::default()
        };
        assert_eq!(requester.deadline(), Some(Instant::from_nanos(500)));
    }

    #[test]
    fn the_window_shrinks_on_loss_and_stays_in_bounds() {
        let mut requester = Requester::default();
        for _ in 0..20 {
            requester.note_loss();
        }
        assert_eq!(requester.window, limits::MIN_WINDOW);
        for _ in 0..100_000 {
            requester.note_progress(1);
        }
        assert_eq!(requester.window, limits::MAX_WINDOW);
    }
}
