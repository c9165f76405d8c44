//! Completion queues.

use std::collections::VecDeque;

use slab::Slab;

use uroce_memory::mutation::mutated;

use crate::cause::Cause;
use crate::id::CqId;
use crate::time::Instant;
use crate::wc::{Wc, into_slots};

/// Which completions raise an event once the queue is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notify {
    /// The next one.
    Next,
    /// The next solicited one, or the next error (R42).
    Solicited,
}

/// How far events may lag behind completions (`ibv_modify_cq`), so that one wake-up does for many: an armed
/// queue raises its event with the completion number `count` that matches, or `period_ns` after the first of them,
/// whichever is earlier. An error is not held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moderation {
    /// 0 and 1: each completion.
    pub count: u32,
    /// 0: at once.
    pub period_ns: u64,
}

/// A completion queue. It has a fixed capacity; one completion too many breaks it (R66).
#[derive(Debug)]
pub struct CompletionQueue {
    /// Without their causes, which are large and rare.
    entries: VecDeque<Wc<()>>,
    /// Those of the entries that failed, in their order.
    causes: VecDeque<Cause>,
    capacity: usize,
    armed: Option<Notify>,
    event: bool,
    moderation: Moderation,
    /// Matching completions whose event waits.
    held: u32,
    /// There is an event, or one began to wait, and the table does not know yet.
    noted: bool,
    overflowed: bool,
    /// The overflow was reported; it is reported once, whatever number of QPs meet it.
    overflow_reported: bool,
}

/// The queue was full, or had overflowed before: the completion is lost (R66).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

impl CompletionQueue {
    /// A queue for `capacity` completions.
    pub fn new(capacity: usize) -> Self {
        CompletionQueue {
            entries: VecDeque::with_capacity(capacity.min(1024)),
            causes: VecDeque::new(),
            capacity: capacity.max(1),
            armed: None,
            event: false,
            moderation: Moderation::default(),
            held: 0,
            noted: false,
            overflowed: false,
            overflow_reported: false,
        }
    }

    /// Completions that wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many completions fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// True once a completion was lost.
    pub fn is_overflowed(&self) -> bool {
        self.overflowed
    }

    /// True once, after the first overflow (R66).
    pub(crate) fn take_overflow(&mut self) -> bool {
        self.overflowed && !std::mem::replace(&mut self.overflow_reported, true)
    }

    /// Moves up to `out.len()` completions into `out`, oldest first, and says how many.
    pub fn poll(&mut self, out: &mut [Wc]) -> usize {
        self.poll_each(out.len(), into_slots(out))
    }

    /// Takes up to `most` completions, oldest first, shows each to `each`, and says how many. For those
    /// who make something else of them: a completion with its cause is large.
    #[inline]
    pub fn poll_each(&mut self, most: usize, mut each: impl FnMut(&Wc)) -> usize {
        let count = most.min(self.entries.len());
        for entry in self.entries.iter().take(count) {
            let cause = if entry.is_ok() { None } else { self.causes.pop_front() };
            debug_assert!(entry.is_ok() || cause.is_some(), "each failure has its cause");
            each(&entry.with_cause(cause.unwrap_or_default()));
        }
        self.entries.drain(..count);
        debug_assert!(
            !self.entries.is_empty() || self.causes.is_empty(),
            "causes of no completion"
        );
        count
    }

    /// Arms the queue: one event at the next matching completion. A weaker arm never replaces a
    /// stronger one (`ibv_req_notify_cq`).
    pub fn arm(&mut self, notify: Notify) {
        if self.armed != Some(Notify::Next) {
            self.armed = Some(notify);
        }
    }

    /// How far its events may lag behind from now on.
    pub fn moderate(&mut self, moderation: Moderation) {
        self.moderation = moderation;
    }

    /// A completion came that the queue was armed for.
    fn note_match(&mut self, is_error: bool) {
        let Moderation { count, period_ns } = self.moderation;
        self.held += 1;
        if is_error || period_ns == 0 || self.held >= count {
            self.fire();
        } else {
            self.noted |= self.held == 1;
        }
    }

