//! READs that stay without their responses although later requests are answered.

use std::collections::VecDeque;

use super::UnwrappedPsn;
use super::message::OpenMessage;

/// READs that are remembered in case they are sent again.
const MAX_READS: usize = 64;

#[derive(Debug, Clone, Copy)]
struct UnansweredRead {
    first: UnwrappedPsn,
    /// One past its last PSN.
    end: UnwrappedPsn,
    missing: u64,
}

/// READs whose responses the capture lacks, as long as the requester does not ask for them again: then the network
/// has lost them.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    reads: VecDeque<UnansweredRead>,
    /// Responses of those that are too old to be sent again.
    settled: u64,
    /// Nobody knows what was answered before.
    since: UnwrappedPsn,
}

impl Unanswered {
    /// READs from `since` on are looked at.
    pub(super) fn since(since: UnwrappedPsn) -> Self {
        Self { since, ..Self::default() }
    }

    /// A READ, an atomic or another request with a response that is not whole.
    pub(super) fn add(&mut self, message: &OpenMessage) {
        let missing = message.span().saturating_sub(message.responses);
        if message.retransmitted > 0 || missing == 0 || message.first_psn < self.since {
            return;
        }
        if self.reads.len() == MAX_READS
            && let Some(oldest) = self.reads.pop_front()
        {
            self.settled += oldest.missing;
        }
        let (first, end) = (message.first_psn, message.first_psn.plus(message.span()));
        self.reads.push_back(UnansweredRead { first, end, missing });
    }

    /// The same, if it is a request with a response, and one behind it was answered; `answered` is one past that.
    pub(super) fn add_overtaken(&mut self, message: &OpenMessage, answered: UnwrappedPsn) {
        let is_over = message.last_psn.is_some_and(|last| last < answered);
        if is_over && message.verb.needs_response() {
            self.add(message);
        }
    }

    /// The requester sends `psn` again.
    pub(super) fn note_repeated(&mut self, psn: UnwrappedPsn) {
        self.reads.retain(|read| psn < read.first || read.end <= psn);
    }

    /// Responses that the capture lacks, once nothing more is sent.
    pub(super) fn missing(&self) -> u64 {
        self.settled + self.reads.iter().map(|read| read.missing).sum::<u64>()
    }
}
