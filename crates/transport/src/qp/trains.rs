//! Trains that get lost as a whole.
//!
//! A driver, tunnel or peer may swallow packets that travel as one, while single ones pass. Then nothing
//! that is sent again arrives either. After some tries in vain a QP therefore wants its packets to leave
//! singly; when that has brought progress twice where trains brought none, whoever sends for it should know.

use uroce_wire::Psn;

use crate::limits;
use crate::qp::requester::Requester;
use crate::qp::responder::Responder;
use crate::time::Instant;

/// What speaks for it that trains of a requester are lost.
///
/// Silence alone says nothing: a peer may have been stopped, a link down, or several packets lost. So single packets
/// that get through are a suspicion at first; only when trains, which are tried again then, are in vain once more is it
/// a verdict. A train that arrives ends it.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// Trains in a row of which nothing was heard.
    in_vain: u32,
    /// The suspicion: what was sent up to here may have left singly; and since when.
    suspected: Option<(Psn, Instant)>,
}

impl Doubts {
    fn note_silence(&mut self) {
        self.in_vain += 1;
    }

    /// The peer is alive, and has told why it is silent.
    pub(crate) fn forget(&mut self) {
        self.in_vain = 0;
    }

    /// So many that what was sent in trains goes out singly.
    #[inline]
    pub(super) fn are_strong(&self) -> bool {
        self.in_vain >= limits::TRAINS_IN_VAIN
    }

    fn any(&self) -> bool {
        self.in_vain > 0 || self.suspected.is_some()
    }

    /// Up to `una`, `count` packets have been acknowledged at once; everything before `sent` was sent. True if trains
    /// are lost.
    fn note_progress(&mut self, una: Psn, count: u32, sent: Psn, now: Instant) -> bool {
        let recent = |at: Instant| now.since(at) < limits::SUSPICION_NS;
        self.suspected = self.suspected.filter(|(_, at)| recent(*at));
        if self.in_vain >= limits::TRAINS_IN_VAIN {
            let verdict = self.suspected.take().is_some();
            *self = Doubts::default();
            if !verdict {
                self.suspected = Some((sent, now));
            }
            return verdict;
        }
        // A packet or two may have been a probe.
        if count > 2 {
            self.in_vain = 0;
            self.suspected = self.suspected.filter(|(until, _)| una.since(*until) <= 2);
        }
        false
    }
}

/// READs that are asked for again and again.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// The request that came last.
    psn: Option<Psn>,
    /// How often in a row.
    count: u32,
    /// Since when.
    since: Instant,
    /// They are to be sent singly.
    in_vain: bool,
    /// That has helped for the READ before this one.
    suspected: bool,
}

impl Repeats {
    /// They are to be sent singly.
    #[inline]
    pub(super) fn are_in_vain(&self) -> bool {
        self.in_vain
    }

    /// The peer asks for `count` responses from `psn` on again. One or two are no train.
    pub(crate) fn note(&mut self, psn: Psn, count: u32, now: Instant) {
        if count <= 2 {
            return;
        }
        if self.psn != Some(psn) {
            let suspected = self.suspected;
            *self = Repeats { psn: Some(psn), since: now, suspected, ..Repeats::default() };
        }
        self.count += 1;
        let long = now.since(self.since) >= limits::READS_IN_VAIN_NS;
        self.in_vain = long && self.count >= limits::READS_IN_VAIN;
    }

    /// The peer has what it asked for. True if trains are lost.
    fn note_progress(&mut self) -> bool {
        let (helped, suspected) = (self.in_vain, self.suspected);
        *self = Repeats { suspected: helped, ..Repeats::default() };
        helped && suspected
    }
}

impl Requester {
    /// Nothing was heard of what was sent last, which was a train unless it was one packet or the request of a READ.
    pub(crate) fn note_silence_behind_train(&mut self) {
        if self.outstanding() > 1 && self.reads.is_empty() {
            self.doubts.note_silence();
        }
    }

    /// The peer has acknowledged `count` packets more.
    #[inline]
    pub(crate) fn note_requests_arrived(&mut self, now: Instant, count: u32) {
        if self.doubts.any() {
            self.judge_trains(now, count);
        }
    }

    #[inline(never)]
    fn judge_trains(&mut self, now: Instant, count: u32) {
        self.lost_trains |= self.doubts.note_progress(self.una, count, self.next_new, now);
    }
}

impl Responder {
    /// The peer asks for something new: it has the responses that it asked for before.
    pub(crate) fn note_responses_arrived(&mut self) {
        self.lost_trains |= self.repeats.note_progress();
    }
}
