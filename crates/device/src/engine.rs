//! The NIC: one datapath and many queue pairs behind one lock.
//!
//! One poll iteration ([`Engine::poll_once`]) receives a batch, hands each packet to its queue
//! pair, serves due timers, lets the queue pairs that have something to send write packets, and
//! flushes the datapath. Nothing here blocks.

mod build;
mod checks;
mod cm_events;
mod cm_setup;
pub(crate) mod gsi;
mod gso_black_hole;
mod in_flight;
mod mads;
pub(crate) mod mcast;
mod ping_pong;
mod qp_table;
mod qpn;
mod receive;
mod rx_icrc;
mod send_scheduler;
mod services;
mod tables;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use build::EngineBuilder;
pub(crate) use gso_black_hole::GsoBlackHoles;
pub(crate) use in_flight::{InFlight, QpCredit};
pub(crate) use mads::admits_mad;
pub(crate) use send_scheduler::SendScheduler;
pub(crate) use tables::{CqNote, Tables, Xrcd};
use transmit::AckPolicy;
pub(crate) use transmit::route;
use uroce_datapath::IcrcCaps;
use uroce_transport::{AsyncEvent, CqId, Instant};
use uroce_wire::{Mtu, Qpn, Slot};

use crate::clock::Clock;
use crate::engine::gsi::Gsi;
use crate::engine::mcast::McastTable;
use crate::engine::qp_table::{QpEntry, QpTable};
use crate::engine::rx_icrc::BatchIds;
use crate::engine::timers::Timers;
use crate::engines::CrossEngineOp;
use crate::limits::{DeviceLimits, LONG_POLL_PACKETS, RX_BUDGET, TIMER_BUDGET, TX_BUDGET};
use crate::local::{EngineDatapath, LocalState};

/// Counts of how ICRCs were verified; failures are counted as drop reasons.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IcrcFindings {
    /// All fields known, all 32 bits right.
    pub(crate) valid: u64,
    /// The hidden IPv4 ID was guessed, all 32 bits right.
    pub(crate) predicted: u64,
    /// The hidden IPv4 ID was solved for, 16 bits right.
    pub(crate) solved: u64,
    /// Predictor of the hidden IPv4 IDs of packets that arrived as one GSO batch.
    pub(crate) train: BatchIds,
}

/// Everything behind the datapath.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) local: SocketAddr,
    /// Our place among the processes on the address.
    pub(crate) slot: Option<Slot>,
    pub(crate) icrc_caps: IcrcCaps,
    pub(crate) qps: QpTable,
    pub(crate) timers: Timers,
    /// Unacknowledged bytes for each destination.
    pub(crate) in_flight: InFlight,
    pub(crate) gso_black_holes: GsoBlackHoles,
    /// Queue pairs with something to send.
    pub(crate) scheduler: SendScheduler,
    /// Queue pairs with nothing but a delayed ACK to send, which leaves with the next poll
    /// iteration or post.
    pub(crate) delayed_acks: VecDeque<Qpn>,
    /// The queue pair of the last received packet, until [`reschedule`](Self::reschedule) has run
    /// for it: once for a run of packets to one queue pair.
    pub(crate) unscheduled: Option<Qpn>,
    pub(crate) tables: Tables,
    pub(crate) mcast: McastTable,
    pub(crate) gsi: Gsi,
    pub(crate) icrc: IcrcFindings,
    /// Operations on other engines of the device, carried out after the lock of this one is
    /// released.
    pub(crate) cross_engine_ops: Vec<CrossEngineOp>,
}

/// The NIC with its datapath and clock.
pub(crate) struct Engine {
    pub(crate) clock: Clock,
    pub(crate) datapath: EngineDatapath,
    pub(crate) nic: Nic,
    pub(crate) limits: DeviceLimits,
    pub(crate) active_mtu: Mtu,
    /// Start of the last poll iteration, or its end if it handled many packets. A post that sent
    /// many packets counts as an iteration.
    pub(crate) polled_at: Instant,
    /// When to try a transmit again that the kernel refused.
    pub(crate) retry_at: Option<u64>,
    /// Until when the progress thread sleeps; 0 while it is awake.
    pub(crate) thread_sleeps_until: u64,
    /// Cooperation with other devices of the process.
    pub(crate) local: LocalState,
}

impl Engine {
    /// One poll iteration. True if a packet was received or sent or a timer was served, so that
    /// another iteration may find more.
    pub(crate) fn poll_once(&mut self) -> bool {
        let (arrived, sent) = self.poll_with_budget(TX_BUDGET);
        if arrived + sent >= LONG_POLL_PACKETS {
            self.polled_at = self.clock.now();
        }
        arrived + sent > 0
    }

    /// One poll iteration that sends at most `budget` packets. Returns the number of received
    /// packets and served timers, and the number of sent packets.
    pub(crate) fn poll_with_budget(&mut self, budget: usize) -> (usize, usize) {
        let now = self.clock.now();
        self.polled_at = now;
        self.nic.tables.cqs.set_time(now);
        self.nic.tables.cqs.handle_timeout(now);
        let late = if self.nic.delayed_acks.is_empty() { 0 } else { self.send_ready(now) };
        let received = self.receive(now);
        let fired = self.nic.serve_timers(now);
        self.serve_cm(now);
        let sent = self.transmit(now, budget, AckPolicy::Delay);
        (received + fired, late + sent)
    }

    pub(crate) fn receive(&mut self, now: Instant) -> usize {
        let nic = &mut self.nic;
        let outcome = self.datapath.recv(RX_BUDGET, &mut |rx| nic.receive(now, &rx));
        // A datapath with faults also sends while it receives.
        self.collect_pending_peers();
        let received = outcome.unwrap_or_else(|error| {
            tracing::debug!(%error, "receive failed");
            0
        });
        self.nic.reschedule_last_receiver();
        if !self.nic.gsi.asked.is_empty() {
            self.respond_to_requests();
        }
        received
    }

