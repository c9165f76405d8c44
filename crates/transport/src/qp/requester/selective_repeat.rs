//! The requester's side of selective repeat: only what is missing is sent again, to a peer with a reorder buffer (ADR 17).
//!
//! No message tells whether a peer has a reorder buffer; its answer to a retransmission does. After its first sequence NAK
//! the requester sends the missing packet alone and waits. An ACK beyond that packet can only come from a peer that had
//! buffered the ones behind it. An ACK of just that packet comes from a peer that dropped them: the requester goes back
//! (go-back-N), now and at each later NAK at once.

use uroce_memory::mutation::mutated;
use uroce_wire::{
    ANY_PART, DropReason, Gap, Packet, Psn, TAKES_GAP_LISTS, read_gap_list, read_seen,
};

use super::placement::{Misplaced, Responded};
use super::scoreboard::Scoreboard;
use super::segment::Segment;
use super::send_queue::{SendQueue, SendWqe};
use super::send_window::{AckRequests, PsnWindow};
use super::{ReadSlot, Requester};
use crate::context::{Context, Transmit};
use crate::limits;
use crate::qp::config::QpConfig;
use crate::retransmission::Retransmission;
use crate::time::Instant;

/// What the peer does with packets behind a PSN gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum GapHandling {
    #[default]
    Unknown,
    Reorders,
    Discards,
}

/// The list behind a sequence NAK for `psn`, while `next` goes out next, and `next_new` is the first PSN that has never been out.
/// Gaps beyond the former and packets seen beyond the latter are made up.
#[derive(Debug, Clone, Copy)]
pub(super) struct GapList<'a> {
    pub(super) psn: Psn,
    pub(super) bytes: &'a [u8],
    pub(super) next: Psn,
    pub(super) next_new: Psn,
}

impl GapList<'_> {
    /// One past the last PSN that the peer had seen when it wrote this.
    fn seen(&self) -> Option<Psn> {
        read_seen(self.bytes, self.psn).filter(|seen| self.next_new.since(*seen) >= 0)
    }

    /// True if the peer had seen a packet behind those before `end`.
    fn has_seen_beyond(&self, end: Psn) -> bool {
        self.seen().is_some_and(|seen| seen.since(end) > 0)
    }
}

/// Packets that are sent again before new ones.
#[derive(Debug, Default)]
pub(crate) struct SelectiveRepeat {
    /// Switched on by the device. Without it the requester goes back (go-back-N) at each NAK.
    enabled: bool,
    peer: GapHandling,
    /// The next of them, and how many still have to go out.
    next: Psn,
    left: u32,
    /// The first of all of them.
    start: Psn,
    /// Their number, and one past the PSN of the last, until a later packet is acknowledged.
    run: u32,
    end: Option<Psn>,
    /// Further gaps that the NAK has told and whose packets still have to go out, the first one last (ADR 33).
    further: Vec<Gap>,
    /// A list of gaps has come, and `end` is that of the last one.
    has_list: bool,
    /// The last of them has just been written; the batch ends behind it.
    pause: bool,
    /// All of them have left, before the packet with this PSN was out: if the peer has that one, what it still misses of them was
    /// lost again, unless the network reorders (as a packet threshold of 1 in RFC 9002, section 6.1.1).
    left_before: Option<Psn>,
    /// The peer has sent a list that says how far it has seen.
    tells_seen: bool,
    /// The next SEND or WRITE packet that has never been out asks the peer what it misses then.
    asks_next: bool,
    /// How many of those have left since the last progress although the window was full.
    asked_beyond_window: u32,
    /// A NAK for the first PSN made the requester go back to it, when the second one had never been out.
    went_back: Option<(Psn, Psn)>,
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

    /// True while packets that were sent again before new ones are not acknowledged, or READ responses are missing.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// What has never been out may go out next on the fast path: nothing goes before it, and it asks for nothing.
    #[inline]
    pub(super) fn lets_new_pass(&self) -> bool {
        !self.under_way
            || !self.wants_to_send()
                && !self.holds_others()
                && !self.responses.is_active()
                && !self.asks_next
    }

