//! The requester: sends work requests as packets, and takes in what the peer answers.

mod completer;
mod emit;
mod fast_path;
mod go_back_n;
pub(crate) mod invariants;
mod path_capacity;
mod placement;
mod read_split;
mod scoreboard;
mod segment;
mod selective_repeat;
mod send_queue;
mod send_window;
mod small;
mod timers;
mod transmit;

use std::collections::VecDeque;

use fast_path::Middle;
pub(super) use fast_path::take_response_train;
use selective_repeat::SelectiveRepeat;
use send_queue::SendQueue;
use send_window::{AckRequests, CongestionWindow, PsnWindow};
pub(super) use small::poll_small_train;
use timers::{AckTimer, RnrWait, TailProbe};
use uroce_wire::Psn;

use crate::attr::QpCaps;
use crate::cause::FlushReason;
use crate::context::{Context, Transmit};
use crate::qp::config::{Features, QpConfig};
use crate::qp::trains::Doubts;
use crate::retransmission::Retransmission;
use crate::time::Instant;
use crate::wr::{PostError, SendOp, SendWr};

/// A READ request or atomic on its way, by the PSNs of its response (R79).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReadSlot {
    first: Psn,
    last: Psn,
}

/// State of the requester of one QP.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    send_queue: SendQueue,
    /// There may be something to send; cleared when there was nothing.
    awake: bool,
    /// What takes the QP down at the end of this call.
    failure: Option<FlushReason>,
    sent_messages: u64,
    rcvd_rnr_naks: u64,
    psns: PsnWindow,
    /// READs and atomics whose responses are expected, in PSN order.
    reads: VecDeque<ReadSlot>,
    ack_requests: AckRequests,
    /// How much may be on its way.
    pub(in crate::qp) window: CongestionWindow,
    ack_timer: AckTimer,
    rnr_wait: RnrWait,
    /// Why what was sent before is sent again.
    retransmission: Retransmission,
    /// Any response arrived on this QP.
    any_response: bool,
    /// The middle packets of the message that is being sent.
    middle: Option<Middle>,
    tail_probe: TailProbe,
    selective_repeat: SelectiveRepeat,
    /// Whether trains get lost.
    doubts: Doubts,
}

impl Requester {
    pub(crate) fn new(caps: &QpCaps) -> Self {
        Requester { send_queue: SendQueue::new(caps), ..Requester::default() }
    }

    /// Switches features on or off, as the device says.
    pub(crate) fn set_features(&mut self, features: &Features) {
        self.tail_probe.enable(features.tail_probes);
        self.selective_repeat.enable(features.selective_repeat);
    }

    /// Queues a work request.
    #[inline]
    pub(crate) fn post(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.send_queue.push(wr)?;
        self.wake();
        Ok(())
    }

    /// Writes the next request packet, if one may go out.
    #[inline]
    pub(crate) fn poll_request(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        self.ack_requests.suppress(self.tail_probe.may_suppress_ack_request(now));
        let sent = match self.poll_fast_path(config, now, out, cx) {
            Some(sent) => Some(sent),
            None => self.poll_slow_path(config, now, out, cx),
        };
        self.awake = sent.is_some() || self.selective_repeat.take_pause();
        sent
    }

    /// One of the next `packets` packets has to ask for an ACK, wherever in their messages they are; if they leave
    /// together, the last does.
    #[inline]
    fn wants_ack_within(&self, packets: u32) -> bool {
        self.ack_requests.is_due(packets, self.window.packets())
    }

    /// Starts the local ACK timer if it does not run.
    pub(crate) fn arm_ack_timer(&mut self, config: &QpConfig, now: Instant) {
        self.tail_probe.arm(now, &self.selective_repeat, config.attr.timeout);
        if self.ack_timer.deadline().is_none() {
            self.window.note_start(now, config.mtu_shift());
            self.restart_ack_timer(config, now);
        }
    }

    /// Starts the local ACK timer anew, or stops it when nothing is in flight.
    pub(crate) fn restart_ack_timer(&mut self, config: &QpConfig, now: Instant) {
        if config.init.qp_type.is_reliable() && self.psns.in_flight() {
            self.ack_timer.restart(now, config.attr.timeout);
        } else {
            self.ack_timer.stop();
        }
    }

    /// The send queue, to look at.
    pub(crate) fn send_queue(&self) -> &SendQueue {
        &self.send_queue
    }

    /// The PSNs that are on their way, to look at.
    #[inline]
    pub(crate) fn psns(&self) -> &PsnWindow {
        &self.psns
    }

