//! What answers do to the requests that they answer.

use std::time::Duration;

use uroce_wire::{NakCode, SyndromeKind, rnr_timer_ns};

use super::annotation::{Acknowledged, Gap, Missing, RnrWait, Role};
use super::cause::Refusal;
use super::figures::Figures;
use super::message::Outcome;
use super::pairing::AnswerFit;
use super::requests::{RESTART, Requests};
use super::slots::Slot;
use super::unanswered::Unanswered;
use super::{FlowId, UnwrappedPsn};
use crate::{Packet, Timestamp};

/// An answer to a PSN so far ahead of the newest request may have been captured before it.
const EARLY: u64 = 64;
/// PSNs that may be under way between a request and its answer.
const SLACK: u64 = 1 << 12;

/// What an answer turns out to be.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AnswerVerdict {
    pub(super) psn: UnwrappedPsn,
    pub(super) message: Option<u64>,
    pub(super) acknowledged: Acknowledged,
    pub(super) round_trip: Option<Duration>,
    pub(super) gap: Option<Gap>,
    pub(super) missing: Option<Missing>,
    pub(super) rnr_wait: Option<RnrWait>,
    pub(super) is_repeated: bool,
    pub(super) is_unsolicited: bool,
}

/// The role of a packet with an AETH and without data.
pub(super) fn role_of(packet: &Packet) -> Role {
    match packet.aeth.map(|aeth| aeth.syndrome.kind()) {
        Some(SyndromeKind::Ack { .. }) => Role::Acknowledgement,
        Some(SyndromeKind::Rnr { .. }) => Role::RnrNak,
        Some(SyndromeKind::Nak(code)) => Role::Nak(code),
        Some(SyndromeKind::ReservedNak(code)) => Role::ReservedNak(code),
        Some(SyndromeKind::Reserved(_)) | None => Role::Unknown,
    }
}

impl Requests {
    /// Takes in an answer to these requests. `figures` are those of the flow of the requests.
    pub(super) fn handle_answer(
        &mut self,
        packet: &Packet,
        role: Role,
        figures: &mut Figures,
    ) -> AnswerVerdict {
        let psn = self.una.nearest(packet.bth.psn);
        let verdict = match role {
            Role::Response => self.handle_response(packet, psn, figures),
            _ if !self.may_answer(psn) => unsolicited(psn),
            Role::Acknowledgement => self.handle_ack(packet, psn),
            Role::Nak(NakCode::PsnSequence) => self.handle_nak(packet, psn, figures),
            Role::Nak(code) => self.handle_fatal_nak(packet, psn, code),
            Role::RnrNak => self.handle_rnr(packet, psn, figures),
            _ => unsolicited(psn),
        };
        if verdict.acknowledged.packets > 0 {
            self.causes.last_sign = self.causes.last_sign.max(packet.time);
            figures.acknowledged += verdict.acknowledged.packets;
            figures.acknowledged_by += 1;
        }
        if let Some(round_trip) = verdict.round_trip {
            figures.round_trips.record(round_trip.as_nanos() as u64);
            let least = self.min_round_trip.map_or(round_trip, |least| least.min(round_trip));
            self.min_round_trip = Some(least);
        }
        verdict
    }

    /// An answer with `psn` may belong to what is or was under way.
    pub(super) fn may_answer(&self, psn: UnwrappedPsn) -> bool {
        self.is_started() && psn.since(self.next) < SLACK && self.una.since(psn) < 16 * SLACK
    }

