//! Checks of ACK and NAK against the requests that they answer.

use std::time::Duration;

use uroce_wire::{Aeth, NakCode, Operation, Position, SyndromeKind, TAKES_GAP_LISTS};

use super::finding::Ledger;
use super::requests::RequestsSeen;
use super::rules::acknowledge::{
    ACK_GOES_BACK, ACK_INSIDE_READ, ACK_OF_UNSENT, MSN_GOES_BACK, MSN_MISMATCH, NAK_NOT_HONOURED,
    NAK_OF_ACKNOWLEDGED, NAK_REPEATED,
};
use super::sight::Sight;
use super::words::words;
use crate::{Direction, Timestamp};

/// Captures have packets of several queues out of order by less than this.
const CAPTURE_ORDER: Duration = Duration::from_millis(1);
/// A PSN so far ahead belongs to something else.
const FAR_AHEAD: u64 = 1 << 20;
/// Sequence NAKs for one gap that duplication by the network does not explain.
const MANY_NAKS: u32 = 3;
/// Requests on their way that a responder may answer by a NAK that comes again: about one in half a window is.
const MOST_ASKS: u32 = 16;
/// New packets behind a NAK by which the requester should have heeded it.
const MANY_PACKETS: u32 = 256;
/// Time behind a NAK by which the requester should have heeded it.
const LONG: Duration = Duration::from_secs(1);

/// The newest plain ACK.
#[derive(Debug, Clone, Copy)]
struct LastAck {
    psn: u64,
    msn: u32,
    frame: u64,
}

/// The newest response of a READ whose last one has not come.
#[derive(Debug, Clone, Copy)]
struct PartOfRead {
    psn: u64,
    frame: u64,
}

/// An acknowledgement of what was not seen to be sent.
#[derive(Debug, Clone, Copy)]
struct Ghost {
    psn: u64,
    frame: u64,
    time: Timestamp,
    answerer: usize,
}

/// A sequence NAK.
#[derive(Debug, Clone, Copy)]
struct SequenceNak {
    psn: u64,
    frame: u64,
    time: Timestamp,
    naks: u32,
    new_packets: u32,
    is_served: bool,
}

/// What the peer said to the requests of a flow.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Answers {
    /// Requests that have asked for a NAK with a list again, and have drawn none yet.
    asks: u32,
    count: u64,
    /// A new request left behind the first answer.
    has_gone_on: bool,
    last_ack: Option<LastAck>,
    part: Option<PartOfRead>,
    ghost: Option<Ghost>,
    gap: Option<SequenceNak>,
    completed: u64,
    msn_offset: Option<u32>,
    msn_doubt: Option<u32>,
}

impl Answers {
    /// Answers that were seen.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The requester sent something new behind the first of them.
    pub(super) const fn has_gone_on(&self) -> bool {
        self.has_gone_on
    }

    /// A request leaves: what it says about answers before.
    pub(super) fn note_request(&mut self, sight: &Sight<'_>, sent_below: u64, ledger: &mut Ledger) {
        self.note_gap_repair(sight, sent_below);
        self.has_gone_on |= self.count > 0 && sight.psn >= sent_below;
        self.completed = self.completed.wrapping_add(sight.completed.into());
        let bth = &sight.packet.bth;
        let asks = bth.ack_req || bth.reserved7 & TAKES_GAP_LISTS != 0;
        self.asks = (self.asks + u32::from(asks)).min(MOST_ASKS);
        let Some(ghost) = self.ghost.take() else { return };
        let is_late = sight.packet.time.since(ghost.time) > CAPTURE_ORDER;
        // Behind a gap the capture lacks packets, and those may be what was acknowledged.
        if is_late && sight.psn == sent_below {
            ghost.record(sight.packet.frame, ledger);
        }
    }

    fn note_gap_repair(&mut self, sight: &Sight<'_>, sent_below: u64) {
        let Some(gap) = self.gap.as_mut() else { return };
        if sight.psn <= gap.psn {
            gap.is_served = true;
        } else if sight.psn >= sent_below {
            gap.new_packets = gap.new_packets.saturating_add(1);
        }
    }

    /// At the end of the capture at `end`. What was acknowledged and not seen may be the last request, which the
    /// capture lacks.
    pub(super) fn conclude(&self, flow: usize, end: Timestamp, ledger: &mut Ledger) {
        let ignored = self.gap.filter(|gap| {
            !gap.is_served && gap.new_packets >= MANY_PACKETS && end.since(gap.time) > LONG
        });
        if let Some(gap) = ignored {
            ledger.record(&NAK_NOT_HONOURED, Some(flow), gap.frame, || {
                let time = words(end.since(gap.time));
                format!("frame {}: {} new packets in {time} since", gap.frame, gap.new_packets)
            });
        }
    }
}

impl Ghost {
    fn record(&self, frame: u64, ledger: &mut Ledger) {
        ledger.record(&ACK_OF_UNSENT, Some(self.answerer), self.frame, || {
            let psn = self.psn & 0xff_ffff;
            format!("frame {}: PSN {psn:#x}, which frame {frame} shows was not sent", self.frame)
        });
    }
}

