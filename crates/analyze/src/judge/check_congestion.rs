//! Checks of congestion marks and notifications.

use std::time::Duration;

use super::finding::Ledger;
use super::rules::congestion::{
    CNP_FIELDS, CNP_FORMAT, CNP_RATE, CNP_WITHOUT_MARK, MARK_WITHOUT_CNP,
};
use super::sight::Sight;
use crate::Timestamp;

/// Bytes behind the BTH of a congestion notification.
const CNP_BYTES: u32 = 16;
/// The smallest interval between notifications that network cards offer.
const SMALLEST_INTERVAL: Duration = Duration::from_micros(4);
/// Marked packets that should have drawn a notification.
const ENOUGH_MARKS: u64 = 64;

/// Marks on the packets of a flow, and the notifications that its sender got.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct CongestionSeen {
    marks: u64,
    first_mark: u64,
    notifications: u64,
    first_notification: u64,
    last_sent: Option<Timestamp>,
}

impl CongestionSeen {
    /// Counts the mark of a packet of this flow.
    pub(super) fn note_packet(&mut self, sight: &Sight<'_>) {
        let carries_data = sight.connected().is_some_and(|info| info.carries_payload());
        if sight.packet.is_congestion_experienced() && carries_data {
            if self.marks == 0 {
                self.first_mark = sight.packet.frame;
            }
            self.marks += 1;
        }
    }

    /// Counts a notification that the sender of this flow got.
    pub(super) const fn note_notification(&mut self, frame: u64) {
        if self.notifications == 0 {
            self.first_notification = frame;
        }
        self.notifications += 1;
    }

    /// Looks at a notification that went along this flow.
    pub(super) fn check_cnp(&mut self, sight: &Sight<'_>, ledger: &mut Ledger) {
        check_format(sight, ledger);
        let now = sight.packet.time;
        let interval = self.last_sent.replace(now).map(|last| now.since(last));
        if let Some(interval) = interval.filter(|interval| *interval < SMALLEST_INTERVAL) {
            sight.breaks(&CNP_RATE, ledger, || format!("{interval:?} behind the one before"));
        }
    }

    /// At the end: compares marks and notifications.
    pub(super) fn conclude(&self, flow: usize, ledger: &mut Ledger) {
        if self.marks >= ENOUGH_MARKS && self.notifications == 0 {
            ledger.record(&MARK_WITHOUT_CNP, Some(flow), self.first_mark, || {
                format!("{} marked packets, the first in frame {}", self.marks, self.first_mark)
            });
        }
        if self.marks == 0 && self.notifications > 0 {
            ledger.record(&CNP_WITHOUT_MARK, Some(flow), self.first_notification, || {
                format!("{} notifications came back to its sender", self.notifications)
            });
        }
    }
}

fn check_format(sight: &Sight<'_>, ledger: &mut Ledger) {
    let (bth, length) = (&sight.packet.bth, sight.packet.payload_len);
    if !bth.becn || length != CNP_BYTES {
        sight.breaks(&CNP_FORMAT, ledger, || {
            format!("BECN {}, {length} bytes behind the BTH", u8::from(bth.becn))
        });
    } else if bth.psn.get() != 0 || bth.ack_req || sight.payload.iter().any(|byte| *byte != 0) {
        sight.breaks(&CNP_FIELDS, ledger, || {
            format!("PSN {}, AckReq {}", bth.psn, u8::from(bth.ack_req))
        });
    }
}
