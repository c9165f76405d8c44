//! Messages that are sent again until they are answered (R114), and for how long.

use std::net::IpAddr;
use std::time::Duration;

use super::{Connection, State};
use crate::CommId;
use crate::limits::{FEWEST_COPIES, LONGEST_ANSWER, MRA_TOTAL_TIMEOUT, SHORTEST_RESEND};
use crate::mad::Mad;
use crate::outbox::Outbox;
use crate::time::Time;

/// A message that waits for its answer.
#[derive(Debug)]
pub(super) struct Retry {
    mad: Mad,
    left: u8,
    interval: Duration,
    /// It is not sent again from then on, however many repetitions are left.
    give_up_at: Time,
    /// When it was sent first.
    begun: Time,
}

impl Connection {
    /// Sends `mad` now, and every `interval` until the state changes, as often as the REQ allows and for
    /// `longest` at most.
    pub(super) fn send_repeatedly(
        &mut self,
        now: Time,
        mad: Mad,
        (interval, longest): (Duration, Duration),
        out: &mut Outbox,
    ) {
        // One copy may be lost, whatever the time code of the peer says.
        let interval = interval.max(SHORTEST_RESEND).min(longest / FEWEST_COPIES);
        let left = self.req.max_cm_retries;
        let whole = interval.saturating_mul(u32::from(left) + 1).min(longest);
        let give_up_at = now.saturating_add(whole);
        out.send_as(self.peer, self.traffic_class(), &mad);
        self.deadline = Some(now.saturating_add(interval).min(give_up_at));
        self.retry = Some(Retry { mad, left, interval, give_up_at, begun: now });
    }

    /// It is time to send the message that waits for an answer again, which is done if `may_send`. False:
    /// there is none, or it was sent often or long enough.
    pub(super) fn send_again(&mut self, now: Time, may_send: bool, out: &mut Outbox) -> bool {
        let traffic_class = self.traffic_class();
        let Some(retry) = &mut self.retry else { return false };
        let Some(left) = retry.left.checked_sub(1).filter(|_| now < retry.give_up_at) else {
            return false;
        };
        retry.left = left;
        self.deadline = Some(now.saturating_add(retry.interval).min(retry.give_up_at));
        if may_send {
            out.send_as(self.peer, traffic_class, &retry.mad);
        }
        true
    }

    /// Between two copies of the message that waits for an answer.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.retry.as_ref().map(|retry| retry.interval)
    }

    /// Since when an answer of ours is not confirmed: the address of the peer may be forged.
    pub(crate) fn unconfirmed_since(&self) -> Option<Time> {
        let retry = self.retry.as_ref()?;
        (self.state == State::RepSent).then_some(retry.begun)
    }

    /// What is sent again, a REP or the DREQ behind one, goes to a caller that has not shown that it hears us.
    pub(crate) fn may_be_forged(&self) -> bool {
        !self.confirmed && matches!(self.state, State::RepSent | State::DreqSent)
    }

    /// Its caller has not confirmed in time, and comes too late if it does so now.
    pub(crate) fn was_given_up(&self, peer: IpAddr, caller: CommId) -> bool {
        let is_its = (self.peer, self.remote_id) == (peer, caller);
        is_its && !self.confirmed && self.state == State::Timewait
    }

    /// Sends it again because the peer asked again; the timer stays as it is.
    pub(super) fn send_waiting(&self, out: &mut Outbox) {
        if let Some(retry) = &self.retry {
            out.send_as(self.peer, self.traffic_class(), &retry.mad);
        }
    }

    /// The peer needs `time` from now on; all its MRAs together get it [`MRA_TOTAL_TIMEOUT`].
    pub(super) fn be_patient(&mut self, now: Time, time: Duration) {
        let Some(retry) = &mut self.retry else { return };
        let until = now.saturating_add(time).min(retry.begun.saturating_add(MRA_TOTAL_TIMEOUT));
        if self.deadline.is_some_and(|deadline| deadline >= until) {
            return;
        }
        self.deadline = Some(until);
        let rest = retry.interval.saturating_mul(u32::from(retry.left) + 1).min(LONGEST_ANSWER);
        retry.give_up_at = retry.give_up_at.max(until.saturating_add(rest));
    }
}