    /// Something that was sent before goes out next.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.left > 0 || !self.further.is_empty()
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
    /// acknowledged: another NAK for them is a copy. Of a list, packets before `una` may be.
    pub(crate) fn was_asked_for(&self, una: Psn) -> bool {
        let all = |end: Psn| end == una.add(self.run) || self.has_list && end.since(una) > 0;
        self.asked && self.end.is_some_and(all)
    }

    /// A NAK for the oldest packet says that what was sent again was lost again, and has a list of what is missing now.
    pub(super) fn was_lost_again(&self, list: GapList<'_>) -> bool {
        self.asked
            && !self.wants_to_send()
            && self.left_before.is_some_and(|before| list.has_seen_beyond(before))
            && self.first_gap(list).is_some()
    }

    /// The requester went back to the PSN of this NAK, and the peer may have written it before that.
    pub(super) fn has_gone_back_for(&self, list: GapList<'_>) -> bool {
        // A peer that has seen what has never been out was told so by somebody else: nothing says that this is news.
        let same = |from: Psn| from == list.psn && read_seen(list.bytes, list.psn).is_some();
        self.went_back.is_some_and(|(from, next)| same(from) && !list.has_seen_beyond(next))
    }

    /// The requester has gone back to the PSN of this NAK, and it was lost again: the peer has seen what left behind that.
    pub(super) fn has_gone_back_in_vain_for(&self, list: GapList<'_>) -> bool {
        self.went_back.is_some_and(|(from, next)| from == list.psn && list.has_seen_beyond(next))
    }

    /// The requester has gone back: to the first PSN, for which a NAK has asked, when the second one had never been out; or for
    /// another reason.
    pub(super) fn note_going_back(&mut self, asked: Option<(Psn, Psn)>) {
        self.went_back = asked;
    }

    /// The next SEND or WRITE packet may leave although the window is full, since it asks for a list: nothing else tells what was
    /// lost again. A few of them may until there is progress.
    pub(super) fn may_ask_beyond_window(&self) -> bool {
        self.asks_next && self.asked_beyond_window < limits::ASKS_BEYOND_WINDOW
    }

    /// The next packet of a SEND or WRITE that had never been out has left; the window had room for it, or not.
    pub(super) fn note_new(&mut self, had_room: bool) {
        self.asked_beyond_window += u32::from(self.asks_next && !had_room);
        self.asks_next = false;
    }

    /// Reserved bits of the packet `psn` of a request: a packet that is sent again alone tells the peer that this requester
    /// takes gap lists, and the next `new` one behind those, of a SEND or WRITE, asks for one; a READ REQUEST for what is missing
    /// asks whether it has to come before others.
    pub(super) fn announcement(&self, psn: Psn, new: bool) -> u8 {
        let alone = self.asked && self.end.is_some_and(|end| end.since(psn) > 0);
        match self.enabled {
            true if alone || self.asks_next && new => TAKES_GAP_LISTS,
            true if self.responses.may_be_asked_again(psn) => ANY_PART,
            _ => 0,
        }
    }

