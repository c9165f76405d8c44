//! Why a request is sent again, judged by what its requester had heard.

use std::time::Duration;

use super::UnwrappedPsn;
use super::figures::Repeated;
use super::retransmission_cause::RetransmissionCause;
use crate::Timestamp;

/// Silence that is taken for a timeout if the timeout is not known: three quarters of that of code 14,
/// the shortest one in ordinary use. A requester that goes back sooner is known by its second packet.
const LIKELY_TIMEOUT: Duration = Duration::from_millis(50);
/// A timeout is at least this many round trips.
const TIMEOUT_ROUND_TRIPS: u32 = 16;
/// Packets of a round follow each other within this time.
const ROUND_PAUSE: Duration = Duration::from_millis(1);
/// Packets that a requester sends at most when it repeats only what is missing.
const MAX_REPAIR: u64 = 8;

/// A refusal that the requester has heard of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    pub(super) psn: UnwrappedPsn,
    pub(super) time: Timestamp,
    /// How long it asks to wait; zero in a sequence NAK.
    pub(super) wait: Duration,
    /// The PSN was sent again since.
    pub(super) is_served: bool,
}

/// A run of requests that are sent again, one behind the other.
#[derive(Debug, Clone, Copy)]
struct Round {
    cause: RetransmissionCause,
    /// PSN of its first packet, and when that was seen.
    first: UnwrappedPsn,
    began: Timestamp,
    /// PSN of its newest packet.
    newest: UnwrappedPsn,
    /// The PSN that goes on with it.
    next: UnwrappedPsn,
    /// When its newest packet was seen.
    last: Timestamp,
    /// One past the last PSN that had been sent when it began.
    end: UnwrappedPsn,
    sent: Repeated,
}

/// What explains the requests of a flow that are sent again.
#[derive(Debug, Default)]
pub(super) struct Causes {
    pub(super) nak: Option<Refusal>,
    /// The NAK before it, if nothing had been sent for it when it came.
    pub(super) overtaken: Option<Refusal>,
    pub(super) rnr: Option<Refusal>,
    round: Option<Round>,
    /// The round before what is sent for the first time now.
    ended: Option<Round>,
    /// The requester answered the last NAK with only what was missing.
    is_selective: bool,
    /// When the responder last let the requester go on.
    pub(super) last_sign: Timestamp,
}

/// A repeated request, as far as the cause depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeat {
    pub(super) psn: UnwrappedPsn,
    /// PSNs that it takes.
    pub(super) span: u64,
    pub(super) bytes: u32,
    pub(super) time: Timestamp,
    /// Time since the requester heard of progress, or sent what it waits for an answer to.
    pub(super) silence: Duration,
    /// It asks for an ACK, and its first transmission did not.
    pub(super) asks_newly: bool,
    /// It is a READ, an atomic or another request with a response of its own.
    pub(super) needs_response: bool,
    /// A response to it is missing though a later one was seen.
    pub(super) is_implied: bool,
    /// One past the last PSN that was sent.
    pub(super) next: UnwrappedPsn,
    /// The oldest PSN that is not acknowledged.
    pub(super) una: UnwrappedPsn,
    /// Smallest round trip that was measured.
    pub(super) round_trip: Option<Duration>,
    /// Local ACK timeout, if it is known.
    pub(super) timeout: Option<Duration>,
}

/// The verdict on a repeated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RepeatVerdict {
    pub(super) cause: RetransmissionCause,
    /// It is the first of its round.
    pub(super) is_new_round: bool,
    /// How long an RNR wait was that ends with it.
    pub(super) waited: Option<(Duration, Duration)>,
    /// What the packets before it in the round were counted for, what they are, and how many.
    pub(super) corrected: Option<(RetransmissionCause, RetransmissionCause, Repeated)>,
}

impl Causes {
    /// The cause of `repeat`.
    pub(super) fn judge(&mut self, repeat: &Repeat) -> RepeatVerdict {
        let served = self.refusal_of(repeat);
        if served.is_none()
            && let Some(verdict) = self.go_on(repeat)
        {
            return verdict;
        }
        let (cause, waited) = served.unwrap_or_else(|| (self.silence(repeat), None));
        self.round = Some(Round {
            cause,
            first: repeat.psn,
            began: repeat.time,
            newest: repeat.psn,
            next: repeat.psn.plus(repeat.span),
            last: repeat.time,
            end: repeat.next,
            sent: Repeated { packets: 1, bytes: u64::from(repeat.bytes), rounds: 1 },
        });
        RepeatVerdict { cause, is_new_round: true, waited, corrected: None }
    }

    /// The verdict on a packet that goes on with the round. Packets may be missing in between: they were
    /// lost before the capture point.
    fn go_on(&mut self, repeat: &Repeat) -> Option<RepeatVerdict> {
        let heard = self.last_sign;
        let round = self.round.as_mut()?;
        // What comes after an answer to a probe is no part of the probe.
        let is_probe = round.cause == RetransmissionCause::TailProbe;
        let is_next = round.next == repeat.psn && (!is_probe || heard <= round.last);
        let is_soon = repeat.time.since(round.last) < ROUND_PAUSE && heard <= round.last;
        let skips = round.next < repeat.psn && repeat.psn < round.end && is_soon;
        if !is_next && !skips {
            return None;
        }
        // A probe is a single packet: two of them are a requester that goes back without having been told to. So are
        // two that nothing explains: the first ones of their round were lost before the capture point.
        let is_open = is_probe || round.cause == RetransmissionCause::Unexplained;
        let goes_back = is_open && !repeat.needs_response;
        let corrected =
            goes_back.then_some((round.cause, RetransmissionCause::AckTimeout, round.sent));
        if goes_back {
            round.cause = RetransmissionCause::AckTimeout;
        }
        (round.next, round.last) = (repeat.psn.plus(repeat.span), repeat.time);
        round.newest = repeat.psn;
        round.sent.packets += 1;
        round.sent.bytes += u64::from(repeat.bytes);
        Some(RepeatVerdict { cause: round.cause, is_new_round: false, waited: None, corrected })
    }

