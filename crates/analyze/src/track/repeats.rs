//! Requests with a PSN that is not new: repetitions, copies, and what comes late.

use std::time::Duration;

use super::annotation::{Retransmission, RnrWait};
use super::cause::Repeat;
use super::figures::Figures;
use super::holes::Filled;
use super::message::Verb;
use super::requests::{RequestVerdict, Requests, first_slot};
use super::slots::{Slot, Transmission};
use super::{TrackerConfig, UnwrappedPsn};
use crate::{Packet, Timestamp};

/// Two copies of a packet within this time are the network's work if no round trip is known.
const COPY_TIME: Duration = Duration::from_micros(20);

impl Requests {
    pub(super) fn take_again(
        &mut self,
        packet: &Packet,
        verb: Verb,
        psn: UnwrappedPsn,
        slot: Slot,
        config: &TrackerConfig,
        figures: &mut Figures,
    ) -> RequestVerdict {
        let index = self.messages.find(psn);
        let message = index.and_then(|index| self.messages.get_mut(index)).map(|open| open.number);
        let verdict = RequestVerdict { psn, message, ..RequestVerdict::default() };
        if let Some(again) = self.slots.get_mut(psn) {
            again.copies = again.copies.saturating_add(1);
            let time = again.last.time.max(packet.time);
            again.last = Transmission { time, ..Transmission::of(packet) };
        }
        if self.is_copy(psn, slot, packet) || !self.is_reliable {
            figures.duplicates += 1;
            return RequestVerdict { is_duplicate: true, ..verdict };
        }
        self.repeat(packet, verb, Some(slot), verdict, config, figures)
    }

    /// A request from before the newest one that was not seen, or too long ago.
    pub(super) fn take_late(
        &mut self,
        packet: &Packet,
        verb: Verb,
        psn: UnwrappedPsn,
        config: &TrackerConfig,
        figures: &mut Figures,
    ) -> RequestVerdict {
        let message = self.messages.find(psn);
        let of_read = message
            .and_then(|index| self.messages.get_mut(index))
            .filter(|open| open.verb == Verb::Read && open.first_psn < psn && verb == Verb::Read);
        if let Some(open) = of_read {
            let verdict = RequestVerdict { psn, message: Some(open.number), ..Default::default() };
            self.note_part(psn, packet, verb);
            return self.repeat(packet, verb, None, verdict, config, figures);
        }
        let filled = self.holes.fill(psn, self.span(packet, verb), figures.requests);
        let Some(filled) = filled else {
            let verdict = RequestVerdict { psn, ..RequestVerdict::default() };
            return self.repeat(packet, verb, None, verdict, config, figures);
        };
        let span = self.span(packet, verb);
        let message = Some(self.note_first(packet, verb, psn, span, figures));
        let verdict = RequestVerdict { psn, message, ..RequestVerdict::default() };
        match filled {
            Filled::Unasked { depth } => {
                figures.reordered += 1;
                figures.reordering_depth = figures.reordering_depth.max(depth);
                RequestVerdict { is_reordered: true, ..verdict }
            }
            Filled::AfterNak => {
                figures.lost_before += 1;
                self.repeat(packet, verb, None, verdict, config, figures)
            }
        }
    }

    /// A READ that asks for a part of an earlier one: the second request for that part.
    fn note_part(&mut self, psn: UnwrappedPsn, packet: &Packet, verb: Verb) {
        match self.slots.get_mut(psn) {
            Some(slot) => {
                let sent = Transmission::of(packet);
                *slot = Slot { copies: 2, first: sent, last: sent, ..*slot };
            }
            None => self.slots.put(psn, Slot { copies: 2, ..first_slot(packet, verb) }),
        }
    }

    /// Time since the requester heard of progress, or sent what it waits for an answer to.
    fn silence(&self, psn: UnwrappedPsn, slot: Option<Slot>, time: Timestamp) -> Duration {
        let oldest = if psn == self.una { slot } else { self.slots.get(self.una).copied() };
        let sent = oldest.or(slot).map_or(Timestamp::default(), |slot| slot.last.time);
        time.since(self.causes.last_sign.max(sent))
    }

    /// The responder has answered behind a request, so that the answer to it must be lost. It is asked
    /// for once for that reason, and afterwards because of silence.
    fn is_implied(&self, psn: UnwrappedPsn, span: u64, slot: Option<Slot>) -> bool {
        let is_missing = self.slots.get(psn).is_none_or(|slot| !slot.answered);
        let end = if is_missing { psn } else { psn.plus(span - 1) };
        let is_new = slot.is_none_or(|slot| slot.copies <= 1 || slot.last.time < self.skipped_at);
        is_new && end < self.answered && (is_missing || end.plus(1) < self.answered)
    }

    /// Two copies so close to each other that the second one cannot have been asked for. What the network copies
    /// keeps its IPv4 identification (RFC 6864), so that two packets with different ones were sent.
    fn is_copy(&self, psn: UnwrappedPsn, slot: Slot, packet: &Packet) -> bool {
        let ids = slot.last.ip_id.zip(packet.ip_id);
        if self.causes.is_asked_for(psn) || ids.is_some_and(|(before, now)| before != now) {
            return false;
        }
        let limit = self.min_round_trip.map_or(COPY_TIME, |round_trip| round_trip.min(COPY_TIME));
        packet.time.since(slot.last.time) < limit && !self.causes.is_going_on(psn)
    }

    fn repeat(
        &mut self,
        packet: &Packet,
        verb: Verb,
        slot: Option<Slot>,
        verdict: RequestVerdict,
        config: &TrackerConfig,
        figures: &mut Figures,
    ) -> RequestVerdict {
        let psn = verdict.psn;
        self.unanswered.note_repeated(psn);
        let judged = self.causes.judge(&Repeat {
            psn,
            span: self.span(packet, verb),
            bytes: packet.payload_len,
            silence: self.silence(psn, slot, packet.time),
            time: packet.time,
            asks_newly: packet.bth.ack_req && slot.is_some_and(|slot| !slot.ack_req),
            needs_response: verb.needs_response(),
            is_implied: verb.needs_response()
                && self.is_implied(psn, self.span(packet, verb), slot),
            next: self.next,
            una: self.una,
            round_trip: self.min_round_trip,
            timeout: self.ack_timeout.or(config.ack_timeout),
        });
        if let Some((from, to, moved)) = judged.corrected {
            figures.move_repeated(from, to, moved);
        }
        figures.note_repeated(judged.cause, packet.payload_len, judged.is_new_round);
        let end = psn.plus(self.span(packet, verb));
        figures.answered_before += u64::from(psn < self.una || end <= self.answered);
        if let Some(open) = self.messages.find(psn).and_then(|index| self.messages.get_mut(index)) {
            open.retransmitted = open.retransmitted.saturating_add(1);
        }
        let rnr_wait = judged.waited.map(|(promised, actual)| {
            figures.rnr_waited_ns += actual.as_nanos() as u64;
            RnrWait { promised, actual: Some(actual) }
        });
        let retransmission = Some(Retransmission {
            cause: judged.cause,
            first_seen: slot.map(|slot| slot.first.frame),
            after: slot.map(|slot| packet.time.since(slot.first.time)),
        });
        RequestVerdict { retransmission, rnr_wait, ..verdict }
    }
}