    /// The gaps of a list, as far as it makes sense; none if nobody has asked for lists. So much is told at a time at most.
    fn gaps_of<'a>(&self, list: GapList<'a>) -> impl Iterator<Item = Gap> + use<'a> {
        let bytes = if self.enabled { list.bytes } else { &[] };
        let mut left = limits::PACKETS_PER_GAP_LIST;
        read_gap_list(bytes, list.psn).take_while(move |gap| {
            let fits = gap.packets <= left && list.next.since(gap.end()) >= 0;
            left = left.saturating_sub(gap.packets);
            fits
        })
    }

    /// How many packets are missing from the PSN of the NAK on, if it has a list.
    pub(super) fn first_gap(&self, list: GapList<'_>) -> Option<u32> {
        let first = self.gaps_of(list).next().filter(|gap| gap.first == list.psn);
        first.map(|gap| gap.packets)
    }

    /// How many packets the peer keeps between the gaps of this list.
    pub(super) fn kept(&self, list: GapList<'_>) -> u32 {
        let (missing, end) = self
            .gaps_of(list)
            .fold((0, list.psn), |(missing, _), gap| (missing + gap.packets, gap.end()));
        (end.since(list.psn).max(0) as u32).saturating_sub(missing)
    }

    /// A NAK has told of gaps: those behind what was sent again already go out, too. Returns how many.
    pub(super) fn add_gaps(&mut self, list: GapList<'_>) -> u32 {
        let mut gaps = self.gaps_of(list).peekable();
        let Some(end) = self.end.filter(|_| gaps.peek().is_some()) else { return 0 };
        // They are told by somebody who keeps what is between them.
        (self.peer, self.misses, self.has_list) = (GapHandling::Reorders, 0, true);
        self.tells_seen |= list.seen().is_some();
        let before = self.further.len();
        self.further.extend(gaps.filter(|gap| gap.first.since(end) >= 0));
        let added = self.further.len() - before;
        if let Some(last) = self.further[before..].last() {
            (self.end, self.left_before) = (Some(last.end()), None);
            self.further[before..].reverse();
            self.further.rotate_left(before);
        }
        let in_order = |two: &[Gap]| two[1].end().since(two[0].first) <= 0;
        debug_assert!(self.further.windows(2).all(in_order), "the first gap is last");
        added as u32
    }

    /// True if this peer has shown that it has a reorder buffer.
    pub(crate) fn peer_reorders(&self) -> bool {
        self.enabled && self.peer == GapHandling::Reorders
    }

    /// True if nothing else may go out: what was sent again leaves alone, so that the answer comes soon;
    /// or what the peer does with the rest is not known yet.
    pub(crate) fn holds_others(&self) -> bool {
        self.end.is_some() && (self.pause || self.peer == GapHandling::Unknown)
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
        self.forget_list();
        (self.pause, self.asks_next, self.left_before) = (false, false, None);
        self.note_responses();
    }

    /// What a list told of was sent again, and not all of it has arrived: the next one tells again. True if no more than one
    /// packet of it has arrived, as where trains get lost; `una` is the oldest packet that is not acknowledged.
    pub(super) fn give_up_list(&mut self, una: Psn) -> bool {
        let in_vain = self.has_list && una.since(self.start) <= 1;
        self.forget_list();
        in_vain
    }

    fn forget_list(&mut self) {
        self.further.clear();
        self.has_list = false;
    }

    /// Silence: asks again for all responses that are known to be missing, or for those of the oldest request.
    pub(super) fn ask_again(&mut self, una: Psn) {
        self.responses.ask_again(una);
        self.note_responses();
    }

    /// Nothing is on its way any more.
    pub(super) fn reset(&mut self) {
        self.responses.reset();
        self.note_going_back(None);
        self.tells_seen = false;
        self.forget();
    }

    /// Everything before `una` is acknowledged.
    #[inline]
    pub(crate) fn note_progress(&mut self, una: Psn, now: Instant) {
        self.asked_beyond_window = 0;
        if self.under_way {
            self.note_repaired(una, now);
        }
    }

    #[inline(never)]
    fn note_repaired(&mut self, una: Psn, now: Instant) {
        self.responses.note_progress();
        if self.wants_to_send() {
            self.pass(una);
        }
        let Some(beyond) = self.end.map(|end| una.since(end)).filter(|beyond| *beyond >= 0) else {
            return;
        };
        if let Some(left_at) = self.left_at.take() {
            let sample = now.since(left_at).max(1);
            let old = if self.round_trip_ns == 0 { sample } else { self.round_trip_ns };
            self.round_trip_ns = old - old / 8 + sample / 8;
        }
        if beyond > 0 {
            self.peer = GapHandling::Reorders;
            self.misses = 0;
            self.forget();
        }
    }

    /// What was to be sent again before `una` has been acknowledged meanwhile.
    #[cold]
    fn pass(&mut self, una: Psn) {
        let passed = u32::try_from(una.since(self.next)).unwrap_or(0).min(self.left);
        (self.next, self.left) = (self.next.add(passed), self.left - passed);
        while let Some(gap) = self.further.last_mut() {
            let passed = u32::try_from(una.since(gap.first)).unwrap_or(0);
            if passed < gap.packets {
                *gap = Gap { first: gap.first.add(passed), packets: gap.packets - passed };
                return;
            }
            self.further.pop();
        }
    }

    /// How many packets from `missing` on are sent again out of turn; `None`: all of them, in turn.
    /// A gap that goes on right behind what was sent last is one of several packets.
    pub(super) fn length_for(&mut self, missing: Psn, now: Instant) -> Option<u32> {
        let old = now.since(self.judged_at) >= limits::PEER_DISCARDS_NS;
        if self.peer == GapHandling::Discards && old {
            // It may have had no memory to keep anything in.
            self.peer = GapHandling::Unknown;
        }
        if !self.enabled || self.peer == GapHandling::Discards {
            return None;
        }
        if self.end != Some(missing) {
            return Some(1);
        }
        if self.peer == GapHandling::Unknown {
            // Nothing was sent behind the repair: a peer that misses more had kept something.
            self.peer = GapHandling::Reorders;
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
        if self.peer == GapHandling::Unknown || self.misses >= limits::SELECTIVE_REPEAT_MISSES {
            self.peer = GapHandling::Discards;
            self.judged_at = now;
            self.misses = 0;
        }
    }

    /// The `run` packets from `psn` on go out next; `asked` for by a NAK.
    fn begin(&mut self, psn: Psn, run: u32, asked: bool) {
        (self.next, self.left, self.run, self.end) = (psn, run, run, Some(psn.add(run)));
        self.start = psn;
        (self.asked, self.left_at) = (asked, None);
        (self.left_before, self.went_back) = (None, None);
        self.forget_list();
        self.under_way = true;
    }

    /// The next packet to send out of turn, and whether it is the last of them.
    fn take(&mut self) -> Option<(Psn, bool)> {
        if self.left == 0 {
            let gap = self.further.pop()?;
            (self.next, self.left) = (gap.first, gap.packets);
        }
        self.left -= 1;
        let psn = self.next;
        self.next = psn.add(1);
        Some((psn, !self.wants_to_send()))
    }

    /// What holds between two calls.
    pub(super) fn assert_invariants(&self, psns: &PsnWindow) {
        let more = !self.further.is_empty();
        debug_assert!(
            more || self.has_list || self.left <= self.run,
            "more to send than the run has"
        );
        let last = self.further.first().map_or(self.next.add(self.left), Gap::end);
        let ends = self.end.is_none_or(|end| self.left == 0 && !more || end == last);
        debug_assert!(ends, "what is sent again ends where it was meant to");
        debug_assert!(self.left == 0 || psns.is_outstanding(self.next), "sent again, though done");
        let under_way = self.end.is_some() || self.responses.is_active();
        debug_assert!(self.under_way || !under_way, "something is repaired, and nobody looks");
        let has_left = self.left_before.is_none() || self.end.is_some() && !self.wants_to_send();
        debug_assert!(has_left, "what has left does not wait to leave");
        let few = self.asked_beyond_window <= limits::ASKS_BEYOND_WINDOW;
        debug_assert!(few, "more packets beyond the window than may be");
        self.responses.assert_invariants(psns);
    }

    /// The next SEND or WRITE packet to send out of turn, whether it is the last, and its request with the place of that.
    fn take_from(&mut self, queue: &SendQueue) -> Option<(Psn, bool, usize, SendWqe)> {
        // Each round takes one packet of those that are to be sent again.
        loop {
            let (psn, last) = self.take()?;
            let index = queue.index_of(psn);
            let wqe = index.and_then(|index| Some((index, *queue.get(index)?)));
            if let Some((index, wqe)) = wqe.filter(|(_, wqe)| wqe.may_be_reordered()) {
                return Some((psn, last, index, wqe));
            }
        }
    }

    /// A packet was sent again; `next_new` has never been out.
    fn note_sent(&mut self, last: bool, next_new: Psn, now: Instant) {
        self.pause = last;
        self.note_left(next_new);
        if self.asked {
            self.left_at.get_or_insert(now);
        }
    }

    /// If nothing is left to send again, the next new packet asks.
    fn note_left(&mut self, next_new: Psn) {
        if self.end.is_some() && self.left_before.is_none() && !self.wants_to_send() {
            self.left_before = Some(next_new);
            self.asks_next = self.peer_reorders() && self.tells_seen;
        }
    }
}

