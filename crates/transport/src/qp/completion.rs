//! The one place where a completion is made.
//!
//! A work request completes at most once because its entry leaves its queue with the call: a send by
//! `SendQueue::pop` or `drop_front`, a receive by `Receives::release` or `drop_front_of_one`.

use uroce_memory::mutation::mutated;

use crate::cause::Cause;
use crate::context::Context;
use crate::cq::CompletionQueue;
use crate::event::AsyncEvent;
use crate::id::CqId;
use crate::wc::Wc;

/// Puts a completion into its queue. False if the queue is full and the completion lost, which takes the QP down (R66).
#[inline]
#[must_use]
pub(crate) fn report<C: Copy + Into<Cause>>(
    cq: CqId,
    wc: Wc<C>,
    solicited: bool,
    cx: &mut Context<'_>,
) -> bool {
    if mutated("completes-twice") && wc.is_ok() {
        let _outcome = cx.cqs.push(cq, wc, solicited);
    }
    let stored = cx.cqs.push(cq, wc, solicited).is_ok();
    if !stored {
        note_overflow(cq, cx);
    }
    stored
}

#[cold]
fn note_overflow(cq: CqId, cx: &mut Context<'_>) {
    cx.counters.lost_completions += 1;
    if cx.cqs.get_mut(cq).is_some_and(CompletionQueue::take_overflow) && !mutated("overflow-untold")
    {
        cx.events.push(AsyncEvent::CqErr(cq));
    }
}
