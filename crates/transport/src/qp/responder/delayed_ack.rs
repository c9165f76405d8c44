//! The ACK that is left to the end of what a requester sends again, and that leaves by itself when the end does not come.

use uroce_wire::Psn;

use super::Responder;
use super::reliable::acknowledge_again;
use crate::context::Context;
use crate::limits;
use crate::time::Instant;

/// Says when what was executed is acknowledged, although nothing that has come since asks for it.
///
/// A requester that sends several packets again gets its ACK with the last one (`wants_ack` in the parent module says why). That
/// one may be lost, or never be sent: a requester may send again no more than what it was told is missing.
#[derive(Debug, Default)]
pub(super) struct DelayedAck {
    deadline: Option<Instant>,
    /// How long it is left to each packet.
    wait_ns: u64,
    /// The first request that came again and was not answered, and when it came.
    first: Option<(Psn, Instant)>,
}

impl DelayedAck {
    /// Leaves the ACK to what comes next, behind progress or an ACK of a part.
    pub(super) fn start(&mut self, now: Instant, wait_ns: u64) {
        *self = DelayedAck { deadline: Some(now.add_ns(wait_ns)), wait_ns, first: None };
    }

    /// The same, behind a request that came again. False if the requester must not be left to itself once more: the request that
    /// came first comes anew, and is no copy that the network has made, or the ACK has been put off for too long.
    pub(super) fn start_behind(&mut self, now: Instant, psn: Psn) -> bool {
        let (first, since) = *self.first.get_or_insert((psn, now));
        let waited = now.since(since);
        let begins_anew = psn == first && waited >= limits::DELAYED_ACK_COPY_NS;
        if begins_anew || waited >= limits::DELAYED_ACK_MOST_NS {
            return false;
        }
        if self.deadline.is_none() {
            self.wait_ns = limits::DELAYED_ACK_NS;
        }
        self.deadline = Some(now.add_ns(self.wait_ns));
        true
    }

    /// Everything is acknowledged, or nobody waits for it any more.
    pub(super) fn clear(&mut self) {
        *self = DelayedAck::default();
    }
}

/// When [`run_timer`] wants to be called.
pub(crate) fn deadline(responder: &Responder) -> Option<Instant> {
    responder.delayed_ack.deadline
}

/// Acknowledges what nothing has acknowledged for too long (R44).
pub(crate) fn run_timer(responder: &mut Responder, now: Instant, cx: &mut Context<'_>) {
    let is_due = deadline(responder).is_some_and(|deadline| now >= deadline);
    if is_due && send(responder, cx) {
        cx.counters.delayed_ack += 1;
    }
}

/// Queues the ACK if it waits: what it was left to has not come in time, or no request will be taken any more. False if none is
/// queued: none waits, or the answer to a later request says all that it would.
pub(crate) fn send(responder: &mut Responder, cx: &mut Context<'_>) -> bool {
    let waits = deadline(responder).is_some();
    responder.delayed_ack.clear();
    waits && acknowledge_again(responder, cx)
}