impl Requester {
    /// Sends the oldest `run` packets again before everything else.
    pub(crate) fn retransmit_oldest(&mut self, now: Instant, run: u32, asked: bool) {
        let run = run.min(self.psns.outstanding());
        if run == 0 {
            return;
        }
        self.selective_repeat.begin(self.psns.una(), run, asked);
        self.retransmission =
            if asked { Retransmission::SelectiveRepeat } else { Retransmission::TailProbe };
        self.tail_probe.note_rewind(now);
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
        let Some((psn, last, index, wqe)) = self.selective_repeat.take_from(&self.send_queue)
        else {
            // A READ or an atomic that was last is asked for in another way.
            self.selective_repeat.note_left(self.psns.next_new());
            return None;
        };
        let ends = Segment::of(&wqe, psn, config.mtu()).ends();
        let before = psn.since(self.psns.una()).max(0) as u32;
        let window = self.window.packets();
        let ack_req = last || ends || AckRequests::is_due_alone(before, window);
        match self.write_packet(config, &wqe, psn, ack_req, out, cx) {
            Ok(transmit) => {
                cx.counters.retransmit(1, self.retransmission);
                self.selective_repeat.note_sent(last, self.psns.next_new(), now);
                self.arm_ack_timer(config, now);
                Some(transmit)
            }
            Err(failure) => self.fail_if_oldest(config, index, failure, cx),
        }
    }

