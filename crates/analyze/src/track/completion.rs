//! How messages end.

use std::time::Duration;

use super::message::{Message, Outcome};
use super::requests::Requests;
use super::{FlowId, UnwrappedPsn};
use crate::Timestamp;

/// A READ that is this far behind the newest answer waits for nothing: the capture lacks responses.
const FORGOTTEN: u64 = 1024;
/// A requester that misses a response asks for it again within this time.
const UNASKED: Duration = Duration::from_secs(10);

impl Requests {
    /// Finishes all messages that are complete. How many there were.
    pub(super) fn complete(&mut self, time: Timestamp, frame: u64) -> u32 {
        let (mut finished, mut index) = (0, 0);
        while let Some(outcome) = self.outcome_at(index) {
            if let Some(outcome) = outcome
                && let Some(message) = self.messages.finish(index)
            {
                if outcome == Outcome::Unknown {
                    self.unanswered.add(&message);
                }
                self.hand_out(message.close(FlowId::UNTRACKED, time, frame, outcome));
                finished += 1;
            }
            index += 1;
        }
        while self.messages.front().is_some_and(|message| message.is_done) {
            self.messages.pop();
        }
        finished
    }

    /// How the message at `index` ended, if it did; `None` behind the last one that can have ended.
    fn outcome_at(&mut self, index: usize) -> Option<Option<Outcome>> {
        let (una, answered) = (self.una, self.answered);
        let next_begins = self.messages.get_mut(index + 1).map(|next| next.first_psn);
        let message = self.messages.get_mut(index).filter(|message| message.first_psn < una)?;
        if message.is_done {
            return Some(None);
        }
        if message.verb.needs_response() {
            let all = message.last_psn.is_some() && message.responses >= message.span();
            let forgotten = answered.since(message.first_psn.plus(message.span())) > FORGOTTEN;
            return Some(match (all, forgotten) {
                (true, _) => Some(Outcome::Completed),
                (false, true) => Some(Outcome::Unknown),
                (false, false) => None,
            });
        }
        let is_over = match message.last_psn {
            Some(last) => last < una,
            // Its end was never seen, but the beginning of the next one is acknowledged.
            None => self.holes.is_empty() && next_begins.is_some_and(|next| next < una),
        };
        let outcome = if self.is_reliable { Outcome::Completed } else { Outcome::Sent };
        Some(is_over.then_some(outcome))
    }

    /// The capture has ended at `end`. READs whose responses are missing behind later answers were answered, too, if
    /// they were not sent again for so long.
    pub(super) fn note_unanswered(&mut self, end: Timestamp) {
        if end.since(self.skipped_at) <= UNASKED {
            return;
        }
        for message in self.messages.open().filter(|message| end.since(message.last_time) > UNASKED)
        {
            self.unanswered.add_overtaken(message, self.answered);
        }
    }

    /// Finishes everything that is under way with `outcome`.
    pub(super) fn flush(&mut self, time: Timestamp, outcome: Outcome) {
        while let Some(message) = self.messages.pop() {
            if !message.is_done {
                let end = message.last_time.min(time);
                self.hand_out(message.close(FlowId::UNTRACKED, end, 0, outcome));
            }
        }
    }

    /// Too many messages are under way: the oldest one is handed out as it is.
    pub(super) fn close_oldest(&mut self, time: Timestamp) {
        if let Some(message) = self.messages.pop().filter(|message| !message.is_done) {
            self.unanswered.add_overtaken(&message, self.answered);
            self.hand_out(message.close(FlowId::UNTRACKED, time, 0, Outcome::Unknown));
        }
    }

    pub(super) fn number_of(&mut self, psn: UnwrappedPsn) -> Option<u64> {
        let index = self.messages.find(psn)?;
        self.messages.get_mut(index).map(|message| message.number)
    }

    /// The newest message that ends at `psn` or before it: one that has just been finished, else an
    /// open one that `psn` belongs to.
    pub(super) fn newest_message(&mut self, psn: UnwrappedPsn) -> Option<u64> {
        let ended = |message: &&Message| message.last_psn <= psn;
        let done = self.done.iter().filter(ended).max_by_key(|message| message.last_psn);
        done.map(|message| message.id.number).or_else(|| self.number_of(psn))
    }

    pub(super) fn hand_out(&mut self, message: Message) {
        self.done.push(message);
    }
}
