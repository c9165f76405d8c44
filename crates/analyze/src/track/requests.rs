//! The requests of one flow: what was sent, what is under way, what was lost.

use std::time::Duration;

use uroce_wire::Psn;

use super::TrackerConfig;
use super::UnwrappedPsn;
use super::annotation::{Gap, Outstanding, Retransmission, RnrWait};
use super::cause::Causes;
use super::damaged_requests::DamagedRequests;
use super::figures::Figures;
use super::holes::{Closed, Holes};
use super::message::{Message, Outcome, Verb};
use super::open_messages::OpenMessages;
use super::slots::{Slot, Slots, Transmission};
use super::unanswered::Unanswered;
use crate::{Packet, Timestamp};

/// A jump of so many PSNs is no gap: the queue pair has begun anew.
pub(super) const RESTART: u64 = 1 << 16;
/// State of the requests in one flow.
#[derive(Debug, Default)]
pub(super) struct Requests {
    is_started: bool,
    /// The first PSN that was seen or is known.
    pub(super) first: UnwrappedPsn,
    /// One past the last PSN that was sent.
    pub(super) next: UnwrappedPsn,
    /// The oldest PSN that is not acknowledged. Beyond `next` if answers were captured before
    /// their requests.
    pub(super) una: UnwrappedPsn,
    /// One past the newest PSN that a response was seen to.
    pub(super) answered: UnwrappedPsn,
    /// When an answer last showed that the response to an earlier request is missing.
    pub(super) skipped_at: Timestamp,
    pub(super) slots: Slots,
    pub(super) messages: OpenMessages,
    pub(super) unanswered: Unanswered,
    pub(super) causes: Causes,
    pub(super) holes: Holes,
    pub(super) damaged: DamagedRequests,
    /// Payload of SENDs and WRITEs under way, and what READs still have to bring.
    pub(super) bytes: u64,
    pub(super) min_round_trip: Option<Duration>,
    pub(super) ack_timeout: Option<Duration>,
    pub(super) mtu: Option<u32>,
    /// The service acknowledges requests.
    pub(super) is_reliable: bool,
    /// A NAK has ended the queue pair.
    pub(super) is_failed: bool,
    /// Finished messages that the tracker has not taken yet, without the flow's id.
    pub(super) done: Vec<Message>,
}

/// What a request packet turns out to be.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestVerdict {
    pub(super) psn: UnwrappedPsn,
    pub(super) message: Option<u64>,
    pub(super) retransmission: Option<Retransmission>,
    pub(super) is_duplicate: bool,
    pub(super) is_reordered: bool,
    pub(super) gap: Option<Gap>,
    pub(super) rnr_wait: Option<RnrWait>,
    /// Messages that are complete with it, since an answer to them was captured before it.
    pub(super) completed: u32,
}

impl Requests {
    /// The first PSN, where it is known before the first request.
    pub(super) fn start(&mut self, psn: UnwrappedPsn) {
        self.is_started = true;
        (self.first, self.next, self.una, self.answered) = (psn, psn, psn, psn);
        self.slots.clear();
        self.causes = Causes::default();
        self.holes = Holes::default();
        self.damaged = DamagedRequests::default();
        self.bytes = 0;
        self.is_failed = false;
    }

    /// The queue pair begins anew with `psn`. Numbers go on behind those of its life before.
    pub(super) fn restart(&mut self, psn: Psn) {
        let epoch = (self.next.0 >> 24).saturating_add(2) << 24;
        self.start(UnwrappedPsn(epoch | u64::from(psn.get())));
    }

    /// What was seen so far means nothing: the next request is the first one.
    pub(super) fn forget(&mut self) {
        self.flush(Timestamp::default(), Outcome::Unknown);
        self.done.clear();
        self.unanswered = Unanswered::default();
        self.is_started = false;
    }

    /// A first PSN is known.
    pub(super) fn is_started(&self) -> bool {
        self.is_started
    }

    /// True if `packet` is from another life of the queue pair.
    pub(super) fn is_restart(&self, packet: &Packet) -> bool {
        let psn = self.next.nearest(packet.bth.psn);
        let is_ahead = psn.since(self.next) >= RESTART && psn.since(self.furthest()) >= RESTART;
        self.is_started && (is_ahead || self.oldest().since(psn) >= RESTART)
    }

    /// One past the last PSN that the newest request may take: a READ whose end is not known may be long.
    fn furthest(&self) -> UnwrappedPsn {
        let newest = self.messages.len().checked_sub(1).and_then(|index| self.messages.get(index));
        let read = newest.filter(|message| message.verb == Verb::Read);
        read.map_or(self.next, |read| read.first_psn.plus(read.largest_span()).max(self.next))
    }

    /// The oldest PSN that the requester may go back to. A READ that is not answered may lie far back,
    /// since it takes as many PSNs as its answer. So may what is not acknowledged; without any answer in the capture
    /// that is all that was ever sent, and tells nothing.
    fn oldest(&self) -> UnwrappedPsn {
        let open = self.messages.front().filter(|_| self.messages.reads > 0);
        let of_read = open.map_or(self.next, |message| message.first_psn);
        let unacknowledged = if self.una > self.first { self.una } else { self.next };
        of_read.min(unacknowledged).min(self.next)
    }