    /// An ACK has come. If it covers what was sent out of turn and nothing behind it, the peer had
    /// not kept the rest.
    #[inline(never)]
    pub(crate) fn check_selective_repeat(
        &mut self,
        config: &QpConfig,
        now: Instant,
        cx: &mut Context<'_>,
    ) {
        let una = self.psns.una();
        if self.selective_repeat.end != Some(una) {
            return;
        }
        if una == self.psns.next() {
            // Nothing had been sent behind it.
            return self.selective_repeat.forget();
        }
        if self.send_queue.oldest_may_be_reordered() {
            self.selective_repeat.note_miss(now);
        }
        self.window.note_going_back(config.mtu_shift());
        self.retransmission = Retransmission::SequenceNak;
        self.ack_timer.stop();
        self.go_back_to(now, una, cx);
    }

    /// True if something lost is to be sent or asked for again, before all else, or the last packet as a probe. It is
    /// on its way already as far as others on this path are concerned.
    pub(crate) fn wants_repair(&self) -> bool {
        let selective_repeat = &self.selective_repeat;
        selective_repeat.wants_to_send()
            || selective_repeat.responses.wants_to_ask(self.psns.una())
            || self.psns.next_new().since(self.psns.next()) == 1
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
        let near = self.selective_repeat.responses.reach(self.psns.una(), psn);
        let index = if near { self.send_queue.index_of(psn) } else { None };
        let missing = &self.selective_repeat.responses;
        let placed = match index.and_then(|index| self.send_queue.get(index)) {
            None => Err(Misplaced::Unexpected),
            Some(wqe) => {
                let queue = &self.send_queue;
                Responded { config, queue, wqe, missing }.place(packet, cx.mem)
            }
        };
        match placed {
            Ok(()) if mutated("early-not-placed") => {
                self.selective_repeat.responses.set(psn);
                self.selective_repeat.responses.set(psn.add(1));
            }
            Ok(()) => self.selective_repeat.responses.set(psn),
            // It is no answer to the request with this PSN, which may have been lost.
            Err(Misplaced::Unexpected) => return cx.counters.drop(DropReason::UnexpectedResponse),
            Err(_) => cx.counters.drop(DropReason::ResponseOutOfOrder),
        }
        self.handle_implied_nak(config, now, psn.add(1));
    }

