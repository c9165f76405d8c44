//! When each queue pair is served next: the order of those with something to send, the heap of
//! deadlines, and the limit on what is in flight to a destination.
//!
//! Consecutive packets of one size and one route form a GSO batch, which costs little more than one
//! packet. Ready queue pairs are therefore served in rounds, sorted by source port, since all
//! packets of a batch have the same one. A round has two phases. In the header phase each queue
//! pair sends its first packet only: that of a WRITE has a RETH and is longer than those behind it,
//! so these packets form one batch. In the body phase the queue pairs send the rest, which forms
//! the next one. The packets of each queue pair stay in order, and no queue pair is served twice
//! before every other one was served once.
//!
//! The heap of deadlines is a min-heap with lazy validation. Most deadlines only ever move later
//! (each acknowledgement restarts the retransmit timer). Moving later costs nothing here: the old
//! entry stays in the heap, fires, finds that its queue pair is not due yet, and is pushed again at
//! the true time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use uroce_transport::{Instant, Step};
use uroce_wire::Qpn;

use super::in_flight::InFlight;
use super::qp_table::{QpEntry, QpTable};

/// Queue pairs in a round: as many as packets in a GSO batch.
const ROUND: usize = 64;

/// Why the service of a queue pair ended.
pub(super) enum TurnEnd {
    /// Nothing to send now.
    Idle,
    /// Only a pure ACK is left.
    PureAck,
    /// The budget is used up, or a request has ended while others are in progress.
    More,
    /// The first packet of a request was sent, in the header phase of a round.
    HeaderSent,
    /// The datapath takes no more packets.
    Blocked,
}

/// When the queue pairs of an engine are served.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Queue pairs with something to send.
    senders: Senders,
    /// Queue pairs that have nothing but a pure ACK to send, which leaves with the next poll
    /// iteration or post.
    pure_acks: VecDeque<Qpn>,
    timers: Timers,
    /// Unacknowledged bytes for each destination.
    in_flight: InFlight,
}

impl Schedule {
    /// `interleaves`: packets of several queue pairs can form one GSO batch. Up to `in_flight` bytes
    /// are unacknowledged at each destination.
    pub(crate) fn new(interleaves: bool, in_flight: u64) -> Self {
        Schedule {
            senders: Senders::new(interleaves),
            pure_acks: VecDeque::new(),
            timers: Timers::default(),
            in_flight: InFlight::new(in_flight),
        }
    }

    /// True if a queue pair can send now.
    pub(crate) fn has_senders(&self) -> bool {
        !self.senders.is_empty() || self.has_pure_acks() || self.in_flight.has_grants()
    }

    pub(crate) fn has_pure_acks(&self) -> bool {
        !self.pure_acks.is_empty()
    }

    /// Lets the pure ACKs leave that wait for the next poll iteration.
    pub(super) fn release_pure_acks(&mut self) {
        self.senders.append(&mut self.pure_acks);
    }

    /// Takes account of a change of the queue pair: what it has to send, its deadline, and its bytes
    /// in flight.
    #[inline]
    pub(crate) fn update(&mut self, entry: &mut QpEntry) {
        if !entry.ready && entry.has_work() {
            entry.ready = true;
            self.senders.push(entry.init.qpn);
        }
        if !entry.ready {
            // A scheduled queue pair is accounted once for many packets, when it is served.
            self.account(entry);
        }
        self.arm(entry);
    }

    /// The queue pair will be looked at no later than its deadline.
    pub(super) fn arm(&mut self, entry: &mut QpEntry) {
        self.timers.arm(entry.init.qpn.get(), entry.qp.poll_timeout(), &mut entry.armed);
    }