    /// How an answer goes with these requests; `None` if there were none.
    pub(super) fn fits(&self, packet: &Packet, role: Role) -> Option<AnswerFit> {
        if !self.is_started() {
            return None;
        }
        let psn = self.una.nearest(packet.bth.psn);
        // It answers what was sent before the capture began, or is of another queue pair.
        if psn.plus(1) < self.first && self.first.since(psn) < RESTART {
            return (self.first.since(psn) < SLACK).then_some(AnswerFit::Possible);
        }
        let is_early = psn >= self.next && psn.since(self.next) < EARLY;
        let is_known = match role {
            Role::Response => self.messages.find_for_response(psn, &packet.opcode_info).is_some(),
            _ if psn >= self.next || self.una > psn.plus(1) => false,
            Role::Acknowledgement => !self.needs_response_at(psn),
            _ => true,
        };
        Some(match is_known {
            true => AnswerFit::Belongs,
            false if is_early || self.is_answered_at(psn) => AnswerFit::Possible,
            false => AnswerFit::Impossible,
        })
    }

    /// How an answer that is not the next one goes with these requests, which were taken for those that it answers;
    /// `None` if it is what they wait for.
    pub(super) fn doubts(&self, packet: &Packet, role: Role) -> Option<AnswerFit> {
        let psn = self.una.nearest(packet.bth.psn);
        let is_new = match role {
            Role::Response => {
                let found = self.messages.find_for_response(psn, &packet.opcode_info);
                found.is_some() && !self.is_answered_at(psn)
            }
            _ => self.una < psn.plus(1) && psn < self.next,
        };
        if is_new {
            return None;
        }
        let is_old = psn < self.una && (role != Role::Response || !self.is_of_other_kind(psn));
        let is_early = psn >= self.next && psn.since(self.next) < EARLY;
        Some(match is_old || is_early || self.is_answered_at(psn) {
            true => AnswerFit::Possible,
            false => AnswerFit::Impossible,
        })
    }

    fn is_answered_at(&self, psn: UnwrappedPsn) -> bool {
        self.slots.get(psn).is_some_and(|slot| slot.answered)
    }

    /// A request with payload was seen at `psn`: it has no response.
    fn is_of_other_kind(&self, psn: UnwrappedPsn) -> bool {
        self.slots.get(psn).is_some_and(|slot| slot.copies > 0 && slot.bytes > 0)
    }

    fn needs_response_at(&self, psn: UnwrappedPsn) -> bool {
        let message = self.messages.find(psn).and_then(|index| self.messages.get(index));
        message.is_some_and(|message| message.verb.needs_response())
    }

    /// What answers said may be those of another queue pair.
    pub(super) fn forget_answers(&mut self) {
        let oldest = UnwrappedPsn(self.una.min(self.next).0.saturating_sub(SLACK));
        self.una = oldest.max(self.first);
        self.answered = self.una;
        self.unanswered = Unanswered::since(self.next);
        self.min_round_trip = None;
    }

    fn handle_ack(&mut self, packet: &Packet, psn: UnwrappedPsn) -> AnswerVerdict {
        let round_trip = self.round_trip_of(psn, packet.time);
        let acknowledged = self.settle(psn.plus(1), packet);
        self.note_answered(psn.plus(1), packet.time);
        AnswerVerdict {
            psn,
            message: self.newest_message(psn),
            acknowledged,
            round_trip: round_trip.filter(|_| acknowledged.packets > 0),
            is_repeated: acknowledged.packets == 0,
            ..AnswerVerdict::default()
        }
    }

    fn handle_nak(
        &mut self,
        packet: &Packet,
        psn: UnwrappedPsn,
        figures: &mut Figures,
    ) -> AnswerVerdict {
        let is_stale = psn < self.una || self.causes.is_heeded(psn);
        let is_repeated = is_stale || is_same(self.causes.nak, psn);
        let mut verdict = AnswerVerdict { psn, is_repeated, ..AnswerVerdict::default() };
        if is_stale {
            return verdict;
        }
        let is_hole = self.holes.refuse(psn);
        verdict.missing = if is_repeated { None } else { self.missing(psn, is_hole) };
        match verdict.missing {
            Some(Missing::Copy { .. }) => figures.lost_behind += 1,
            Some(Missing::CopyNotCaptured) => figures.lost_before += 1,
            // What was not captured counts when it comes, and what is damaged by itself.
            Some(Missing::NotCaptured | Missing::Damaged { .. }) | None => {}
        }
        verdict.acknowledged = self.settle(psn, packet);
        self.note_answered(psn, packet.time);
        self.causes.note_nak(psn, packet.time);
        verdict.message = self.number_of(psn);
        verdict
    }