    /// The responder asks for `psn`.
    pub(super) fn note_nak(&mut self, psn: UnwrappedPsn, time: Timestamp) {
        self.overtaken = self.nak.filter(|before| !before.is_served && before.psn != psn);
        self.nak = Some(Refusal { psn, time, wait: Duration::ZERO, is_served: false });
        self.last_sign = self.last_sign.max(time);
    }

    /// A NAK for `psn` tells nothing new: `psn` was sent again for one before, and nothing behind it by which the
    /// responder could miss it again.
    pub(super) fn is_heeded(&self, psn: UnwrappedPsn) -> bool {
        let is_served = self.nak.is_some_and(|nak| nak.is_served && nak.psn == psn);
        is_served && self.round.is_some_and(|round| round.newest == psn)
    }

    /// The newest round went over `psn`, of which the newest copy was seen at `last`, without it: the copy of that
    /// round was lost before the capture point. A requester that repeats only what is missing leaves out most.
    pub(super) fn has_skipped(&self, psn: UnwrappedPsn, last: Timestamp) -> bool {
        self.round.or(self.ended).is_some_and(|round| {
            let is_inside = round.first < psn && psn < round.next;
            let is_dense = round.sent.packets * 2 > round.next.since(round.first);
            is_inside && is_dense && last < round.began
        })
    }

    /// A refusal has asked for `psn`, and it was not sent since.
    pub(super) fn is_asked_for(&self, psn: UnwrappedPsn) -> bool {
        let refusals = [&self.nak, &self.overtaken, &self.rnr].into_iter().flatten();
        refusals.into_iter().any(|refusal| !refusal.is_served && refusal.psn == psn)
    }

    /// `psn` is the next one of requests that are being sent again.
    pub(super) fn is_going_on(&self, psn: UnwrappedPsn) -> bool {
        self.round.is_some_and(|round| round.next == psn)
    }

    /// The cause, if the responder has asked for `repeat`, and how long an RNR wait took.
    fn refusal_of(
        &mut self,
        repeat: &Repeat,
    ) -> Option<(RetransmissionCause, Option<(Duration, Duration)>)> {
        let psn = repeat.psn;
        let asks = |refusal: &&mut Refusal| !refusal.is_served && refusal.psn == psn;
        if let Some(rnr) = self.rnr.as_mut().filter(asks) {
            rnr.is_served = true;
            let waited = (rnr.wait, repeat.time.since(rnr.time));
            return Some((RetransmissionCause::RnrNak, Some(waited)));
        }
        let naks = [&mut self.nak, &mut self.overtaken].into_iter().flatten();
        if let Some(nak) = naks.into_iter().find(asks) {
            nak.is_served = true;
            let alone = psn.plus(repeat.span) < repeat.next;
            let selective = alone && (repeat.asks_newly || self.is_selective);
            return Some((
                match selective {
                    true => RetransmissionCause::SelectiveRepair,
                    false => RetransmissionCause::SequenceNak,
                },
                None,
            ));
        }
        None
    }

    fn silence(&self, repeat: &Repeat) -> RetransmissionCause {
        let silence = repeat.silence;
        let is_long = match (repeat.timeout, repeat.round_trip) {
            (Some(timeout), _) => silence >= timeout - timeout / 16,
            (None, Some(round_trip)) => {
                silence >= LIKELY_TIMEOUT.max(round_trip * TIMEOUT_ROUND_TRIPS)
            }
            (None, None) => silence >= LIKELY_TIMEOUT,
        };
        let is_tail = repeat.psn.plus(repeat.span) == repeat.next;
        // An acknowledgement of just what a NAK had asked for: nothing behind it was kept.
        let was_refused = self.nak.is_some_and(|nak| nak.is_served && nak.psn < repeat.psn);
        let soon = repeat.round_trip.map_or(ROUND_PAUSE, |round_trip| round_trip.min(ROUND_PAUSE));
        let goes_on = self.round.is_some_and(|round| round.next == repeat.psn);
        let at_once = goes_on && repeat.psn == repeat.una && repeat.silence < soon;
        if is_long {
            RetransmissionCause::AckTimeout
        } else if was_refused && at_once && !repeat.needs_response {
            RetransmissionCause::SequenceNak
        } else if repeat.is_implied {
            RetransmissionCause::ImpliedNak
        } else if is_tail || repeat.needs_response || repeat.psn <= repeat.una {
            RetransmissionCause::TailProbe
        } else {
            RetransmissionCause::Unexplained
        }
    }

    /// A request that was not sent before ends a round. What its packets turn out to be: the cause
    /// that they were counted for, the right one, and how many.
    pub(super) fn end_round(
        &mut self,
    ) -> Option<(RetransmissionCause, RetransmissionCause, Repeated)> {
        let round = self.round.take()?;
        self.ended = Some(round);
        let went_back = round.next >= round.end;
        let is_short = round.sent.packets <= MAX_REPAIR;
        match round.cause {
            RetransmissionCause::SequenceNak if !went_back && is_short => {
                self.is_selective = true;
                Some((round.cause, RetransmissionCause::SelectiveRepair, round.sent))
            }
            RetransmissionCause::SelectiveRepair if went_back && round.sent.packets > 1 => {
                self.is_selective = false;
                Some((round.cause, RetransmissionCause::SequenceNak, round.sent))
            }
            RetransmissionCause::SelectiveRepair => {
                self.is_selective = true;
                None
            }
            _ => None,
        }
    }
}