    /// Sends what a command has just made ready, and the ACKs that waited for something.
    pub(crate) fn send_ready(&mut self, now: Instant) -> usize {
        let Nic { scheduler, delayed_acks, .. } = &mut self.nic;
        scheduler.append(delayed_acks);
        self.transmit(now, TX_BUDGET, AckPolicy::Flush)
    }

    /// Latest time of the next poll iteration if no packet arrives earlier.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let held = self.nic.tables.cqs.poll_timeout().map(Instant::as_nanos);
        let datapath = self.datapath.poll_timeout().map(|at| self.clock.of_monotonic(at));
        let timers =
            [self.nic.timers.next_deadline(), self.nic.gsi.next_deadline(), held, datapath];
        let timers = timers.into_iter().flatten().min();
        match self.retry_at {
            Some(retry) => Some(timers.map_or(retry, |timer| timer.min(retry))),
            None if self.has_work() || !self.local.pending.is_empty() => Some(0),
            None => timers,
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        let Nic { scheduler, delayed_acks, in_flight, gsi, .. } = &self.nic;
        let granted = in_flight.has_grants();
        !scheduler.is_empty() || !delayed_acks.is_empty() || granted || gsi.wants_transmit()
    }

    /// See [`Nic::reschedule`].
    pub(crate) fn reschedule(&mut self, qpn: Qpn) {
        self.nic.reschedule(qpn);
    }

    /// Next asynchronous event. A CQ error first takes the queue pairs of that CQ down (R66).
    pub(crate) fn pop_async_event(&mut self) -> Option<AsyncEvent> {
        let event = self.nic.tables.events.pop()?;
        if let AsyncEvent::CqErr(cq) = event {
            self.fail_cq(cq);
        }
        Some(event)
    }

    /// Moves every queue pair to the error state and raises the fatal event of the device, after a
    /// panic that has left the state of the engine undefined.
    #[cold]
    pub(crate) fn fail_device(&mut self) {
        let now = self.clock.now();
        let all: Vec<Qpn> = self.nic.qps.iter().map(|entry| entry.init.qpn).collect();
        for qpn in all {
            // One that cannot even be ended keeps the others from nothing.
            let nic = &mut self.nic;
            let _panicked = catch_unwind(AssertUnwindSafe(|| nic.fail_qp(qpn, now)));
        }
        self.nic.tables.events.push(AsyncEvent::DeviceFatal);
    }

    fn fail_cq(&mut self, cq: CqId) {
        let now = self.clock.now();
        for qpn in self.nic.qps.using_cq(cq) {
            self.nic.fail_qp(qpn, now);
        }
    }
}

impl Nic {
    /// Updates the send scheduler, the timer heap and the in-flight limit after a change of the
    /// queue pair.
    pub(crate) fn reschedule(&mut self, qpn: Qpn) {
        if let Some(entry) = self.qps.get_mut(qpn) {
            reschedule(entry, &mut self.scheduler, &mut self.timers, &mut self.in_flight);
        }
    }

    /// Reschedules the queue pair of the last received packet.
    fn reschedule_last_receiver(&mut self) {
        if let Some(qpn) = self.unscheduled.take() {
            self.reschedule(qpn);
        }
    }

    /// Serves the timers that are due. Stale ones cost a look.
    fn serve_timers(&mut self, now: Instant) -> usize {
        let mut fired = 0;
        for _ in 0..TIMER_BUDGET {
            let Some((deadline, qpn)) = self.timers.pop_due(now) else {
                break;
            };
            fired += usize::from(self.serve_timer(now, deadline, Qpn::new(qpn)));
        }
        self.drop_stale_timers();
        fired
    }

    fn serve_timer(&mut self, now: Instant, deadline: u64, qpn: Qpn) -> bool {
        let Some(entry) = self.qps.get_mut(qpn) else {
            return false;
        };
        if entry.armed != Some(deadline) {
            return false;
        }
        entry.armed = None;
        let due = entry.qp.poll_timeout().is_some_and(|at| at <= now);
        if due {
            entry.qp.handle_timeout(now, &mut self.tables.context());
        }
        reschedule(entry, &mut self.scheduler, &mut self.timers, &mut self.in_flight);
        due
    }

    /// Bounds the heap: stale entries may not outnumber the queue pairs many times over.
    fn drop_stale_timers(&mut self) {
        if self.timers.len() > 4 * self.qps.len() + 64 {
            let live = self.qps.iter().filter_map(|e| e.armed.map(|at| (at, e.init.qpn.get())));
            self.timers.rebuild(live);
        }
    }

    fn fail_qp(&mut self, qpn: Qpn, now: Instant) {
        let Some(entry) = self.qps.get_mut(qpn) else {
            return;
        };
        entry.qp.handle_fatal(now, &mut self.tables.context());
        reschedule(entry, &mut self.scheduler, &mut self.timers, &mut self.in_flight);
    }
}

/// See [`Nic::reschedule`].
pub(crate) fn reschedule(
    entry: &mut QpEntry,
    scheduler: &mut SendScheduler,
    timers: &mut Timers,
    in_flight: &mut InFlight,
) {
    if !entry.ready && entry.has_work() {
        entry.ready = true;
        scheduler.push(entry.init.qpn);
    }
    if !entry.ready {
        // A scheduled queue pair is accounted once for many packets, when it is served.
        in_flight.account(entry);
    }
    timers.arm(entry.init.qpn.get(), entry.qp.poll_timeout(), &mut entry.armed);
}

#[cfg(test)]
mod tests;