    /// The event is due.
    fn fire(&mut self) {
        (self.armed, self.event, self.held, self.noted) = (None, true, 0, true);
    }

    /// True until the event that it was armed for is due.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// True once per event that is due; the caller then wakes the completion channel.
    pub fn take_event(&mut self) -> bool {
        std::mem::take(&mut self.event)
    }

    /// Changes the capacity; fails, changing nothing, if more completions wait than would fit.
    pub fn resize(&mut self, capacity: usize) -> Result<(), Overflow> {
        if capacity == 0 || self.entries.len() > capacity {
            return Err(Overflow);
        }
        self.capacity = capacity;
        Ok(())
    }

    /// Removes the completions of a QP that was reset (R91).
    pub(crate) fn forget_qp(&mut self, qpn: u32) {
        let mut causes = std::mem::take(&mut self.causes).into_iter();
        self.entries.retain(|entry| {
            let cause = if entry.is_ok() { None } else { causes.next() };
            let stays = entry.qpn != qpn;
            self.causes.extend(cause.filter(|_| stays));
            stays
        });
    }

    /// Adds a completion. `solicited` says if the sender asked for an event.
    #[inline]
    pub(crate) fn push<C: Copy + Into<Cause>>(
        &mut self,
        wc: &Wc<C>,
        solicited: bool,
    ) -> Result<(), Overflow> {
        if mutated("overflow-drops-oldest") && self.entries.len() >= self.capacity {
            self.entries.pop_front();
        }
        if self.overflowed || self.entries.len() >= self.capacity {
            self.overflowed = true;
            return Err(Overflow);
        }
        let due = match self.armed {
            None => false,
            Some(Notify::Next) => true,
            Some(Notify::Solicited) => solicited || !wc.is_ok(),
        };
        if !wc.is_ok() {
            self.causes.push_back(wc.cause.into());
        }
        if due {
            self.note_match(!wc.is_ok());
        }
        debug_assert!(!wc.is_ok() || wc.cause.into() == Cause::None, "a success has no cause");
        self.entries.push_back(wc.with_cause(()));
        debug_assert!(self.entries.len() <= self.capacity, "a completion too many is lost");
        debug_assert!(self.causes.len() <= self.entries.len(), "causes of no completion");
        Ok(())
    }
}

/// The completion queues of a device, and which of them owe an event.
#[derive(Debug, Default)]
pub struct CqTable {
    queues: Slab<CompletionQueue>,
    /// The number of the first place.
    first: u32,
    /// Queues that raised an event since [`CqTable::pop_event`] last returned `None`.
    due: VecDeque<CqId>,
    /// Queues whose event waits for more completions, and until when at most.
    held: Vec<(Instant, CqId)>,
    /// Stamped on completions.
    now: Instant,
}

