//! Checks of repetitions, and how connections end.

use std::time::Duration;

use uroce_wire::{NakCode, SyndromeKind, rnr_timer_ns};

use super::close::Close;
use super::finding::Ledger;
use super::requests::RequestsSeen;
use super::rules::acknowledge::UNANSWERED;
use super::rules::retry::{
    CLOSED_UNANSWERED, EARLY_RETRANSMISSION, FATAL_NAK, RETRIES_EXCEEDED, RNR, RNR_EXCEEDED,
    RNR_LOOP, RNR_TIMER_IGNORED, SENDS_AFTER_FATAL, TIMEOUT_STORM,
};
use super::sight::Sight;
use super::unanswered::{Heard, NotReady, Retries, Stuck};
use super::words::words;
use crate::Timestamp;

/// Transmissions of one packet that are many.
const MANY_COPIES: u32 = 8;
/// Transmissions of one packet behind which silence means that the requester gave up.
const GIVEN_UP: u32 = 3;
/// Repetitions that come sooner are copies: of the network, or of several interfaces of the capture.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// RNR NAKs for one message that are many.
const MANY_RNRS: u32 = 16;
/// Time for which packets that were on their way when a NAK ended the queue pair may still come.
const ON_THE_WAY: Duration = Duration::from_millis(200);

/// Time by which the packets of the last round, or silence, may be late.
const LATE: Duration = Duration::from_millis(10);

/// A NAK that ended the queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fatal {
    pub(super) psn: u64,
    pub(super) frame: u64,
    pub(super) code: NakCode,
    time: Timestamp,
    late: u64,
    first_late: u64,
}

impl Fatal {
    fn of(sight: &Sight<'_>, code: NakCode) -> Self {
        let (frame, time) = (sight.packet.frame, sight.packet.time);
        Self { psn: sight.psn, frame, code, time, late: 0, first_late: 0 }
    }

    /// Tells of it as a finding about `flow`, which it belongs to.
    pub(super) fn record(&self, flow: usize, ledger: &mut Ledger) {
        ledger.record(&FATAL_NAK, Some(flow), self.frame, || {
            let psn = self.psn & 0xff_ffff;
            format!("frame {}: {} for PSN {psn:#x}", self.frame, self.code.name())
        });
    }
}

/// What is known about the repetitions of a flow.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Repeats {
    stuck: Option<Stuck>,
    not_ready: Option<NotReady>,
    fatal: Option<Fatal>,
    close: Option<Close>,
    last_request: Timestamp,
}

/// How the requests of a flow came to their end.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequesterEnd {
    /// A NAK ended it.
    Fatal(Fatal),
    /// It gave up behind RNR NAKs.
    NotReady(NotReady),
    /// It gave up behind repetitions.
    Stuck(Stuck),
}

impl Repeats {
    /// Looks at a request.
    pub(super) fn check_request(&mut self, sight: &Sight<'_>, ledger: &mut Ledger) {
        self.last_request = sight.packet.time;
        self.note_fatal_ignored(sight);
        if !sight.is_retransmission {
            return;
        }
        self.check_rnr_wait(sight, ledger);
        if sight.is_early {
            sight.breaks(&EARLY_RETRANSMISSION, ledger, || {
                let after = sight.after.map_or_else(String::new, |after| {
                    format!(", {} after it was sent first", words(after))
                });
                format!("PSN {}{after}", sight.packet.bth.psn)
            });
        }
        if sight.is_unprovoked {
            self.note_stuck(sight, ledger);
        }
    }

    fn note_fatal_ignored(&mut self, sight: &Sight<'_>) {
        let Some(fatal) = self.fatal.as_mut() else { return };
        // What was sent before is sent again by a requester that the NAK did not reach.
        let is_new = sight.psn >= fatal.psn && !sight.is_retransmission;
        if is_new && sight.packet.time.since(fatal.time) > ON_THE_WAY {
            if fatal.late == 0 {
                fatal.first_late = sight.packet.frame;
            }
            fatal.late += 1;
        }
    }