    /// Which copy of the request `psn` a NAK misses; `None` if that is not known any more, or if nothing was sent yet.
    fn missing(&self, psn: UnwrappedPsn, is_hole: bool) -> Option<Missing> {
        let known = self.slots.get(psn).filter(|slot| slot.copies > 0);
        let newest = known.map_or(0, |slot| slot.last.frame);
        if let Some(frame) = self.damaged.frame_of(psn.on_wire()).filter(|frame| *frame > newest) {
            return Some(Missing::Damaged { frame });
        }
        if is_hole {
            return Some(Missing::NotCaptured);
        }
        if let Some(slot) = known {
            return Some(match self.causes.has_skipped(psn, slot.last.time) {
                true => Missing::CopyNotCaptured,
                false => Missing::Copy { frame: slot.last.frame },
            });
        }
        let is_remembered = self.next.since(psn) <= self.slots.capacity() as u64;
        (psn < self.next && is_remembered).then_some(Missing::NotCaptured)
    }

    fn handle_rnr(
        &mut self,
        packet: &Packet,
        psn: UnwrappedPsn,
        figures: &mut Figures,
    ) -> AnswerVerdict {
        let timer = packet.aeth.map_or(0, |aeth| aeth.syndrome.0 & 0x1f);
        let promised = Duration::from_nanos(rnr_timer_ns(timer));
        let is_repeated = psn < self.una || is_same(self.causes.rnr, psn);
        let mut verdict = AnswerVerdict { psn, is_repeated, ..AnswerVerdict::default() };
        verdict.rnr_wait = Some(RnrWait { promised, actual: None });
        if is_repeated {
            return verdict;
        }
        figures.rnr_promised_ns += promised.as_nanos() as u64;
        verdict.acknowledged = self.settle(psn, packet);
        self.note_answered(psn, packet.time);
        self.causes.rnr =
            Some(Refusal { psn, time: packet.time, wait: promised, is_served: false });
        self.causes.last_sign = self.causes.last_sign.max(packet.time);
        verdict.message = self.number_of(psn);
        verdict
    }

    fn handle_fatal_nak(
        &mut self,
        packet: &Packet,
        psn: UnwrappedPsn,
        code: NakCode,
    ) -> AnswerVerdict {
        let acknowledged = self.settle(psn, packet);
        let index = self.messages.find(psn);
        let message = self.number_of(psn);
        if let Some(refused) = index.and_then(|index| self.messages.finish(index)) {
            self.hand_out(refused.close(
                FlowId::UNTRACKED,
                packet.time,
                packet.frame,
                Outcome::Refused(code),
            ));
        }
        self.flush(packet.time, Outcome::Flushed);
        (self.is_failed, self.bytes) = (true, 0);
        self.una = self.una.max(self.next);
        AnswerVerdict { psn, message, acknowledged, ..AnswerVerdict::default() }
    }