    /// The next (deadline, QPN) at or before `now`. It may be stale: compare with `armed`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(u64, Qpn)> {
        self.timers.pop_due(now).map(|(deadline, qpn)| (deadline, Qpn::new(qpn)))
    }

    /// No queue pair needs attention before this time (it may be too early, never too late).
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.timers.next_deadline()
    }

    /// Bounds the heap: stale entries may not outnumber the queue pairs many times over.
    pub(super) fn drop_stale_timers(&mut self, qps: &QpTable) {
        if self.timers.len() > 4 * qps.len() + 64 {
            let live = qps.iter().filter_map(|e| e.armed.map(|at| (at, e.init.qpn.get())));
            self.timers.rebuild(live);
        }
    }

    /// The queue pair to serve next. Those that have waited for room at their destination join the
    /// next round, as far as there is room now.
    #[inline]
    pub(super) fn next_sender(&mut self, qps: &mut QpTable) -> Option<Qpn> {
        if self.senders.round_is_empty() {
            // One at least: who waits for room is not to wait for a pause of all others, too.
            for _ in 0..ROUND.saturating_sub(self.senders.waiting()).max(1) {
                if !self.grant(qps) {
                    break;
                }
            }
        }
        let qps = &*qps;
        let next = self.senders.pop(|qpn| qps.get(qpn).map_or(0, |entry| entry.qp.source_port()));
        debug_assert!(
            next.and_then(|qpn| qps.get(qpn)).is_none_or(|entry| entry.ready),
            "a queue pair is in the schedule if it says so"
        );
        next
    }

    /// Schedules a queue pair that has waited for room at its destination, if there is room now.
    fn grant(&mut self, qps: &mut QpTable) -> bool {
        while let Some(qpn) = self.in_flight.pop_waiting() {
            let granted = qps.get_mut(qpn);
            debug_assert!(granted.is_some(), "a destroyed queue pair waits no more");
            let Some(entry) = granted else { continue };
            self.in_flight.grant(&mut entry.credit);
            if !entry.ready {
                entry.ready = true;
                self.senders.push(entry.init.qpn);
            }
            return true;
        }
        false
    }

    /// Bytes that the queue pair may have in flight altogether. 0: others wait before it.
    pub(super) fn allowance(&self, entry: &QpEntry) -> u64 {
        self.in_flight.allowance(&entry.credit)
    }

    /// Updates the account of the destination by the bytes that the queue pair has in flight now.
    pub(super) fn account(&mut self, entry: &mut QpEntry) {
        self.in_flight.account(&entry.qp, &mut entry.credit);
    }

    /// Adds the queue pair to the account of its destination, which may have changed.
    pub(super) fn join(&mut self, entry: &mut QpEntry) {
        self.in_flight.join(&entry.qp, &mut entry.credit);
    }

    /// The queue pair is being destroyed.
    pub(crate) fn leave(&mut self, entry: &mut QpEntry) {
        self.in_flight.leave(entry.init.qpn, &mut entry.credit);
    }

    /// The queue pair that is served shares its round with no other: no phase ends its turn.
    #[inline]
    pub(super) fn has_one_sender(&self) -> bool {
        !self.senders.interleaved
    }

    /// The queue pair has sent a packet, its packet number `sent` of this turn. `Some`: the turn
    /// ends with it, because the phase of the round says so.
    #[inline]
    pub(super) fn ends_turn(
        &mut self,
        entry: &mut QpEntry,
        step: Step,
        sent: usize,
    ) -> Option<TurnEnd> {
        match step {
            Step::Leads if self.senders.in_header_phase() => {
                self.account(entry);
                Some(TurnEnd::HeaderSent)
            }
            Step::Ends if self.senders.in_body_phase() => Some(self.end_turn(entry, sent)),
            _ => None,
        }
    }

    /// Ends the turn of a queue pair that has more to send.
    pub(super) fn end_turn(&mut self, entry: &mut QpEntry, sent: usize) -> TurnEnd {
        self.in_flight.finish_turn(&entry.qp, &mut entry.credit, sent, false);
        TurnEnd::More
    }

    /// Ends the turn of a queue pair that has no packet now, or is not `allowed` to send one. If the
    /// limit holds it back, it waits for room at its destination.
    pub(super) fn end_idle_turn(
        &mut self,
        entry: &mut QpEntry,
        sent: usize,
        allowed: bool,
    ) -> TurnEnd {
        self.arm(entry);
        let held = !allowed && entry.qp.wants_request();
        self.in_flight.finish_turn(&entry.qp, &mut entry.credit, sent, held);
        entry.ready = entry.has_work();
        if entry.ready { TurnEnd::PureAck } else { TurnEnd::Idle }
    }

    /// Asserts that each queue pair is in the schedule once if it says so, and else not. Only where there are few: it looks
    /// at all of them.
    pub(super) fn assert_invariants(&self, qps: &QpTable) {
        const FEW: usize = 16;
        if !cfg!(debug_assertions) || qps.len() > FEW {
            return;
        }
        for entry in qps.iter() {
            let qpn = entry.init.qpn;
            let waiting = self.pure_acks.iter().filter(|listed| **listed == qpn).count();
            let listed = self.senders.count(qpn) + waiting;
            debug_assert_eq!(listed, usize::from(entry.ready), "{qpn:?}");
            let is_armed = entry.qp.poll_timeout().is_none() || entry.armed.is_some();
            debug_assert!(
                entry.ready || is_armed,
                "{qpn:?} waits for a time, and nobody looks then"
            );
        }
    }

    /// Queues the queue pair anew after a turn that ended so.
    pub(super) fn queue_again(&mut self, qpn: Qpn, end: &TurnEnd) {
        match end {
            TurnEnd::Idle => {}
            TurnEnd::PureAck => self.pure_acks.push_back(qpn),
            TurnEnd::More => self.senders.push(qpn),
            TurnEnd::HeaderSent => self.senders.defer_body(qpn),
            TurnEnd::Blocked => self.senders.resume(qpn),
        }
    }
}