impl Answers {
    /// Looks at an answer to `requests`. True if the network may have delivered ACKs in another order.
    pub(super) fn check(
        &mut self,
        sight: &Sight<'_>,
        requests: &RequestsSeen,
        ledger: &mut Ledger,
    ) -> bool {
        if !requests.is_since_first(sight.psn) {
            return false;
        }
        self.count += 1;
        self.completed = self.completed.wrapping_add(sight.completed.into());
        if sight.psn >= requests.sent_below() {
            self.note_ghost(sight, requests.sent_below());
            return false;
        }
        self.note_part_of_read(sight);
        let Some(aeth) = sight.packet.aeth else { return false };
        let is_plain = sight.answer().is_some_and(|info| info.operation == Operation::Acknowledge);
        match aeth.syndrome.kind() {
            SyndromeKind::Ack { .. } if is_plain => return self.check_ack(sight, aeth, ledger),
            SyndromeKind::Nak(NakCode::PsnSequence) => self.check_nak(sight, ledger),
            _ => {}
        }
        false
    }

    fn note_part_of_read(&mut self, sight: &Sight<'_>) {
        let Some(info) = sight.answer() else { return };
        match (info.operation, info.position) {
            (Operation::ReadResponse, Position::First | Position::Middle) => {
                self.part = Some(PartOfRead { psn: sight.psn, frame: sight.packet.frame });
            }
            (Operation::Acknowledge, _) => {}
            _ => self.part = None,
        }
    }

    fn note_ghost(&mut self, sight: &Sight<'_>, sent_below: u64) {
        if sight.psn - sent_below < FAR_AHEAD && self.ghost.is_none() {
            self.ghost = Some(Ghost {
                psn: sight.psn,
                frame: sight.packet.frame,
                time: sight.packet.time,
                answerer: sight.flow,
            });
        }
    }

    /// True if the network may have delivered ACKs in another order.
    fn check_ack(&mut self, sight: &Sight<'_>, aeth: Aeth, ledger: &mut Ledger) -> bool {
        if self.gap.is_some_and(|gap| sight.psn >= gap.psn) {
            self.gap = None;
        }
        if let Some(part) = self.part.filter(|part| sight.psn <= part.psn) {
            sight.breaks(&ACK_INSIDE_READ, ledger, || {
                let (psn, frame) = (sight.packet.bth.psn, part.frame);
                format!("ACK for {psn}, behind the response in frame {frame}, which is not the last of its READ")
            });
        }
        let now = LastAck { psn: sight.psn, msn: aeth.msn, frame: sight.packet.frame };
        let Some(last) = self.last_ack else {
            self.last_ack = Some(now);
            return false;
        };
        let rises = msn_since(now.msn, last.msn);
        if (now.psn > last.psn && rises < 0) || (now.psn < last.psn && rises > 0) {
            sight.breaks(&MSN_GOES_BACK, ledger, || contradiction(&last, &now));
        } else if now.psn < last.psn {
            sight.breaks(&ACK_GOES_BACK, ledger, || contradiction(&last, &now));
            return sight.packet.direction != Some(Direction::Outbound);
        }
        if now.psn >= last.psn {
            self.last_ack = Some(now);
            // A READ whose response was lost is in the MSN, and is not complete.
            if sight.reads == 0 {
                self.check_msn(sight, aeth.msn, ledger);
            }
        }
        false
    }

    /// The MSN minus the completed messages is constant. A responder may count a READ before its
    /// response has left: only what stays counts.
    fn check_msn(&mut self, sight: &Sight<'_>, msn: u32, ledger: &mut Ledger) {
        let offset = msn.wrapping_sub(self.completed as u32) & 0xff_ffff;
        let Some(expected) = self.msn_offset.filter(|expected| *expected != offset) else {
            self.msn_offset = Some(offset);
            self.msn_doubt = None;
            return;
        };
        if self.msn_doubt == Some(offset) {
            let should = expected.wrapping_add(self.completed as u32) & 0xff_ffff;
            sight.breaks(&MSN_MISMATCH, ledger, || format!("MSN {msn}, counted are {should}"));
            self.msn_offset = Some(offset);
        }
        self.msn_doubt = Some(offset);
    }

    fn check_nak(&mut self, sight: &Sight<'_>, ledger: &mut Ledger) {
        if let Some(acked) = self.last_ack.filter(|last| sight.psn <= last.psn) {
            sight.breaks(&NAK_OF_ACKNOWLEDGED, ledger, || {
                let (psn, frame) = (acked.psn & 0xff_ffff, acked.frame);
                format!("NAK for {}, frame {frame} acknowledged {psn:#x}", sight.packet.bth.psn)
            });
        }
        let again = self.gap.filter(|gap| gap.psn == sight.psn && !gap.is_served);
        let (frame, time) = (sight.packet.frame, sight.packet.time);
        let new =
            SequenceNak { psn: sight.psn, frame, time, naks: 0, new_packets: 0, is_served: false };
        let mut gap = again.unwrap_or(new);
        // One with a list of gaps comes again when the requester asks for that (ADR 33).
        let is_asked_for = self.asks > 0 && sight.length().is_some_and(|length| length > 0);
        self.asks -= u32::from(is_asked_for);
        gap.naks = gap.naks.saturating_add(u32::from(!is_asked_for));
        if gap.naks >= MANY_NAKS && !is_asked_for {
            sight.breaks(&NAK_REPEATED, ledger, || {
                let (naks, psn, first) = (gap.naks, sight.packet.bth.psn, gap.frame);
                format!("NAK {naks} for PSN {psn}, the first one in frame {first}")
            });
        }
        self.gap = Some(gap);
    }
}

const fn msn_since(now: u32, before: u32) -> i32 {
    ((now.wrapping_sub(before) << 8) as i32) >> 8
}

fn contradiction(last: &LastAck, now: &LastAck) -> String {
    let (psn, before) = (now.psn & 0xff_ffff, last.psn & 0xff_ffff);
    format!(
        "PSN {psn:#x} with MSN {}, behind PSN {before:#x} with MSN {} in frame {}",
        now.msn, last.msn, last.frame
    )
}
