//! The packets of one PSN space: requests, or responses, to one queue pair.

use uroce_wire::{OpcodeInfo, Psn};

/// PSNs behind the highest one of which is known how often they were seen.
const HISTORY: u64 = 2048;

/// What was seen of one PSN.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    times: u16,
    message: u32,
}

/// The packets of one PSN space. Positions are distances from the first PSN that was seen.
#[derive(Debug, Default)]
pub(super) struct Stream {
    first: Option<Psn>,
    highest: u64,
    messages: u32,
    /// Empty if it is not asked for.
    history: Vec<Seen>,
}

/// Where a packet stands in its stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    /// `None` for a PSN in front of the first one.
    pub offset: Option<u64>,
    /// How often the PSN was seen, this time included; 0 if not known.
    pub iteration: u16,
    /// Number of the message from 1; 0 if not known.
    pub message: u32,
}

impl Stream {
    /// A packet has come.
    pub(super) fn note(&mut self, psn: Psn, info: &OpcodeInfo, with_history: bool) -> Position {
        if with_history && self.history.is_empty() {
            self.history = vec![Seen::default(); HISTORY as usize];
        }
        let is_first = self.first.is_none();
        let first = *self.first.get_or_insert(psn);
        let top = first.add((self.highest & u64::from(Psn::MASK)) as u32);
        let Some(offset) = self.highest.checked_add_signed(i64::from(psn.since(top))) else {
            return Position::default();
        };
        if offset > self.highest || is_first {
            self.advance(offset, info);
        }
        self.recall(offset)
    }

    /// A PSN that was never seen, in front of all others.
    fn advance(&mut self, offset: u64, info: &OpcodeInfo) {
        self.messages = self.messages.saturating_add(u32::from(info.starts()));
        let message = self.messages;
        if !self.history.is_empty() {
            let passed_over = (self.highest + 1).max(offset.saturating_sub(HISTORY))..offset;
            passed_over.for_each(|offset| *self.seen(offset) = Seen::default());
            *self.seen(offset) = Seen { times: 0, message };
        }
        self.highest = offset;
    }

    fn recall(&mut self, offset: u64) -> Position {
        if self.history.is_empty() || self.highest - offset >= HISTORY {
            return Position { offset: Some(offset), ..Position::default() };
        }
        let seen = self.seen(offset);
        seen.times = seen.times.saturating_add(1);
        Position { offset: Some(offset), iteration: seen.times, message: seen.message }
    }

    fn seen(&mut self, offset: u64) -> &mut Seen {
        &mut self.history[(offset % HISTORY) as usize]
    }

    /// How far a PSN lies behind the highest one; `None` if it lies before the first one, or ahead.
    pub(super) fn behind(&self, psn: Psn) -> Option<u64> {
        let top = self.first?.add((self.highest & u64::from(Psn::MASK)) as u32);
        let behind = u64::try_from(top.since(psn)).ok()?;
        (behind <= self.highest).then_some(behind)
    }
}