    /// Something changed: there may be something to send.
    #[inline]
    pub(crate) fn wake(&mut self) {
        self.awake = true;
    }

    /// True if there may be something to send.
    #[inline]
    pub(crate) fn wants_transmit(&self) -> bool {
        self.awake
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

    /// Send work requests that succeeded, and RNR NAKs received.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent_messages, self.rcvd_rnr_naks)
    }

    /// Sets the first PSN (R20), and forgets what was on its way.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.psns.start(psn);
        self.send_queue.rewind();
        self.middle = None;
        self.tail_probe.forget_sample();
        self.selective_repeat.reset();
        self.reads.clear();
    }

    pub(crate) fn set_retries(&mut self, retry_cnt: u8, rnr_retry: u8) {
        self.ack_timer.set_retries(retry_cnt);
        self.rnr_wait.set_retries(rnr_retry);
    }

    /// When the next timer fires: the end of an RNR wait hides the others.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let probe = self.tail_probe.at().into_iter();
        self.rnr_wait.until().or_else(|| probe.chain(self.ack_timer.deadline()).min())
    }

    /// Lets the next packet ask for an ACK unless an ACK that was asked for covers all that is on its way.
    pub(crate) fn ask_for_ack(&mut self) -> bool {
        self.ack_requests.cover()
    }

    /// No tail probe was answered, and no further one is sent.
    #[inline]
    pub(crate) fn has_given_up_probing(&self) -> bool {
        self.tail_probe.is_exhausted()
    }

    /// Several middle packets of a message may leave as a run.
    #[inline]
    pub(crate) fn may_run(&self) -> bool {
        self.middle.is_some_and(|middle| middle.may_run())
    }

    /// What was sent in trains did not arrive.
    #[inline]
    pub(crate) fn doubts_trains(&self) -> bool {
        self.doubts.are_strong()
    }

    /// True once after single packets got through where trains did not.
    #[inline]
    pub(crate) fn take_lost_trains(&mut self) -> bool {
        self.doubts.take_lost()
    }
}

/// The path, or its path MTU, is another one.
pub(super) fn start_path(requester: &mut Requester, mtu_shift: u32) {
    requester.window.start_path(mtu_shift);
    requester.ack_requests.start_path(mtu_shift);
}

/// What goes out next is new, and a whole WRITE without immediate data: the peer's application sees its bytes, and no completion.
#[inline]
pub(super) fn next_is_short_write(requester: &Requester, config: &QpConfig) -> bool {
    let is_next = requester.send_queue.current().is_some_and(|wqe| {
        let is_whole = !wqe.numbered && wqe.length <= config.mtu();
        is_whole && matches!(wqe.op, SendOp::Write { .. })
    });
    is_next && requester.is_plain_in_order(config)
}

/// A request waits, or one may have to be repeated. False behind an ACK that woke the requester and found all sent.
#[inline]
pub(super) fn may_have_request(requester: &Requester, config: &QpConfig) -> bool {
    may_send_more(requester) || (requester.awake && !requester.is_plain_in_order(config))
}

/// How many of the next `most` packets leave until one has to ask for an ACK, that one included.
pub(super) fn until_ack_is_due(requester: &Requester, most: u32) -> u32 {
    requester.ack_requests.until_due(requester.window.packets()).max(1).min(most)
}

/// Behind a packet that was sent just now another one may follow.
#[inline]
pub(super) fn may_send_more(requester: &Requester) -> bool {
    requester.awake && requester.send_queue.current().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_wait_hides_the_ack_timeout() {
        let mut requester = Requester::default();
        requester.ack_timer.restart(Instant::from_nanos(100), 1);
        assert!(requester.deadline().is_some_and(|at| at < Instant::from_nanos(50_000)));
        requester.rnr_wait.begin(Psn::new(0), Psn::new(1), Instant::from_nanos(50_000));
        assert_eq!(requester.deadline(), Some(Instant::from_nanos(50_000)));
    }

    #[test]
    fn r56_one_sequence_nak_behind_an_rnr_nak_is_no_loss() {
        let mut wait = RnrWait::default();
        assert!(!wait.excuses(Psn::new(5)), "without an RNR NAK");
        wait.begin(Psn::new(4), Psn::new(8), Instant::from_nanos(1));
        assert!(!wait.excuses(Psn::new(8)), "it was not sent yet");
        assert!(wait.excuses(Psn::new(5)) && !wait.excuses(Psn::new(5)), "once");
    }
}