    /// What is under way.
    pub(super) fn outstanding(&self) -> Outstanding {
        Outstanding {
            packets: if self.is_reliable { self.next.since(self.una) } else { 0 },
            bytes: self.bytes,
            reads: self.messages.reads,
        }
    }

    /// PSNs that a request takes (R18); `None` for a READ while the path MTU is not known, or of which a snap length
    /// cut the length off.
    fn known_span(&self, packet: &Packet, verb: Verb) -> Option<u64> {
        let length = packet.reth.map_or(0, |reth| reth.length);
        match (verb, self.mtu) {
            (Verb::Read, _) if packet.reth.is_none() => None,
            (Verb::Read, Some(mtu)) if mtu > 0 => Some(u64::from(length.div_ceil(mtu).max(1))),
            (Verb::Read, _) if length > 256 => None,
            _ => Some(1),
        }
    }

    pub(super) fn span(&self, packet: &Packet, verb: Verb) -> u64 {
        self.known_span(packet, verb).unwrap_or(1)
    }

    /// Takes in a request.
    pub(super) fn handle(
        &mut self,
        packet: &Packet,
        verb: Verb,
        config: &TrackerConfig,
        figures: &mut Figures,
        budget: &mut usize,
    ) -> RequestVerdict {
        if !self.is_started {
            self.start(UnwrappedPsn::first(packet.bth.psn));
        }
        self.messages.reserve(config.max_open_messages);
        let psn = self.next.nearest(packet.bth.psn);
        let known = self.slots.get(psn).copied().filter(|slot| slot.copies > 0);
        match known {
            _ if psn >= self.next => self.take_new(packet, verb, psn, config, figures, budget),
            Some(slot) => self.take_again(packet, verb, psn, slot, config, figures),
            None => self.take_late(packet, verb, psn, config, figures),
        }
    }

    fn take_new(
        &mut self,
        packet: &Packet,
        verb: Verb,
        psn: UnwrappedPsn,
        config: &TrackerConfig,
        figures: &mut Figures,
        budget: &mut usize,
    ) -> RequestVerdict {
        if let Some((from, to, moved)) = self.causes.end_round() {
            figures.move_repeated(from, to, moved);
        }
        self.learn_span_of_read(psn);
        let span = self.span(packet, verb);
        let skipped = psn.since(self.next);
        let gap = (skipped > 0).then_some(Gap { first: self.next, packets: skipped });
        if skipped > 0 {
            figures.skipped += skipped;
            let closed = self.holes.open(self.next, psn, figures.requests);
            figures.note_closed(closed);
        }
        self.next = psn.plus(span);
        let oldest = if self.is_reliable { self.una.min(psn) } else { psn };
        self.slots.reserve(self.next.since(oldest), config.max_psns, budget);
        let message = self.note_first(packet, verb, psn, span, figures);
        if !self.is_reliable {
            self.una = self.next;
        }
        if self.is_reliable && !self.holes.is_empty() {
            self.close_holes(Some(config.order_tolerance), figures);
        }
        let is_early = self.una > psn;
        let completed = if is_early { self.complete(packet.time, packet.frame) } else { 0 };
        RequestVerdict { psn, message: Some(message), gap, completed, ..RequestVerdict::default() }
    }

    /// A request that is seen for the first time.
    pub(super) fn note_first(
        &mut self,
        packet: &Packet,
        verb: Verb,
        psn: UnwrappedPsn,
        span: u64,
        figures: &mut Figures,
    ) -> u64 {
        let asked = packet.reth.filter(|_| verb == Verb::Read).map(|reth| reth.length);
        let is_open = self.is_reliable && psn.plus(span) > self.una;
        if is_open {
            self.bytes += u64::from(asked.unwrap_or(packet.payload_len));
        }
        figures.goodput_bytes += u64::from(packet.payload_len);
        self.slots.put(psn, first_slot(packet, verb));
        self.learn_mtu(packet);
        self.messages.note(packet, verb, psn, self.known_span(packet, verb))
    }

    /// Judges holes that are old enough; all of them without a tolerance.
    pub(super) fn close_holes(&mut self, tolerance: Option<u32>, figures: &mut Figures) {
        // A service that acknowledges nothing says of no hole that it arrived.
        let una = if self.is_reliable { self.una } else { UnwrappedPsn::default() };
        let closed = self.holes.close(una, figures.requests, tolerance);
        figures.note_closed(closed);
    }
}

pub(super) fn first_slot(packet: &Packet, verb: Verb) -> Slot {
    let sent = Transmission::of(packet);
    Slot {
        first: sent,
        last: sent,
        bytes: if verb == Verb::Read { 0 } else { packet.payload_len },
        copies: 1,
        ack_req: packet.bth.ack_req,
        ..Slot::default()
    }
}

impl Figures {
    fn note_closed(&mut self, closed: Closed) {
        self.lost_by_capture += closed.capture;
        self.lost_unknown += closed.unknown;
    }
}