    fn check_rnr_wait(&mut self, sight: &Sight<'_>, ledger: &mut Ledger) {
        let Some(not_ready) = self.not_ready.as_mut() else { return };
        // A READ before it is sent again since a response of it was lost, and all behind it is, too.
        not_ready.is_cut_short |= sight.psn < not_ready.psn;
        if not_ready.is_over || not_ready.psn != sight.psn {
            return;
        }
        not_ready.is_over = true;
        let waited = sight.packet.time.since(not_ready.time);
        if waited < not_ready.wait * 9 / 10 && !not_ready.is_cut_short {
            let (promised, frame) = (words(not_ready.wait), not_ready.frame);
            sight.breaks(&RNR_TIMER_IGNORED, ledger, || {
                format!("after {}, frame {frame} asked for {promised}", words(waited))
            });
        }
    }

    fn note_stuck(&mut self, sight: &Sight<'_>, ledger: &mut Ledger) {
        let (frame, time) = (sight.packet.frame, sight.packet.time);
        let again = self.stuck.filter(|stuck| stuck.psn == sight.psn);
        if again.is_some_and(|stuck| time.since(stuck.time) < SHORTEST_PAUSE) {
            return;
        }
        // The oldest one decides: those behind it are of the same round.
        if self.stuck.is_some_and(|stuck| sight.psn > stuck.psn) {
            return;
        }
        let new = Stuck {
            psn: sight.psn,
            frame,
            copies: 1,
            first_time: time,
            time,
            interval: sight.after.unwrap_or_default(),
            interval_before: Duration::ZERO,
        };
        let stuck = again.map_or(Stuck { copies: 2, ..new }, |stuck| Stuck {
            frame,
            copies: stuck.copies.saturating_add(1),
            interval: time.since(stuck.time),
            interval_before: stuck.interval,
            time,
            ..stuck
        });
        if stuck.copies == MANY_COPIES {
            sight.breaks(&TIMEOUT_STORM, ledger, || {
                let span = words(time.since(stuck.first_time));
                format!("PSN {} sent {MANY_COPIES} times, {span}", sight.packet.bth.psn)
            });
        }
        self.stuck = Some(stuck);
    }

    /// A DREQ closes the connection. One that is sent again says nothing new.
    pub(super) fn note_close(&mut self, close: Close) {
        self.close.get_or_insert(close);
    }

    /// Its sender refuses a request of the peer for good, which ends the queue pairs of both: what it waits for
    /// is not for the peer to say any more. It had not given up before, or it would not have answered.
    pub(super) fn note_own_refusal(&mut self) {
        (self.stuck, self.not_ready) = (None, None);
    }

    /// How it came to its end, if it did, in a capture that lasts until `end`. A requester that is closed sends
    /// nothing any more, so that only silence before the DREQ shows that it gave up.
    pub(super) fn end(&self, end: Timestamp, retries: Retries) -> Option<RequesterEnd> {
        if let Some(fatal) = self.fatal {
            return Some(RequesterEnd::Fatal(fatal));
        }
        let end = self.close.map_or(end, |close| close.time.min(end));
        let waits = self.not_ready.filter(|it| {
            let is_silent = end.since(it.time) > it.wait * 2 + Duration::from_millis(100);
            let is_used_up = self.close.is_some_and(|close| close.is_behind_last_rnr(it, retries));
            !it.is_over && (is_silent || is_used_up)
        });
        if let Some(not_ready) = waits {
            return Some(RequesterEnd::NotReady(not_ready));
        }
        let gave_up = self.stuck.filter(|stuck| {
            let silence = end.since(self.last_request);
            let is_used_up =
                self.close.is_some() && Close::is_behind_last_timeout(stuck, silence, retries);
            self.is_waiting(stuck) && (silence > stuck.interval * 2 + LATE || is_used_up)
        });
        gave_up.map(RequesterEnd::Stuck)
    }

