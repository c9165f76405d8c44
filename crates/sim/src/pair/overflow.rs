//! Completion queues that overflow (R66): what came before is there, in its order; the owner is told once; the queue
//! pairs are in the error state; and the peer sees one that does not answer.

use uroce_device::transport::{AsyncEvent, QpState};
use uroce_device::{EventChannel, EventOwner};

use super::crash::Mishap;
use super::{Phase, Restart, Turn};
use crate::end::CompletionsOf;
use crate::violation::{Check, Invariant, ensure};

/// How long an application leaves its completions where they are, besides a round trip.
const UNPOLLED_NS: u64 = 1_000_000;
/// Of 100 turns, those after which a queue shrinks, while there are overflows to come.
const CHANCE: usize = 10;

/// A completion queue of one entry.
#[derive(Debug)]
pub(super) struct SmallQueue {
    index: usize,
    what: CompletionsOf,
    events: EventChannel,
}

impl Mishap<'_> {
    /// True if it is time for a completion queue to overflow.
    pub(super) fn draws_overflow(&mut self) -> bool {
        self.pair.overflows_left > 0 && !self.pair.has_mistake && self.pair.random.chance(CHANCE)
    }

    /// An application posts what it has, and leaves the completions in a queue that has room for one. False if the
    /// queue is one of a model, which has none that overflow: then the turn goes on.
    pub(super) fn begin_overflow(
        &mut self,
        turn: &mut Turn<'_>,
    ) -> Result<bool, (Invariant, String)> {
        self.pair.overflows_left -= 1;
        let index = self.pair.random.below(2);
        if self.pair.ends[index].nic.is_model() {
            return Ok(false);
        }
        self.leave_completions(index, turn).map(|()| true)
    }

    fn leave_completions(&mut self, index: usize, turn: &mut Turn<'_>) -> Check {
        let what = self.pair.random.pick(&[CompletionsOf::Sends, CompletionsOf::Receives]);
        self.pair.act(0, turn)?;
        self.pair.act(1, turn)?;
        self.pair.ends[0].wake_ns = Some(turn.now_ns);
        self.pair.ends[1].wake_ns = Some(turn.now_ns);
        if self.pair.take_completions(turn)? {
            return self.pair.end(Restart::Reset, turn);
        }
        let events = EventChannel::new().expect("a descriptor");
        let end = &self.pair.ends[index];
        let Some(cq) = end.cq(what) else { return Ok(()) };
        let device = end.nic.device();
        if device.resize_cq(cq, 1).is_err() {
            // The last poll has driven the device, and more have come.
            return Ok(());
        }
        device.async_events().own(EventOwner::Cq(cq), &events, 0);
        let until_ns = turn.now_ns + turn.drain_ns + UNPOLLED_NS;
        self.pair.small_queue = Some(SmallQueue { index, what, events });
        self.pair.phase = Phase::Overflowing { until_ns };
        Ok(())
    }

    /// A turn while nobody polls.
    pub(super) fn overflowing(&mut self, until_ns: u64, turn: &mut Turn<'_>) -> Check {
        let Some(small) = &self.pair.small_queue else { return Ok(()) };
        let (index, what) = (small.index, small.what);
        let event = small.events.next_event(Some(std::time::Duration::ZERO));
        let event = event.expect("a list of events").map(|owned| owned.event);
        if event.is_none() && turn.now_ns < until_ns {
            return Ok(());
        }
        self.pair.has_acted = true;
        let end = &self.pair.ends[index];
        let cq = end.cq(what).expect("a NIC of ours");
        let Some(event) = event else {
            // Not enough has happened.
            let room = crate::end::entries(&self.pair.plan);
            end.nic.device().resize_cq(cq, room).expect("it is large enough");
            self.pair.small_queue = None;
            self.pair.phase = Phase::Running;
            self.pair.has_slept = true;
            self.pair.ends.iter_mut().for_each(|end| end.wake_ns = Some(turn.now_ns + 1));
            return Ok(());
        };
        turn.coverage.count(match what {
            CompletionsOf::Sends => "a completion queue of sends that overflows",
            CompletionsOf::Receives => "a completion queue of receives that overflows",
        });
        ensure(event == AsyncEvent::CqErr(cq), Invariant::Completions, || {
            format!("a completion queue has overflowed, and its owner is told {event:?}")
        })?;
        let attr = end.nic.device().query_cq(cq).expect("it exists");
        ensure(attr.waiting == 1, Invariant::Completions, || {
            format!("a completion queue for one has overflowed and holds {}", attr.waiting)
        })?;
        let service = if what == CompletionsOf::Receives { end.responder() } else { end.qpn };
        let (attr, _) = end.nic.device().query_qp(service).expect("it exists");
        ensure(attr.state == QpState::Err, Invariant::Completions, || {
            format!("a completion is lost, and the queue pair is in {}", attr.state.name())
        })?;
        self.pair.ends[index].overflowed = Some(what);
        self.pair.is_ending = true;
        self.pair.ends.iter_mut().for_each(|end| end.wake_ns = Some(turn.now_ns));
        self.pair.take_completions(turn)?;
        if self.pair.plan.service.is_xrc() && what == CompletionsOf::Sends {
            // The target goes on, and puts off for ever whom it has no receives for.
            return self.pair.end(Restart::Reset, turn);
        }
        self.begin_bereaved(turn.now_ns);
        Ok(())
    }

    /// The peer of a queue of one entry, or its owner, is no more. Whether the queue overflows does not matter then.
    pub(super) fn forget_small_queue(&mut self) {
        if let Some(small) = self.pair.small_queue.take() {
            self.pair.ends[small.index].overflowed = Some(small.what);
        }
    }

    /// The owner of a queue is told of its overflow once.
    pub(super) fn check_told_once(&mut self) -> Check {
        let Some(small) = self.pair.small_queue.take() else { return Ok(()) };
        let again = small.events.next_event(Some(std::time::Duration::ZERO));
        let again = again.expect("a list of events");
        ensure(again.is_none(), Invariant::Completions, || {
            format!("the owner of a queue that has overflowed is told {again:?}, too")
        })
    }
}
