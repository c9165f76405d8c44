//! Messages that are sent again until they are answered (R114).

use super::Connection;
use crate::limits::{LONGEST_WAIT, SHORTEST_RESEND};
use crate::mad::Mad;
use crate::outbox::Outbox;
use crate::time::Time;
use std::time::Duration;

/// A message that waits for its answer.
#[derive(Debug)]
pub(super) struct Retry {
    mad: Mad,
    left: u8,
    interval: Duration,
}

impl Connection {
    /// Sends `mad` now, and every `interval` until the state changes, as often as the REQ allows.
    pub(super) fn send_repeatedly(
        &mut self,
        now: Time,
        mad: Mad,
        interval: Duration,
        out: &mut Outbox,
    ) {
        let interval = interval.clamp(SHORTEST_RESEND, LONGEST_WAIT);
        out.send(self.peer, &mad);
        self.retry = Some(Retry { mad, left: self.req.max_cm_retries, interval });
        self.deadline = Some(now.saturating_add(interval));
    }

    /// Sends the message that waits for an answer again, if that is due. False: there is none, or
    /// it was sent often enough.
    pub(super) fn send_again(&mut self, now: Time, out: &mut Outbox) -> bool {
        let Some(retry) = &mut self.retry else { return false };
        let Some(left) = retry.left.checked_sub(1) else { return false };
        retry.left = left;
        out.send(self.peer, &retry.mad);
        self.deadline = Some(now.saturating_add(retry.interval));
        true
    }

    /// Sends it again because the peer asked again; the timer stays as it is.
    pub(super) fn send_waiting(&self, out: &mut Outbox) {
        if let Some(retry) = &self.retry {
            out.send(self.peer, &retry.mad);
        }
    }
}
