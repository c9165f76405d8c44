//! READ responses that come before an earlier one (docs/adr/023-read-responses-out-of-order.md).
//!
//! The PSN of a response says where its bytes belong, so a response behind a missing one is placed when it
//! comes, and only what is missing is asked for again. Which responses are there is noted in a table of
//! PSNs, as TCP notes what was acknowledged selectively (RFC 6675 calls it the scoreboard). Requests complete in
//! order all the same, each when all of its bytes are there.

use uroce_wire::{DropReason, Packet, Psn};

use crate::context::{Context, Transmit};
use crate::limits;
use crate::qp::config::QpConfig;
use crate::qp::requester::completer::Misplaced;
use crate::qp::requester::{ReadSlot, Requester};
use crate::retransmission::Retransmission;
use crate::time::Instant;

const WORDS: usize = limits::MAX_WINDOW as usize / 64;

/// Which responses were taken in though earlier ones are missing.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    /// By PSN, for a window of them behind the oldest missing one.
    placed: [u64; WORDS],
    /// One past the last PSN that the peer is known to have answered. None: no response is known to be missing.
    answered: Option<Psn>,
    /// Missing responses before this one were asked for again.
    asked: Psn,
    /// The oldest request that waits for a response shall go out again, whatever is known of it.
    oldest: bool,
    /// What is asked for now was asked for before, and silence followed.
    repeats: bool,
}

/// Word and bit of a PSN.
fn place(psn: Psn) -> (usize, u64) {
    let index = psn.get() as usize % limits::MAX_WINDOW as usize;
    (index / 64, 1 << (index % 64))
}

impl Scoreboard {
    /// True if the response was taken in before its turn.
    fn has(&self, psn: Psn) -> bool {
        let (word, bit) = place(psn);
        self.placed[word] & bit != 0
    }

    fn set(&mut self, psn: Psn) {
        let (word, bit) = place(psn);
        self.placed[word] |= bit;
    }

    fn clear(&mut self, psn: Psn) {
        let (word, bit) = place(psn);
        self.placed[word] &= !bit;
    }

    /// One past the last PSN that is known to be answered, if a response before it is missing.
    pub(crate) fn answered(&self) -> Option<Psn> {
        self.answered
    }

    /// A response is missing that the peer has sent, or that it is asked for again.
    pub(crate) fn is_active(&self) -> bool {
        self.oldest || self.answered.is_some()
    }

    /// The oldest missing response has come: silence has ended.
    pub(crate) fn note_progress(&mut self) {
        (self.oldest, self.repeats) = (false, false);
    }

    /// True if the response may have been asked for again, alone or with some of its neighbours. That it is about to
    /// be asked for once more does not matter: the response to an earlier request may come late.
    pub(crate) fn may_be_asked_again(&self, psn: Psn) -> bool {
        self.answered.is_some_and(|end| end.since(psn) > 0)
    }

    /// Something is to be asked for again.
    fn wants_to_ask(&self) -> bool {
        self.oldest || self.answered.is_some_and(|end| end.since(self.asked) > 0)
    }

    /// Nothing else that is known to be missing is there to ask for.
    fn note_all_asked(&mut self) {
        self.oldest = false;
        self.asked = self.answered.unwrap_or(self.asked);
    }

    /// The peer has answered everything before `end`, and the response `una` is missing. How many PSNs are
    /// newly known to be answered.
    fn note_answered(&mut self, una: Psn, end: Psn) -> u32 {
        let before = match self.answered {
            Some(before) if before.since(una) > 0 => before,
            _ => {
                self.asked = una;
                una
            }
        };
        let more = end.since(before).max(0) as u32;
        self.answered = Some(before.add(more));
        more
    }

    /// Everything before `una` is done with.
    fn pass(&mut self, una: Psn) {
        if self.answered.is_some_and(|end| una.since(end) >= 0) {
            *self = Scoreboard::default();
        }
    }

    /// How many responses from `psn` on were taken in, `most` at most.
    fn run(&self, psn: Psn, most: u32) -> u32 {
        (0..most).take_while(|ahead| self.has(psn.add(*ahead))).count() as u32
    }

    /// The last of the missing responses from `psn` to `last`.
    fn last_missing(&self, psn: Psn, last: Psn) -> Psn {
        let Some(end) = self.answered.filter(|end| end.since(psn) > 0) else {
            return last;
        };
        let most = last.since(psn).min(end.since(psn) - 1).max(0) as u32;
        let missing = (1..=most).take_while(|ahead| !self.has(psn.add(*ahead))).count();
        psn.add(missing as u32)
    }
}

impl Requester {
    /// True if something lost is to be sent or asked for again, before all else, or the last packet as a probe. It is
    /// on its way already as far as others on this path are concerned.
    pub(crate) fn wants_repair(&self) -> bool {
        let selective_repeat = &self.selective_repeat;
        selective_repeat.wants_to_send()
            || selective_repeat.responses.wants_to_ask()
            || self.next_new.since(self.psn) == 1
    }

    /// The last PSN that a READ REQUEST at `psn` asks for: the end of its piece or of the gap.
    pub(crate) fn read_request_last(&self, psn: Psn, piece_last: Psn) -> Psn {
        self.selective_repeat.responses.last_missing(psn, piece_last)
    }

    /// A response behind a missing one: its bytes go to their place, the missing ones are asked for.
    pub(crate) fn take_early(
        &mut self,
        config: &QpConfig,
        now: Instant,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        match self.place_early(config, packet, cx) {
            Ok(()) => self.selective_repeat.responses.set(psn),
            // It is no answer to the request with this PSN, which may have been lost.
            Err(Misplaced::Unexpected) => return cx.counters.drop(DropReason::UnexpectedResponse),
            Err(_) => cx.counters.drop(DropReason::ResponseOutOfOrder),
        }
        self.handle_implied_nak(config, now, psn.add(1));
    }

