//! Trains that get lost as a whole.
//!
//! A driver, tunnel or peer may swallow packets that travel as one, while single ones pass. Then nothing
//! that is sent again arrives either. After some tries in vain a QP therefore wants its packets to leave
//! singly; when that has brought progress twice where trains brought none, the sender of its packets should know.

use uroce_wire::Psn;

use crate::limits;
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
    /// Trains are lost, and that was not reported yet.
    lost: bool,
}

impl Doubts {
    /// Nothing was heard of the `outstanding` packets that were sent last, which were a train unless it was one packet or
    /// the request of a READ.
    pub(super) fn note_silence(&mut self, outstanding: u32, no_reads: bool) {
        self.in_vain += u32::from(outstanding > 1 && no_reads);
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

    /// True once if trains are lost.
    #[inline]
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// Up to `una`, `count` packets have been acknowledged at once; everything before `sent` was sent.
    #[inline]
    pub(super) fn note_progress(&mut self, una: Psn, count: u32, sent: Psn, now: Instant) {
        if self.in_vain > 0 || self.suspected.is_some() {
            self.judge(una, count, sent, now);
        }
    }

    #[inline(never)]
    fn judge(&mut self, una: Psn, count: u32, sent: Psn, now: Instant) {
        let recent = |at: Instant| now.since(at) < limits::SUSPICION_NS;
        let suspected = self.suspected.filter(|(_, at)| recent(*at));
        if self.in_vain >= limits::TRAINS_IN_VAIN {
            self.in_vain = 0;
            self.lost |= suspected.is_some();
            self.suspected = if suspected.is_some() { None } else { Some((sent, now)) };
            return;
        }
        self.suspected = suspected;
        // A packet or two may have been a probe.
        if count > 2 {
            self.in_vain = 0;
            self.suspected = suspected.filter(|(until, _)| una.since(*until) <= 2);
        }
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
    /// Trains are lost, and that was not reported yet.
    lost: bool,
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
            let Repeats { suspected, lost, .. } = *self;
            *self = Repeats { psn: Some(psn), since: now, suspected, lost, ..Repeats::default() };
        }
        self.count += 1;
        let long = now.since(self.since) >= limits::READS_IN_VAIN_NS;
        self.in_vain = long && self.count >= limits::READS_IN_VAIN;
    }

    /// The peer has what it asked for.
    pub(super) fn note_progress(&mut self) {
        let lost = self.lost || self.in_vain && self.suspected;
        *self = Repeats { suspected: self.in_vain, lost, ..Repeats::default() };
    }

    /// True once if trains are lost.
    #[inline]
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }
}
