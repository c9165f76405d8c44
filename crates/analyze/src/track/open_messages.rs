//! The messages of a flow that are under way, in PSN order.

use std::collections::VecDeque;

use super::message::{Message, OpenMessage, Outcome, Verb};
use super::{FlowId, UnwrappedPsn};
use crate::{Packet, Timestamp};

/// Messages under way. Those that finish before an older one stay until it is finished, too.
#[derive(Debug, Default)]
pub(super) struct OpenMessages {
    queue: VecDeque<OpenMessage>,
    /// Number of the next message.
    next: u64,
    /// Messages of it that wait for a response.
    pub(super) reads: u32,
}

impl OpenMessages {
    /// Messages there are, finished ones between them included.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The oldest one.
    pub(super) fn front(&self) -> Option<&OpenMessage> {
        self.queue.front()
    }

    /// Those that are not finished, the oldest first.
    pub(super) fn open(&self) -> impl Iterator<Item = &OpenMessage> {
        self.queue.iter().filter(|message| !message.is_done)
    }

    /// Takes the oldest one out.
    pub(super) fn pop(&mut self) -> Option<OpenMessage> {
        let message = self.queue.pop_front()?;
        if message.verb.needs_response() && !message.is_done {
            self.reads = self.reads.saturating_sub(1);
        }
        Some(message)
    }

    /// The message at `index`, counted from the oldest.
    pub(super) fn get(&self, index: usize) -> Option<&OpenMessage> {
        self.queue.get(index)
    }

    /// As [`OpenMessages::get`].
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut OpenMessage> {
        self.queue.get_mut(index)
    }

    /// Marks the message at `index` as finished.
    pub(super) fn finish(&mut self, index: usize) -> Option<OpenMessage> {
        let message = self.queue.get_mut(index).filter(|message| !message.is_done)?;
        message.is_done = true;
        if message.verb.needs_response() {
            self.reads = self.reads.saturating_sub(1);
        }
        Some(*message)
    }

    /// Index of the newest message that begins at `psn` or before it.
    pub(super) fn newest_before(&self, psn: UnwrappedPsn) -> Option<usize> {
        let newest = self.queue.back().filter(|message| message.first_psn <= psn);
        if newest.is_some() {
            return Some(self.queue.len() - 1);
        }
        self.queue.partition_point(|message| message.first_psn <= psn).checked_sub(1)
    }

    /// Index of the message that `psn` belongs to.
    pub(super) fn find(&self, psn: UnwrappedPsn) -> Option<usize> {
        let index = self.newest_before(psn)?;
        let message = self.queue.get(index)?;
        message.last_psn.is_none_or(|last| psn <= last).then_some(index)
    }

    /// Notes a request packet that was not seen before, and gives the number of its message. `span`
    /// is the number of PSNs that it takes, if that is known.
    pub(super) fn note(
        &mut self,
        packet: &Packet,
        verb: Verb,
        psn: UnwrappedPsn,
        span: Option<u64>,
    ) -> u64 {
        let (starts, ends) = place_of(packet);
        let older = self.newest_before(psn);
        let end = span.filter(|_| ends).map(|span| psn.plus(span.saturating_sub(1)));
        let index = match older {
            Some(index) if !starts && self.goes_on(index, psn, verb) => {
                self.join(index, packet, end)
            }
            _ => match self.begins_later(older, psn, verb, ends) {
                Some(index) => self.prepend(index, packet, psn, starts),
                None => self.insert(older.map_or(0, |index| index + 1), packet, verb, psn, end),
            },
        };
        self.queue.get(index).map_or(0, |message| message.number)
    }

    /// The message at `index` still has room for `psn`.
    fn goes_on(&self, index: usize, psn: UnwrappedPsn, verb: Verb) -> bool {
        let fits = |message: &OpenMessage| {
            message.verb == verb && message.last_psn.is_none_or(|last| psn <= last)
        };
        self.queue.get(index).is_some_and(fits)
    }

    /// The message behind `older`, if its beginning is missing and this packet may be of it.
    fn begins_later(
        &self,
        older: Option<usize>,
        psn: UnwrappedPsn,
        verb: Verb,
        ends: bool,
    ) -> Option<usize> {
        let index = older.map_or(0, |index| index + 1);
        let next = self.queue.get(index)?;
        (!ends && next.start_missing && next.verb == verb && next.first_psn > psn).then_some(index)
    }

    fn join(&mut self, index: usize, packet: &Packet, end: Option<UnwrappedPsn>) -> usize {
        if let Some(message) = self.queue.get_mut(index) {
            message.last_psn = message.last_psn.or(end);
            message.take(packet);
        }
        index
    }

    fn prepend(&mut self, index: usize, packet: &Packet, psn: UnwrappedPsn, starts: bool) -> usize {
        if let Some(message) = self.queue.get_mut(index) {
            message.first_psn = psn;
            message.start_missing = !starts;
            message.take(packet);
        }
        index
    }

    fn insert(
        &mut self,
        index: usize,
        packet: &Packet,
        verb: Verb,
        psn: UnwrappedPsn,
        end: Option<UnwrappedPsn>,
    ) -> usize {
        let mut message = OpenMessage::begin(self.next, packet, verb, psn);
        message.last_psn = end;
        message.take(packet);
        self.next += 1;
        self.reads += u32::from(verb.needs_response());
        let index = index.min(self.queue.len());
        self.queue.insert(index, message);
        index
    }

    /// The message of a datagram.
    pub(super) fn datagram(&mut self, flow: FlowId, packet: &Packet, psn: UnwrappedPsn) -> Message {
        let mut message = OpenMessage::begin(self.next, packet, Verb::Send, psn);
        message.last_psn = Some(psn);
        message.take(packet);
        self.next += 1;
        message.close(flow, packet.time, 0, Outcome::Sent)
    }

    /// Gives room for `max` messages at once, so that nothing is allocated later.
    pub(super) fn reserve(&mut self, max: usize) {
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(max.min(FIRST_MESSAGES));
        }
    }
}

/// Messages that a flow has room for when it begins.
const FIRST_MESSAGES: usize = 32;

/// Whether a request packet begins and ends a message.
fn place_of(packet: &Packet) -> (bool, bool) {
    packet.opcode_info.map_or((true, true), |info| (info.starts(), info.ends()))
}

impl OpenMessage {
    fn begin(number: u64, packet: &Packet, verb: Verb, psn: UnwrappedPsn) -> Self {
        let (starts, _) = place_of(packet);
        Self {
            number,
            verb,
            has_immediate: false,
            has_invalidate: false,
            bytes: 0,
            first_psn: psn,
            last_psn: None,
            start_missing: !starts,
            first_frame: packet.frame,
            last_frame: packet.frame,
            packets: 0,
            responses: 0,
            retransmitted: 0,
            started: packet.time,
            last_time: Timestamp::default(),
            is_done: false,
        }
    }

    /// Counts a request packet that was not seen before.
    fn take(&mut self, packet: &Packet) {
        let asked = packet.reth.map_or(0, |reth| reth.length);
        let bytes = if self.verb == Verb::Read { asked } else { packet.payload_len };
        self.bytes += u64::from(bytes);
        self.packets += 1;
        self.has_immediate |= packet.immediate.is_some();
        self.has_invalidate |= packet.invalidate_rkey.is_some();
        self.first_frame = self.first_frame.min(packet.frame);
        self.last_frame = self.last_frame.max(packet.frame);
        self.last_time = self.last_time.max(packet.time);
    }
}