/// Round-robin scheduler of sending queue pairs.
#[derive(Debug)]
struct Senders {
    /// Queue pairs for the rounds to come, in FIFO order.
    waiting: VecDeque<Qpn>,
    /// Queue pairs of the round whose header phase is to come, with their source ports; the next
    /// one is last.
    headers: Vec<(u16, Qpn)>,
    /// Queue pairs of the round whose body phase is to come.
    bodies: VecDeque<Qpn>,
    /// The current round has two phases.
    interleaved: bool,
    /// The round is in its body phase.
    body_phase: bool,
    /// Rounds have two phases: the datapath uses GSO.
    interleaves: bool,
}

impl Senders {
    /// `interleaves`: packets of several queue pairs can form one GSO batch.
    fn new(interleaves: bool) -> Self {
        Senders {
            waiting: VecDeque::new(),
            headers: Vec::with_capacity(ROUND),
            bodies: VecDeque::with_capacity(ROUND),
            interleaved: false,
            body_phase: false,
            interleaves,
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.round_is_empty()
    }

    /// How often a queue pair is in the lists.
    fn count(&self, qpn: Qpn) -> usize {
        let others = self.waiting.iter().chain(&self.bodies);
        let all = others.chain(self.headers.iter().map(|(_, header)| header));
        all.filter(|listed| **listed == qpn).count()
    }

    /// The current round is over.
    fn round_is_empty(&self) -> bool {
        self.headers.is_empty() && self.bodies.is_empty()
    }

    /// Number of queue pairs that wait for the next round.
    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Queues `qpn` behind all others.
    fn push(&mut self, qpn: Qpn) {
        self.waiting.push_back(qpn);
    }

    /// Queues all of `others` behind all others.
    fn append(&mut self, others: &mut VecDeque<Qpn>) {
        self.waiting.append(others);
    }

    /// The queue pair to serve next; `port` returns the source port of a queue pair.
    fn pop(&mut self, port: impl FnMut(Qpn) -> u16) -> Option<Qpn> {
        if self.round_is_empty() {
            self.start_round(port);
        }
        let header = self.headers.pop().map(|(_, qpn)| qpn);
        self.body_phase = header.is_none() && !self.bodies.is_empty();
        header.or_else(|| self.bodies.pop_front()).or_else(|| self.waiting.pop_front())
    }

    fn start_round(&mut self, mut port: impl FnMut(Qpn) -> u16) {
        debug_assert!(self.round_is_empty(), "the round before has ended");
        self.interleaved = self.interleaves && self.waiting.len() > 1;
        if self.interleaved {
            let count = self.waiting.len().min(ROUND);
            self.headers.extend(self.waiting.drain(..count).rev().map(|qpn| (port(qpn), qpn)));
            self.headers.sort_unstable_by_key(|(port, _)| *port);
        }
    }

    /// True in the header phase: after its first packet the queue pair is to be deferred with
    /// [`defer_body`](Self::defer_body).
    fn in_header_phase(&self) -> bool {
        self.interleaved && !self.body_phase
    }

    /// True in the body phase: at the end of its request the queue pair gives way to the next one.
    fn in_body_phase(&self) -> bool {
        self.body_phase
    }

    /// Defers the rest of the request of `qpn` to the body phase.
    fn defer_body(&mut self, qpn: Qpn) {
        debug_assert!(self.in_header_phase(), "bodies are put off by headers");
        debug_assert!(self.bodies.len() < ROUND, "a round has no more queue pairs");
        self.bodies.push_back(qpn);
    }

    /// Puts a queue pair back whose service was cut short: it is served next.
    fn resume(&mut self, qpn: Qpn) {
        match self.body_phase {
            true => self.bodies.push_front(qpn),
            false => self.headers.push((0, qpn)),
        }
    }
}

/// The heap. Each queue pair keeps its earliest heap entry (`armed`) beside its state; an entry that
/// differs from it is stale.
#[derive(Debug, Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Timers {
    /// Says that `qpn` wants to be looked at no later than `deadline`. `armed` is the queue pair's
    /// own note and is kept up to date.
    fn arm(&mut self, qpn: u32, deadline: Option<Instant>, armed: &mut Option<u64>) {
        let Some(deadline) = deadline.map(Instant::as_nanos) else {
            return;
        };
        if armed.is_some_and(|earliest| earliest <= deadline) {
            return;
        }
        *armed = Some(deadline);
        self.heap.push(Reverse((deadline, qpn)));
    }

    /// The next (deadline, QPN) at or before `now`. It may be stale: compare with `armed`.
    fn pop_due(&mut self, now: Instant) -> Option<(u64, u32)> {
        let Reverse((deadline, _)) = *self.heap.peek()?;
        if deadline > now.as_nanos() {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// No queue pair needs attention before this time (it may be too early, never too late).
    fn next_deadline(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Entries, stale ones included.
    fn len(&self) -> usize {
        self.heap.len()
    }

    /// Replaces all entries by the live ones. Called when stale entries outnumber them.
    fn rebuild(&mut self, live: impl Iterator<Item = (u64, u32)>) {
        let before = self.heap.len();
        self.heap.clear();
        self.heap.extend(live.map(Reverse));
        debug_assert!(self.heap.len() <= before, "what is armed has an entry");
    }
}

#[cfg(test)]
mod tests;
