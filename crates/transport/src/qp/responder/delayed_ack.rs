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
    /// The first request that came again and was not answered.
    first: Option<Psn>,
}

impl DelayedAck {
    /// Leaves the ACK to what comes next.
    pub(super) fn start(&mut self, now: Instant) {
        self.deadline = Some(now.add_ns(limits::DELAYED_ACK_NS));
    }

    /// The same, behind a request that came again. False if it is the one that came first: the requester has heard nothing
    /// and begins once more, so it must not be left to itself again.
    pub(super) fn start_behind(&mut self, now: Instant, psn: Psn) -> bool {
        if self.first == Some(psn) {
            return false;
        }
        self.first.get_or_insert(psn);
        self.start(now);
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
    if deadline(responder).is_some_and(|deadline| now >= deadline) {
        cx.counters.delayed_ack += 1;
        send(responder, cx);
    }
}

/// Queues the ACK if it waits: what it was left to has not come in time, or no request will be taken any more.
pub(crate) fn send(responder: &mut Responder, cx: &mut Context<'_>) {
    if deadline(responder).is_some() {
        responder.delayed_ack.clear();
        acknowledge_again(responder, cx);
    }
}