    /// It sends another packet than the one at `first` again: a requester begins with the oldest one that nothing answered.
    pub(super) fn is_stuck_behind(&self, first: u64) -> bool {
        self.stuck.is_some_and(|stuck| stuck.psn > first)
    }

    /// All that its requester does is to send it again. One that has sent for longer than it waits went on: the
    /// capture lacks the answer.
    fn is_waiting(&self, stuck: &Stuck) -> bool {
        let went_on = self.last_request.since(stuck.time) > stuck.interval + LATE;
        stuck.copies >= GIVEN_UP && !went_on
    }
}

impl Repeats {
    /// Looks at an answer to `requests`.
    pub(super) fn check_answer(
        &mut self,
        sight: &Sight<'_>,
        requests: &RequestsSeen,
        mtu: Option<u32>,
        ledger: &mut Ledger,
    ) {
        let Some(aeth) = sight.packet.aeth else { return };
        match aeth.syndrome.kind() {
            SyndromeKind::Rnr { timer } => {
                let wait = Duration::from_nanos(rnr_timer_ns(timer));
                self.note_rnr(sight, wait, ledger);
            }
            SyndromeKind::Nak(NakCode::PsnSequence) => {
                self.note_progress(sight.psn.saturating_sub(1), false);
                // rxe asks so for the packet that it was not ready for, as soon as the next one comes.
                if let Some(not_ready) = self.not_ready.as_mut() {
                    not_ready.is_cut_short |= sight.psn <= not_ready.psn;
                }
            }
            SyndromeKind::Nak(code) => {
                self.note_fatal(sight, code);
                tell_of_fatal(sight, requests, code, mtu, ledger);
            }
            SyndromeKind::Ack { .. } => {
                self.note_progress(sight.psn, true);
                // A DREQ that the other end does not take for its connection closes nothing.
                let time = sight.packet.time;
                self.close = self.close.filter(|close| time.since(close.time) <= ON_THE_WAY);
            }
            _ => {}
        }
    }

    fn note_progress(&mut self, psn: u64, is_ack: bool) {
        self.stuck = self.stuck.filter(|stuck| stuck.psn > psn);
        self.not_ready = self.not_ready.filter(|not_ready| not_ready.psn > psn);
        if is_ack {
            self.fatal = self.fatal.filter(|fatal| fatal.psn > psn);
        }
    }

    fn note_rnr(&mut self, sight: &Sight<'_>, wait: Duration, ledger: &mut Ledger) {
        let (frame, time) = (sight.packet.frame, sight.packet.time);
        sight.breaks(&RNR, ledger, || {
            format!("PSN {}, asks to wait {}", sight.packet.bth.psn, words(wait))
        });
        let before = self.not_ready.filter(|before| before.psn == sight.psn);
        let naks = before.map_or(0, |before| before.naks).saturating_add(1);
        if naks == MANY_RNRS {
            let text = || format!("{naks} RNR NAKs for PSN {}", sight.packet.bth.psn);
            sight.breaks(&RNR_LOOP, ledger, text);
        }
        self.stuck = None;
        let psn = sight.psn;
        let [is_over, is_cut_short] = [false; 2];
        self.not_ready = Some(NotReady { psn, frame, naks, wait, time, is_over, is_cut_short });
    }

    fn note_fatal(&mut self, sight: &Sight<'_>, code: NakCode) {
        self.fatal.get_or_insert(Fatal::of(sight, code));
    }