    /// Nothing has changed if it is not what was asked for, or is too far ahead.
    fn place_early(
        &self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Misplaced> {
        let psn = packet.bth.psn;
        let near = (psn.since(self.una) as u32) < limits::MAX_WINDOW;
        let index = if near { self.index_of(psn) } else { None };
        let wqe = index.and_then(|index| self.send_queue.get(index));
        self.place_response(config, wqe.ok_or(Misplaced::Unexpected)?, packet, cx)
    }

    /// R68: a response or an acknowledgement shows that the peer has answered everything before `end`, and the
    /// oldest response is missing. What is missing is asked for once; if that is lost too, a probe follows.
    pub(crate) fn handle_implied_nak(&mut self, config: &QpConfig, now: Instant, end: Psn) {
        let end = if end.since(self.next_new) > 0 { self.next_new } else { end };
        let begins = self.selective_repeat.responses.answered().is_none();
        let more = self.selective_repeat.responses.note_answered(self.una, end);
        self.selective_repeat.note_responses();
        if begins || more > 1 {
            match more > limits::SELECTIVE_REPEAT_BURST {
                true => self.note_loss(),
                false => self.note_single_loss(),
            }
            self.tail_probe.note_rewind();
            self.arm_tail_probe(config, now);
        }
        self.skip_answered(config);
        self.wake();
    }

    /// What the peer has answered is not sent again in its turn: what is missing of it is asked for.
    fn skip_answered(&mut self, config: &QpConfig) {
        let Some(end) = self.selective_repeat.responses.answered() else { return };
        if end.since(self.psn) <= 0 {
            return;
        }
        while end.since(self.psn) > 0 {
            let psn = self.psn;
            let Some(wqe) = self.index_of(psn).and_then(|index| self.send_queue.get(index)) else {
                return;
            };
            let last = if wqe.op.is_read() {
                self.read_piece_last(config, wqe, psn)
            } else {
                wqe.last_psn()
            };
            let whole = end.since(last) > 0;
            if whole && wqe.needs_response() {
                self.reads.push_back(ReadSlot { first: psn, last });
            }
            self.psn = if whole { last.add(1) } else { end };
            self.middle = None;
        }
        self.point_at(self.psn);
    }

    /// Completes what is complete up to the next missing response.
    pub(crate) fn settle_early(&mut self, config: &QpConfig, now: Instant, cx: &mut Context<'_>) {
        // Each round passes one work request at least, or is the last.
        while let Some(end) = self.selective_repeat.responses.answered() {
            let una = self.una;
            if end.since(una) > 0 && self.acknowledge(config, now, end.sub(1), cx).is_none() {
                break;
            }
            let una = self.una;
            let Some(wqe) = self.send_queue.front() else { break };
            let left = wqe.last_psn().since(una).max(0) as u32 + 1;
            let run = self.selective_repeat.responses.run(una, left.min(limits::MAX_WINDOW));
            if run == 0 {
                break;
            }
            (0..run).for_each(|ahead| self.selective_repeat.responses.clear(una.add(ahead)));
            self.finish_responses(config, now, una.add(run - 1), cx);
        }
        self.selective_repeat.responses.pass(self.una);
        self.selective_repeat.note_responses();
    }

    /// Silence: asks again for all responses that are known to be missing, or for those of the oldest request.
    pub(crate) fn ask_again(&mut self) {
        let responses = &mut self.selective_repeat.responses;
        responses.repeats = true;
        match responses.answered() {
            Some(_) => responses.asked = self.una,
            None => responses.oldest = true,
        }
        self.selective_repeat.note_responses();
        self.wake();
    }

    /// The next request for missing responses.
    #[inline(never)]
    pub(crate) fn poll_missing(
        &mut self,
        config: &QpConfig,
        now: Instant,
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Option<Transmit> {
        let Some(psn) = self.next_missing() else {
            self.selective_repeat.responses.note_all_asked();
            return None;
        };
        let index = self.index_of(psn)?;
        let wqe = *self.send_queue.get(index)?;
        let last = match wqe.op.is_read() {
            true => self.read_request_last(psn, self.read_piece_last(config, &wqe, psn)),
            false => psn,
        };
        let responses = &mut self.selective_repeat.responses;
        let again = match responses.repeats {
            true => Retransmission::TailProbe,
            false => Retransmission::ImpliedNak,
        };
        (responses.asked, responses.oldest) = (last.add(1), false);
        self.selective_repeat.note_responses();
        let turn = std::mem::replace(&mut self.psn, psn);
        let sent = self.emit_request(config, &wqe, out, cx);
        self.psn = turn;
        match sent {
            Ok(transmit) => {
                cx.counters.retransmit(1, again);
                self.arm_ack_timer(config, now);
                Some(transmit)
            }
            Err(failure) => self.fail_if_oldest(config, index, failure, cx),
        }
    }

    /// The first response that is missing and was not asked for again.
    fn next_missing(&self) -> Option<Psn> {
        let (una, responses) = (self.una, &self.selective_repeat.responses);
        if responses.oldest {
            return Some(una);
        }
        let end = responses.answered()?;
        let mut psn = if responses.asked.since(una) > 0 { responses.asked } else { una };
        while end.since(psn) > 0 {
            let wqe = self.send_queue.get(self.index_of(psn)?)?;
            match (wqe.needs_response(), responses.has(psn)) {
                (true, false) => return Some(psn),
                (true, true) => psn = psn.add(1),
                // It was executed, or nothing behind it would have been answered.
                (false, _) => psn = wqe.last_psn().add(1),
            }
        }
        None
    }
}