    fn handle_response(
        &mut self,
        packet: &Packet,
        psn: UnwrappedPsn,
        figures: &mut Figures,
    ) -> AnswerVerdict {
        self.learn_mtu(packet);
        let index = self.messages.find_for_response(psn, &packet.opcode_info);
        let Some((index, message)) = index else {
            let is_repeated = self.slots.get(psn).is_some_and(|slot| slot.answered);
            return AnswerVerdict {
                psn,
                is_repeated,
                is_unsolicited: !is_repeated,
                ..Default::default()
            };
        };
        let number = Some(message.number);
        let known = self.slots.get(psn).copied();
        if known.is_some_and(|slot| slot.answered) {
            return AnswerVerdict { psn, message: number, is_repeated: true, ..Default::default() };
        }
        let round_trip = known
            .filter(|slot| slot.copies == 1 && slot.first.time <= packet.time)
            .map(|slot| packet.time.since(slot.first.time));
        let expected = self.answered.max(message.first_psn);
        let skipped = psn.since(expected);
        figures.skipped_responses += skipped;
        if skipped > 0 {
            self.skipped_at = packet.time;
        }
        self.note_response(packet, psn, index);
        let acknowledged = self.settle(psn.plus(1), packet);
        self.causes.last_sign = self.causes.last_sign.max(packet.time);
        AnswerVerdict {
            psn,
            message: number,
            acknowledged,
            round_trip,
            gap: (skipped > 0).then_some(Gap { first: expected, packets: skipped }),
            ..AnswerVerdict::default()
        }
    }

    /// The responder has executed everything before `end`: responses that are not there are lost.
    fn note_answered(&mut self, end: UnwrappedPsn, time: Timestamp) {
        if end > self.answered && self.messages.reads > 0 {
            self.skipped_at = time;
        }
        self.answered = self.answered.max(end);
    }

    fn note_response(&mut self, packet: &Packet, psn: UnwrappedPsn, index: usize) {
        match self.slots.get_mut(psn) {
            Some(slot) => slot.answered = true,
            None => self.slots.put(psn, Slot { answered: true, ..Slot::default() }),
        }
        self.answered = self.answered.max(psn.plus(1));
        // A READ whose length is not known is at least so long.
        self.next = self.next.max(psn.plus(1));
        self.bytes = self.bytes.saturating_sub(u64::from(packet.payload_len));
        let ends = packet.opcode_info.is_some_and(|info| info.ends());
        if let Some(open) = self.messages.get_mut(index) {
            open.responses += 1;
            if ends && open.responses > psn.since(open.first_psn) {
                open.last_psn = Some(open.last_psn.map_or(psn, |last| last.max(psn)));
            }
        }
    }

    /// Round trip of a request that was sent once (Karn), and not behind one that was sent again.
    fn round_trip_of(&self, psn: UnwrappedPsn, time: Timestamp) -> Option<Duration> {
        let once = |slot: &&Slot| slot.copies == 1;
        let is_held_up = self.slots.get(self.una).is_some_and(|slot| slot.copies > 1);
        let slot = self.slots.get(psn).filter(once).filter(|slot| slot.first.time <= time)?;
        (!is_held_up).then(|| time.since(slot.first.time))
    }

    /// All SENDs and WRITEs before `end` are acknowledged (R46).
    fn settle(&mut self, end: UnwrappedPsn, packet: &Packet) -> Acknowledged {
        let packets = end.since(self.una);
        if packets == 0 {
            let messages = self.complete(packet.time, packet.frame);
            return Acknowledged { messages, ..Acknowledged::default() };
        }
        let mut bytes = 0;
        let known = self.una.0.max(end.0.saturating_sub(self.slots.capacity() as u64));
        for number in known..end.min(self.next).0 {
            bytes += self.slots.get(UnwrappedPsn(number)).map_or(0, |slot| u64::from(slot.bytes));
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.una = end;
        if self.messages.reads == 0 && self.una >= self.next {
            self.bytes = 0;
        }
        let messages = self.complete(packet.time, packet.frame);
        Acknowledged { packets, bytes, messages }
    }
}

fn unsolicited(psn: UnwrappedPsn) -> AnswerVerdict {
    AnswerVerdict { psn, is_unsolicited: true, ..AnswerVerdict::default() }
}

/// `psn` was refused before, and the requester has not sent it again since.
fn is_same(refusal: Option<Refusal>, psn: UnwrappedPsn) -> bool {
    refusal.is_some_and(|refusal| refusal.psn == psn && !refusal.is_served)
}