    /// At the end of the capture at `end`.
    pub(super) fn conclude(
        &self,
        flow: usize,
        end: Timestamp,
        heard: Heard,
        retries: Retries,
        ledger: &mut Ledger,
    ) {
        match self.end(end, retries) {
            Some(RequesterEnd::Fatal(fatal)) if fatal.late > 0 => {
                ledger.record(&SENDS_AFTER_FATAL, Some(flow), fatal.first_late, || {
                    format!(
                        "{} packets from frame {}, later than {} behind the NAK of frame {}",
                        fatal.late,
                        fatal.first_late,
                        words(ON_THE_WAY),
                        fatal.frame
                    )
                });
            }
            Some(RequesterEnd::NotReady(it)) => {
                ledger.record(&RNR_EXCEEDED, Some(flow), it.frame, || {
                    format!("{} RNR NAKs, the last in frame {}, then silence", it.naks, it.frame)
                })
            }
            Some(RequesterEnd::Stuck(_)) if heard == Heard::Elsewhere => {}
            Some(RequesterEnd::Stuck(stuck)) => {
                let is_answered = heard == Heard::Answers;
                let rule = if is_answered { &RETRIES_EXCEEDED } else { &UNANSWERED };
                ledger.record(rule, Some(flow), stuck.frame, || heard.explain(&stuck));
            }
            Some(RequesterEnd::Fatal(_)) => {}
            None => self.conclude_open(flow, heard, retries, ledger),
        }
    }

    /// Nothing shows that the requester gave up. One that repeats at the end of the capture what it never heard an
    /// answer to may go on, but has nobody to talk to.
    fn conclude_open(&self, flow: usize, heard: Heard, retries: Retries, ledger: &mut Ledger) {
        let stuck = self.stuck.filter(|it| self.close.is_none() && self.is_waiting(it));
        match (heard, stuck) {
            (Heard::Others(_) | Heard::Nothing(_), Some(stuck)) => {
                ledger.record(&UNANSWERED, Some(flow), stuck.frame, || heard.explain(&stuck));
            }
            _ => self.conclude_close(flow, retries, ledger),
        }
    }

    /// A DREQ came before anything shows whether the requester gave up.
    fn conclude_close(&self, flow: usize, retries: Retries, ledger: &mut Ledger) {
        let Some(close) = self.close else { return };
        let waits = self.not_ready.filter(|it| !it.is_over);
        let stuck = self.stuck.filter(|it| self.is_waiting(it));
        if let Some(it) = waits {
            ledger.record(&CLOSED_UNANSWERED, Some(flow), it.frame, || {
                close.behind_rnr(&it, retries)
            });
        } else if let Some(it) = stuck {
            ledger.record(&CLOSED_UNANSWERED, Some(flow), it.frame, || {
                close.behind_repetition(&it, retries)
            });
        }
    }
}

/// Looks at an answer of which nobody knows the requests: a NAK that ends the queue pair is proof by itself.
pub(super) fn check_unpaired(sight: &Sight<'_>, ledger: &mut Ledger) -> Option<Fatal> {
    let fatal = fatal_of(sight)?;
    tell_of_fatal(sight, &RequestsSeen::default(), fatal.code, None, ledger);
    Some(fatal)
}

/// What a packet says if it is a NAK that ends the queue pair.
pub(super) fn fatal_of(sight: &Sight<'_>) -> Option<Fatal> {
    sight.answer()?;
    match sight.packet.aeth?.syndrome.kind() {
        SyndromeKind::Nak(NakCode::PsnSequence) => None,
        SyndromeKind::Nak(code) => Some(Fatal::of(sight, code)),
        _ => None,
    }
}

fn tell_of_fatal(
    sight: &Sight<'_>,
    requests: &RequestsSeen,
    code: NakCode,
    mtu: Option<u32>,
    ledger: &mut Ledger,
) {
    let message = requests.message_at(sight.psn);
    sight.breaks(&FATAL_NAK, ledger, || {
        let what = message.map_or_else(String::new, |message| {
            let reach = message.target.map_or_else(String::new, |(va, rkey, length)| {
                format!(", {length} bytes at {va:#x}, rkey {rkey:#010x}")
            });
            format!(", to {} of frame {}{reach}", message.info.name, message.frame)
        });
        let mtu = mtu.map_or_else(String::new, |mtu| format!(", path MTU {mtu}"));
        format!("{} for PSN {}{what}{mtu}", code.name(), sight.packet.bth.psn)
    });
}