    /// R68: a response or an acknowledgement shows that the peer has answered everything before `end`, and the
    /// oldest response is missing. What is missing is asked for once; if that is lost too, a probe follows.
    pub(crate) fn handle_implied_nak(&mut self, config: &QpConfig, now: Instant, end: Psn) {
        let end = if end.since(self.psns.next_new()) > 0 { self.psns.next_new() } else { end };
        let begins = self.selective_repeat.responses.answered().is_none();
        let more = self.selective_repeat.responses.note_answered(self.psns.una(), end);
        self.selective_repeat.note_responses();
        if more > 0 {
            // R75, R76: the peer has made progress, although the oldest response is missing. What is answered only grows
            // while that one is missing, and ends at the next new PSN: at most one refill for each PSN in flight.
            self.ack_timer.note_progress();
            self.rnr_wait.note_progress();
            self.tail_probe.note_answer();
        }
        let end = self.selective_repeat.responses.answered().unwrap_or(end);
        if begins || more > 1 {
            match more > limits::SELECTIVE_REPEAT_BURST {
                true => self.window.note_loss(),
                false => self.window.note_single_loss(),
            }
            self.tail_probe.note_rewind(now);
            self.tail_probe.arm(now, &self.selective_repeat, config.attr.timeout);
        }
        self.wake();
        if end.since(self.psns.next()) <= 0 {
            return;
        }
        let end = note_executed(self, end);
        // What the peer has answered is not sent again in its turn: what is missing of it is asked for.
        while end.since(self.psns.next()) > 0 {
            let psn = self.psns.next();
            let index = self.send_queue.index_of(psn);
            let Some(wqe) = index.and_then(|index| self.send_queue.get(index)) else {
                return;
            };
            let last = match wqe.op.is_read() {
                true => wqe.last_of_request(psn),
                false => wqe.last_psn(),
            };
            let whole = end.since(last) > 0;
            if whole && wqe.needs_response() {
                self.reads.push_back(ReadSlot { first: psn, last });
            }
            self.psns.send_from(if whole { last.add(1) } else { end });
            self.middle = None;
        }
        self.send_queue.point_at(self.psns.next());
    }

    /// Completes what is complete up to the next missing response.
    pub(crate) fn settle_early(&mut self, config: &QpConfig, now: Instant, cx: &mut Context<'_>) {
        // Each round passes one work request at least, or is the last.
        while let Some(end) = self.selective_repeat.responses.answered() {
            let una = self.psns.una();
            if end.since(una) > 0 && self.acknowledge(config, now, end.sub(1), cx).is_none() {
                break;
            }
            let una = self.psns.una();
            let Some(wqe) = self.send_queue.front() else { break };
            let left = wqe.last_psn().since(una).max(0) as u32 + 1;
            let run = self.selective_repeat.responses.run(una, left.min(limits::SHORT_PATH_WINDOW));
            if run == 0 {
                break;
            }
            (0..run).for_each(|ahead| self.selective_repeat.responses.clear(una.add(ahead)));
            self.finish_responses(config, now, una.add(run - 1), cx);
        }
        self.selective_repeat.responses.pass(self.psns.una());
        self.selective_repeat.note_responses();
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
        if !self.selective_repeat.responses.wants_to_ask(self.psns.una()) {
            return None;
        }
        let Some(psn) =
            self.selective_repeat.responses.next_missing(self.psns.una(), &self.send_queue)
        else {
            self.selective_repeat.responses.note_all_asked(self.psns.una());
            return None;
        };
        let index = self.send_queue.index_of(psn)?;
        let wqe = *self.send_queue.get(index)?;
        let responses = &mut self.selective_repeat.responses;
        let last = responses.last_of_request(&wqe, psn);
        let again = responses.ask_up_to(last);
        self.selective_repeat.note_responses();
        let ends = Segment::of(&wqe, psn, config.mtu()).ends();
        let ack_req = ends || self.ack_requests.is_due(1, self.window.packets());
        match self.write_packet(config, &wqe, psn, ack_req, out, cx) {
            Ok(transmit) => {
                cx.counters.retransmit(1, again);
                self.arm_ack_timer(config, now);
                Some(transmit)
            }
            Err(failure) => self.fail_if_oldest(config, index, failure, cx),
        }
    }
}

/// The peer has executed the whole READ REQUEST of which it has answered what is before `end`; the end of that, which is where
/// requests go on in their turn. What is missing of it is asked for from the first hole on: of a READ, rxe never answers what
/// is before the part that it was asked for last.
pub(super) fn note_executed(requester: &mut Requester, end: Psn) -> Psn {
    let Requester { send_queue, selective_repeat, psns, .. } = requester;
    let answered = end.sub(1);
    let wqe = send_queue.index_of(answered).and_then(|index| send_queue.get(index));
    let end = wqe.map_or(answered, |wqe| wqe.last_of_request(answered)).add(1);
    selective_repeat.responses.note_answered(psns.una(), end);
    end
}
