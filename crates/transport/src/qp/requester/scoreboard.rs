//! READ responses that come before an earlier one (docs/adr/023-read-responses-out-of-order.md).
//!
//! The PSN of a response says where its bytes belong, so a response behind a missing one is placed when it
//! comes, and only what is missing is asked for again. Which responses are there is noted in a table of
//! PSNs, as TCP notes what was acknowledged selectively (RFC 6675 calls it the scoreboard). Requests complete in
//! order all the same, each when all of its bytes are there.

use uroce_memory::mutation::mutated;
use uroce_wire::{ANY_PART, Psn};

use super::send_queue::{SendQueue, SendWqe};
use super::send_window::PsnWindow;
use crate::limits;
use crate::retransmission::Retransmission;

const WORDS: usize = limits::SHORT_PATH_WINDOW as usize / 64;

/// A bit for each PSN of a window: of a short path, or once a response came from further away, of the largest one.
#[derive(Debug, Default)]
struct Bits {
    short: [u64; WORDS],
    wide: Box<[u64]>,
}

impl Bits {
    /// PSNs that there are bits for, a power of two.
    fn psns(&self) -> u32 {
        limits::SHORT_PATH_WINDOW.max(64 * self.wide.len() as u32)
    }

    /// Word and bit of a PSN.
    fn place(&self, psn: Psn) -> (usize, u64) {
        let index = psn.get() & (self.psns() - 1);
        ((index / 64) as usize, 1 << (index % 64))
    }

    fn has(&self, psn: Psn) -> bool {
        let (word, bit) = self.place(psn);
        let words = if self.wide.is_empty() { &self.short[..] } else { &self.wide };
        words[word] & bit != 0
    }

    fn put(&mut self, psn: Psn, value: bool) {
        let (word, bit) = self.place(psn);
        let words = if self.wide.is_empty() { &mut self.short[..] } else { &mut self.wide };
        words[word] = if value { words[word] | bit } else { words[word] & !bit };
    }

    /// Makes room for the largest window, of which `una` is the oldest PSN.
    #[cold]
    fn widen(&mut self, una: Psn) {
        let wide = vec![0; limits::MAX_WINDOW as usize / 64].into_boxed_slice();
        let wide = Bits { wide, ..Bits::default() };
        let old = std::mem::replace(self, wide);
        let psns = (0..old.psns()).map(|ahead| una.add(ahead));
        psns.filter(|psn| old.has(*psn)).for_each(|psn| self.put(psn, true));
    }

    /// How many bits are set.
    fn count(&self) -> u32 {
        self.short.iter().chain(&self.wide).map(|word| word.count_ones()).sum()
    }

    fn clear(&mut self) {
        self.short = [0; WORDS];
        self.wide.fill(0);
    }
}

/// Which responses were taken in though earlier ones are missing.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    /// By PSN, for a window of them behind the oldest missing one.
    placed: Bits,
    /// One past the last PSN that the peer is known to have answered. None: no response is known to be missing.
    answered: Option<Psn>,
    /// Missing responses before this one were asked for again.
    asked: Psn,
    /// The oldest READ or atomic shall go out again, whatever is known of it.
    oldest: bool,
    /// What is asked for now was asked for before, and silence followed.
    repeats: bool,
    /// The peer has said that it answers parts of a READ in any order.
    any_order: bool,
}

impl Scoreboard {
    /// True if the response was taken in before its turn.
    fn has(&self, psn: Psn) -> bool {
        self.placed.has(psn)
    }

    pub(super) fn set(&mut self, psn: Psn) {
        self.placed.put(psn, true);
    }

    pub(super) fn clear(&mut self, psn: Psn) {
        self.placed.put(psn, false);
    }

    /// True if there is a place for a response to `psn` while `una` is missing. Room for those of a long path is made when
    /// the first of them comes.
    pub(super) fn reach(&mut self, una: Psn, psn: Psn) -> bool {
        let ahead = psn.since(una) as u32;
        if ahead >= self.placed.psns() && self.placed.wide.is_empty() {
            self.placed.widen(una);
        }
        ahead < self.placed.psns()
    }