impl CqTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty table whose numbers begin at `first`, so that several tables of one device name each queue
    /// differently.
    pub fn starting_at(first: u32) -> Self {
        CqTable { first, ..Self::default() }
    }

    /// Where the queue with this number is, if it is one of this table.
    fn place(&self, id: CqId) -> usize {
        id.0.wrapping_sub(self.first) as usize
    }

    /// Completions that come from now on have this time.
    pub fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.held.is_empty() {
            return None;
        }
        self.held.iter().map(|(at, _)| *at).min()
    }

    /// Raises the events that waited long enough for more completions.
    #[inline]
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.held.is_empty() {
            self.release_held(now);
        }
    }

    #[cold]
    fn release_held(&mut self, now: Instant) {
        let late: Vec<CqId> =
            self.held.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        for id in late {
            if let Some(cq) = self.get_mut(id) {
                cq.fire();
            }
            self.settle(id);
        }
    }

    /// Notes that a queue has an event, or that one waits.
    #[cold]
    fn settle(&mut self, id: CqId) {
        let now = self.now;
        let Some(cq) = self.get_mut(id) else { return };
        cq.noted = false;
        let (fired, period_ns) = (cq.take_event(), cq.moderation.period_ns);
        debug_assert!(!self.held.iter().any(|(_, held)| *held == id) || fired, "held once");
        if fired {
            self.held.retain(|(_, held)| *held != id);
            self.due.push_back(id);
        } else {
            let until = Instant::from_nanos(now.as_nanos().saturating_add(period_ns));
            self.held.push((until, id));
        }
    }

    /// Adds a queue.
    pub fn insert(&mut self, cq: CompletionQueue) -> CqId {
        CqId(self.first + self.queues.insert(cq) as u32)
    }

    /// The queue with this number.
    pub fn get(&self, id: CqId) -> Option<&CompletionQueue> {
        self.queues.get(self.place(id))
    }

    /// The queue with this number.
    pub fn get_mut(&mut self, id: CqId) -> Option<&mut CompletionQueue> {
        let place = self.place(id);
        self.queues.get_mut(place)
    }

    /// Takes a queue out.
    pub fn remove(&mut self, id: CqId) -> Option<CompletionQueue> {
        self.due.retain(|due| *due != id);
        self.held.retain(|(_, held)| *held != id);
        self.queues.try_remove(self.place(id))
    }

    /// All queues with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (CqId, &CompletionQueue)> {
        self.queues.iter().map(|(place, cq)| (CqId(self.first + place as u32), cq))
    }

    /// R91: removes the completions of a QP from its queues.
    pub(crate) fn forget_qp(&mut self, qpn: u32, queues: [CqId; 2]) {
        for id in queues {
            if let Some(cq) = self.get_mut(id) {
                cq.forget_qp(qpn);
            }
        }
    }

    /// The same for a QP whose completions may be in any queue.
    pub(crate) fn forget_qp_everywhere(&mut self, qpn: u32) {
        self.queues.iter_mut().for_each(|(_, cq)| cq.forget_qp(qpn));
    }

    /// The next queue that owes its completion channel an event, once per event.
    pub fn pop_event(&mut self) -> Option<CqId> {
        self.due.pop_front()
    }

    /// Adds a completion to queue `id`.
    #[inline]
    pub(crate) fn push<C: Copy + Into<Cause>>(
        &mut self,
        id: CqId,
        mut wc: Wc<C>,
        solicited: bool,
    ) -> Result<(), Overflow> {
        let place = self.place(id);
        let Some(cq) = self.queues.get_mut(place) else {
            return Err(Overflow);
        };
        wc.timestamp = self.now.as_nanos();
        let outcome = cq.push(&wc, solicited);
        if cq.noted {
            self.settle(id);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wc_status::WcStatus;

    fn wc(wr_id: u64) -> Wc {
        Wc { wr_id, ..Wc::default() }
    }

    #[test]
    fn completions_leave_in_order_and_in_batches() {
        let mut cq = CompletionQueue::new(4);
        for id in 0..4 {
            cq.push(&wc(id), false).unwrap();
        }
        let mut out = [Wc::default(); 3];
        assert_eq!(cq.poll(&mut out), 3);
        assert_eq!(out.map(|w| w.wr_id), [0, 1, 2]);
        assert_eq!(cq.poll(&mut out), 1);
        assert_eq!(out[0].wr_id, 3);
        assert_eq!(cq.poll(&mut out), 0);
    }

    #[test]
    fn r66_one_completion_too_many_breaks_the_queue_for_good() {
        let mut cq = CompletionQueue::new(1);
        cq.push(&wc(0), false).unwrap();
        assert_eq!(cq.push(&wc(1), false), Err(Overflow));
        assert_eq!(cq.poll(&mut [Wc::default(); 4]), 1);
        assert_eq!(cq.push(&wc(2), false), Err(Overflow));
        assert!(cq.is_overflowed());
    }

    #[test]
    fn r42_solicited_arm_waits_for_solicited_or_error() {
        let mut cq = CompletionQueue::new(8);
        cq.arm(Notify::Solicited);
        cq.push(&wc(0), false).unwrap();
        assert!(!cq.take_event());
        cq.push(&wc(1), true).unwrap();
        assert!(cq.take_event());
        cq.arm(Notify::Solicited);
        cq.push(&Wc { status: WcStatus::WrFlushErr, ..wc(2) }, false).unwrap();
        assert!(cq.take_event());
    }

    #[test]
    fn one_event_per_arming_and_next_beats_solicited() {
        let mut cq = CompletionQueue::new(8);
        cq.arm(Notify::Next);
        cq.arm(Notify::Solicited);
        assert!(cq.is_armed());
        cq.push(&wc(0), false).unwrap();
        assert!(cq.take_event() && !cq.is_armed());
        cq.push(&wc(1), true).unwrap();
        assert!(!cq.take_event());
    }

    #[test]
    fn resize_keeps_what_waits() {
        let mut cq = CompletionQueue::new(4);
        cq.push(&wc(0), false).unwrap();
        cq.push(&wc(1), false).unwrap();
        assert_eq!(cq.resize(1), Err(Overflow));
        assert_eq!(cq.capacity(), 4);
        cq.resize(2).unwrap();
        assert_eq!((cq.capacity(), cq.len()), (2, 2));
    }

    #[test]
    fn tables_that_start_elsewhere_know_their_own_queues_only() {
        let (mut one, mut other) = (CqTable::new(), CqTable::starting_at(1 << 24));
        let (a, b) = (one.insert(CompletionQueue::new(1)), other.insert(CompletionQueue::new(2)));
        assert_eq!((a, b), (CqId(0), CqId(1 << 24)));
        assert!(one.get(b).is_none() && other.get(a).is_none());
        assert!(one.remove(b).is_none() && other.get_mut(a).is_none());
        assert_eq!(other.push(a, wc(0), false), Err(Overflow));
        assert_eq!(other.push(b, wc(0), false), Ok(()));
        assert_eq!(other.iter().map(|(id, cq)| (id, cq.len())).collect::<Vec<_>>(), [(b, 1)]);
    }

    #[test]
    fn v45_an_event_comes_with_the_count_or_with_the_period() {
        let mut table = CqTable::new();
        let id = table.insert(CompletionQueue::new(64));
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let moderation = Moderation { count: 3, period_ns: 50_000 };
        let cq = table.get_mut(id).unwrap();
        cq.moderate(moderation);
        cq.arm(Notify::Next);
        table.set_time(at(100));
        table.push(id, wc(0), false).unwrap();
        table.push(id, wc(1), false).unwrap();
        assert_eq!((table.pop_event(), table.poll_timeout()), (None, Some(at(150))));
        table.push(id, wc(2), false).unwrap();
        assert_eq!((table.pop_event(), table.poll_timeout()), (Some(id), None), "the count");

        table.get_mut(id).unwrap().arm(Notify::Next);
        table.set_time(at(200));
        table.push(id, wc(3), false).unwrap();
        table.handle_timeout(at(249));
        assert_eq!(table.pop_event(), None);
        table.handle_timeout(at(250));
        assert_eq!((table.pop_event(), table.poll_timeout()), (Some(id), None), "the period");
        table.push(id, wc(4), false).unwrap();
        assert_eq!((table.pop_event(), table.poll_timeout()), (None, None), "not armed");

        table.get_mut(id).unwrap().arm(Notify::Next);
        table.push(id, Wc { status: WcStatus::WrFlushErr, ..wc(5) }, false).unwrap();
        assert_eq!(table.pop_event(), Some(id), "an error is not held back");
        table.get_mut(id).unwrap().arm(Notify::Next);
        table.push(id, wc(6), false).unwrap();
        table.remove(id);
        assert_eq!(table.poll_timeout(), None, "it went with its queue");
    }

    #[test]
    fn table_reports_each_event_once() {
        let mut table = CqTable::new();
        let id = table.insert(CompletionQueue::new(8));
        table.get_mut(id).unwrap().arm(Notify::Next);
        table.push(id, wc(0), false).unwrap();
        table.push(id, wc(1), false).unwrap();
        assert_eq!(table.pop_event(), Some(id));
        assert_eq!(table.pop_event(), None);
        assert!(table.remove(id).is_some());
        assert_eq!(table.push(id, wc(2), false), Err(Overflow));
    }
}
