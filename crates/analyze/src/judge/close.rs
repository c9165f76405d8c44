//! What a DREQ tells about a request that waits for its answer.
//!
//! A program sends one when it closes a connection that works, and also when it ends because its queue pair failed.

use std::time::Duration;

use super::sight::Sight;
use super::unanswered::{NotReady, Retries, Stuck};
use super::words::words;
use crate::Timestamp;

/// Most times that a requester sends again if nothing says how often: retry_cnt has 3 bits.
const MOST_RETRIES: u8 = 7;
/// rnr_retry that is for ever.
const FOR_EVER: u8 = 7;

/// A DREQ that closed the connection of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Close {
    frame: u64,
    pub(super) time: Timestamp,
}

impl Close {
    pub(super) fn of(sight: &Sight<'_>) -> Self {
        Self { frame: sight.packet.frame, time: sight.packet.time }
    }

    /// The RNR NAK before it was the one at which the requester gives up, without waiting.
    pub(super) fn is_behind_last_rnr(&self, it: &NotReady, retries: Retries) -> bool {
        let last = retries.rnr.filter(|rnr| *rnr != FOR_EVER).map(|rnr| u32::from(rnr) + 1);
        last == Some(it.naks) && it.time <= self.time
    }

    /// The requester had sent its last copy and waited its timeout once more, when the DREQ came behind `silence`.
    ///
    /// One that sent more copies than it may has other limits than are known, and one whose waits grow may have waited
    /// on.
    pub(super) fn is_behind_last_timeout(
        stuck: &Stuck,
        silence: Duration,
        retries: Retries,
    ) -> bool {
        let last = u32::from(retries.count.unwrap_or(MOST_RETRIES)) + 1;
        let is_steady = stuck.interval <= stuck.interval_before * 5 / 4;
        stuck.copies == last && is_steady && silence >= stuck.interval - stuck.interval / 16
    }

    /// In words, behind an RNR NAK.
    pub(super) fn behind_rnr(&self, it: &NotReady, retries: Retries) -> String {
        let rnr = retries.rnr.map_or_else(String::new, |rnr| format!("; rnr_retry {rnr}"));
        let psn = it.psn & 0xff_ffff;
        format!("{} RNR NAKs for PSN {psn:#x}, the last {}{rnr}", it.naks, self.distance(it.time))
    }

    /// In words, behind a repetition.
    pub(super) fn behind_repetition(&self, it: &Stuck, retries: Retries) -> String {
        let count = retries.count.map_or_else(String::new, |count| format!("; retry_cnt {count}"));
        let (psn, copies) = (it.psn & 0xff_ffff, it.copies);
        format!("PSN {psn:#x} sent {copies} times, the last {}{count}", self.distance(it.time))
    }

    /// The end that did not send the DREQ may go on for a while.
    fn distance(&self, time: Timestamp) -> String {
        let (distance, way) = match time <= self.time {
            true => (self.time.since(time), "before"),
            false => (time.since(self.time), "behind"),
        };
        format!("{} {way} the DREQ of frame {}", words(distance), self.frame)
    }
}