    /// Nothing is known to be missing.
    pub(super) fn reset(&mut self) {
        self.placed.clear();
        let placed = std::mem::take(&mut self.placed);
        *self = Scoreboard { placed, any_order: self.any_order, ..Scoreboard::default() };
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

    /// A response has come with these reserved bits.
    pub(super) fn note_reserved(&mut self, reserved7: u8) {
        self.any_order |= reserved7 & ANY_PART != 0 || mutated("holes-at-once");
    }

    /// Something is to be asked for again, while `una` is missing.
    pub(super) fn wants_to_ask(&self, una: Psn) -> bool {
        let may_ask = || self.any_order || una.since(self.asked) >= 0;
        self.oldest || self.answered.is_some_and(|end| end.since(self.asked) > 0 && may_ask())
    }

    /// Nothing else is there to ask for while `una` is missing.
    pub(super) fn note_all_asked(&mut self, una: Psn) {
        self.oldest = false;
        if self.any_order {
            self.asked = self.answered.unwrap_or(self.asked);
        } else if una.since(self.asked) >= 0 {
            self.asked = una.add(1);
        }
    }

    /// The peer has answered everything before `end`, and the response `una` is missing. How many PSNs are
    /// newly known to be answered.
    pub(super) fn note_answered(&mut self, una: Psn, end: Psn) -> u32 {
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

    /// The first response that is missing and was not asked for again. Unless the peer is known to answer in any order, that
    /// is the oldest one: of a READ, rxe never answers what is before the part that it was asked for last.
    pub(super) fn next_missing(&self, una: Psn, queue: &SendQueue) -> Option<Psn> {
        if self.oldest {
            return oldest_response(una, queue);
        }
        let end = self.answered?;
        let mut psn = if self.asked.since(una) > 0 { self.asked } else { una };
        let mut index = queue.index_of(psn)?;
        // Each round passes a PSN or a request.
        while end.since(psn) > 0 {
            let wqe = queue.get(index)?;
            if !wqe.has_psn(psn) {
                index += 1;
                continue;
            }
            match (wqe.needs_response(), self.has(psn)) {
                (true, false) => return Some(psn).filter(|psn| self.any_order || *psn == una),
                (true, true) => psn = psn.add(1),
                // It was executed, or nothing behind it would have been answered.
                (false, _) => psn = wqe.last_psn().add(1),
            }
        }
        None
    }

    /// The last PSN that a READ REQUEST at `psn` asks for: the end of its part of the READ or of the gap.
    pub(super) fn last_of_request(&self, wqe: &SendWqe, psn: Psn) -> Psn {
        self.last_missing(psn, wqe.last_of_request(psn))
    }

    /// True if a READ or an atomic is on its way, or waits to be sent again.
    pub(super) fn awaits_response(&self, psns: &PsnWindow, queue: &SendQueue) -> bool {
        oldest_response(psns.una(), queue).is_some_and(|psn| psns.is_outstanding(psn))
    }

    /// All responses that are known to be missing are to be asked for again, or else that of the oldest READ or atomic.
    pub(super) fn ask_again(&mut self, una: Psn) {
        self.repeats = true;
        match self.answered {
            Some(_) => self.asked = una,
            None => self.oldest = true,
        }
    }

    /// What is missing up to `last` is asked for, and why again.
    pub(super) fn ask_up_to(&mut self, last: Psn) -> Retransmission {
        (self.asked, self.oldest) = (last.add(1), false);
        if self.repeats { Retransmission::TailProbe } else { Retransmission::ImpliedNak }
    }

    /// What holds between two calls: the table has responses of the window behind `una` only.
    pub(super) fn assert_invariants(&self, psns: &PsnWindow) {
        let placed = self.placed.count();
        let Some(end) = self.answered else {
            return debug_assert!(
                placed == 0,
                "{placed} early responses without a gap before them"
            );
        };
        let span = end.since(psns.una());
        debug_assert!(span > 0, "the gap is behind what is acknowledged");
        debug_assert!(psns.next_new().since(end) >= 0, "answered before it was sent");
        debug_assert!((placed as i32) < span, "{placed} of {span} responses, and one is missing");
    }

    /// Everything before `una` is done with.
    pub(super) fn pass(&mut self, una: Psn) {
        if self.answered.is_some_and(|end| una.since(end) >= 0) {
            self.reset();
        }
    }

    /// How many responses from `psn` on were taken in, `most` at most.
    pub(super) fn run(&self, psn: Psn, most: u32) -> u32 {
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

/// The first PSN from `una` on that belongs to a READ or an atomic.
fn oldest_response(una: Psn, queue: &SendQueue) -> Option<Psn> {
    let wqes = (queue.index_of(una)?..queue.len()).filter_map(|index| queue.get(index));
    let read = wqes.filter(|wqe| wqe.numbered).find(|wqe| wqe.needs_response())?;
    Some(if read.first_psn.since(una) > 0 { read.first_psn } else { una })
}
