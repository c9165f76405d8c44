//! The NIC: one datapath and many queue pairs behind one lock.
//!
//! One poll iteration ([`Engine::poll_once`]) receives a batch, hands each packet to its queue
//! pair, serves due timers, lets the queue pairs that have something to send write packets, and
//! flushes the datapath. Nothing here blocks.

mod build;
mod bulk_copy;
mod cross_engine;
mod gsi;
mod gso_black_hole;
mod in_flight;
mod in_place;
mod last_answers;
mod mcast;
mod qp_table;
mod qpn;
mod queue_pair;
mod receive;
mod rx_icrc;
mod schedule;
mod tables;
mod transmit;

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use build::EngineBuilder;
pub(crate) use cross_engine::CrossEngineOp;
pub(crate) use gsi::{Gsi, GsiContext, admits_mad};
use gso_black_hole::GsoBlackHoles;
use in_place::InPlace;
use last_answers::LastAnswers;
use mcast::McastTable;
use qp_table::QpTable;
pub use queue_pair::QpRequest;
pub(crate) use rx_icrc::IcrcFindings;
use schedule::Schedule;
pub(crate) use tables::{CqNote, Tables, Xrcd, engine_of_object};
use transmit::AckPolicy;
use uroce_cm::{CommId, PortCounters};
use uroce_datapath::IcrcCaps;
use uroce_memory::mutation::mutated;
use uroce_transport::{AsyncEvent, CqId, Features, Instant};
use uroce_wire::{Mtu, PacketParser, Qpn, Slot};

use crate::clock::Clock;
use crate::counters;
use crate::limits::{DeviceLimits, LONG_POLL_PACKETS, RX_BUDGET, TIMER_BUDGET, TX_BUDGET};
use crate::local::{Assist, EngineDatapath, LocalState};

/// The queue pairs and what they share.
#[derive(Debug)]
pub(crate) struct Nic {
    local: SocketAddr,
    /// Our place among the processes on the address.
    pub(crate) slot: Option<Slot>,
    icrc_caps: IcrcCaps,
    /// Of received packets.
    parser: PacketParser,
    pub(crate) limits: DeviceLimits,
    active_mtu: Mtu,
    /// What its queue pairs do beyond the specification.
    features: Features,
    pub(crate) qps: QpTable,
    pub(crate) schedule: Schedule,
    pub(crate) gso_black_holes: GsoBlackHoles,
    pub(crate) in_place: InPlace,
    last_answers: LastAnswers,
    /// The queue pair of the last received packet, until [`reschedule`](Self::reschedule) has run
    /// for it: once for a run of packets to one queue pair.
    unscheduled: Option<Qpn>,
    pub(crate) tables: Tables,
    mcast: McastTable,
    pub(crate) icrc: IcrcFindings,
    /// Operations on other engines of the device, carried out after the lock of this one is
    /// released.
    pub(crate) cross_engine_ops: Vec<CrossEngineOp>,
}

/// The NIC with its datapath, QP 1 and clock.
pub(crate) struct Engine {
    pub(crate) clock: Clock,
    pub(crate) datapath: EngineDatapath,
    pub(crate) nic: Nic,
    pub(crate) gsi: Gsi,
    /// Start of the last poll iteration, or its end if it handled many packets. A post that sent
    /// many packets counts as an iteration.
    pub(crate) polled_at: Instant,
    /// When to try a transmit again that the kernel refused.
    retry_at: Option<u64>,
    /// The last receive has found as many packets as it may: more of them may be in the datapath, and no longer in
    /// what its waiter looks at.
    may_have_more: bool,
    /// Until when the progress thread sleeps; 0 while it is awake.
    pub(crate) thread_sleeps_until: u64,
    /// The datapath has said that it is not connected any more.
    datapath_is_lost: bool,
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
    fn poll_with_budget(&mut self, budget: usize) -> (usize, usize) {
        let now = self.clock.now();
        self.polled_at = now;
        self.nic.tables.cqs.set_time(now);
        self.nic.tables.cqs.handle_timeout(now);
        let late = if self.nic.schedule.has_pure_acks() { self.send_ready(now) } else { 0 };
        let received = self.receive(now);
        let fired = self.nic.serve_timers(now);
        self.serve_gsi(now);
        let sent = self.transmit(now, budget, AckPolicy::NextPoll);
        (received + fired, late + sent)
    }

    /// A poll iteration in the thread of another device. It sends as much as a receiver takes in one
    /// iteration. Pure ACKs leave at once, since the application does not poll.
    pub(crate) fn poll_for_peer(&mut self) -> Assist {
        self.local.begin_assist();
        let (arrived, _) = self.poll_with_budget(RX_BUDGET);
        let now = self.polled_at;
        if self.nic.schedule.has_pure_acks() {
            self.send_ready(now);
        }
        self.local.end_assist(now);
        match arrived >= RX_BUDGET {
            true => Assist::Again,
            false if self.has_work() => Assist::Later,
            false => Assist::Done,
        }
    }

    #[inline]
    fn receive(&mut self, now: Instant) -> usize {
        let Engine { nic, gsi, .. } = self;
        let outcome = self.datapath.recv(RX_BUDGET, &mut |rx| nic.receive(now, &rx, gsi));
        // A datapath with faults also sends while it receives.
        self.local.collect_pending(&mut self.datapath);
        let received = outcome.unwrap_or_else(|error| {
            self.handle_receive_error(&error);
            0
        });
        self.may_have_more = received >= RX_BUDGET;
        self.nic.reschedule_last_receiver();
        if self.gsi.has_requests() {
            self.respond_to_requests();
        }
        received
    }

    /// A datapath that is not connected any more will never be: the device has failed, once.
    #[cold]
    fn handle_receive_error(&mut self, error: &std::io::Error) {
        tracing::debug!(%error, "receive failed");
        if error.kind() == std::io::ErrorKind::NotConnected && !self.datapath_is_lost {
            self.datapath_is_lost = true;
            tracing::error!(%error, "the device has failed");
            self.fail_device();
        }
    }

    /// Answers the requests to the management agents of the last batch.
    #[cold]
    fn respond_to_requests(&mut self) {
        let counters = self.port_counters();
        self.gsi.respond_to_requests(&counters);
    }

    /// Serves the connection manager's timers and events.
    #[inline]
    fn serve_gsi(&mut self, now: Instant) {
        if self.gsi.is_idle() {
            return;
        }
        let Engine { nic, datapath, gsi, .. } = self;
        gsi.serve(&mut GsiContext { now, nic, datapath: &mut **datapath });
    }

    /// Runs a command of QP 1, and what follows from it.
    pub(crate) fn with_gsi<R>(
        &mut self,
        command: impl FnOnce(&mut Gsi, &mut GsiContext<'_>) -> R,
    ) -> R {
        let now = self.clock.now();
        // The ACK of a message leaves before a message of ours that ends its connection.
        self.send_ready(now);
        let Engine { nic, datapath, gsi, .. } = self;
        let done = command(gsi, &mut GsiContext { now, nic, datapath: &mut **datapath });
        self.serve_gsi(now);
        self.send_ready(now);
        done
    }

    /// The packet that a connection waits for has come to its queue pair in another engine.
    pub(crate) fn confirm(&mut self, id: CommId) {
        self.with_gsi(|gsi, _| gsi.handle_comm_est(id));
    }

    /// Latest time of the next poll iteration if no packet arrives earlier.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let held = self.nic.tables.cqs.poll_timeout().map(Instant::as_nanos);
        let datapath = self.datapath.poll_timeout().map(|at| self.clock.of_monotonic(at));
        let timers = [self.nic.schedule.next_deadline(), self.gsi.next_deadline(), held, datapath];
        let timers = timers.into_iter().flatten().min();
        match self.retry_at {
            Some(retry) => Some(timers.map_or(retry, |timer| timer.min(retry))),
            None if mutated("never-idle") && timers.is_some() => Some(0),
            None if self.may_have_more || self.has_work() || !self.local.pending.is_empty() => {
                Some(0)
            }
            None => timers,
        }
    }

    fn has_work(&self) -> bool {
        self.nic.schedule.has_senders() || self.has_prepared()
    }

    /// All that the engine counts, by name.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let Nic { tables, icrc, gso_black_holes, .. } = &self.nic;
        counters::snapshot(&tables.counters, icrc, gso_black_holes.detected, &self.datapath.stats())
    }

    /// What network management is told of the port: the share of this engine.
    pub(crate) fn port_counters(&self) -> PortCounters {
        counters::port_counters(&self.nic.tables.counters, &self.datapath.stats())
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
    /// Takes account of a change of the queue pair in the schedule.
    fn reschedule(&mut self, qpn: Qpn) {
        if let Some(entry) = self.qps.get_mut(qpn) {
            self.schedule.update(entry);
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
            let Some((deadline, qpn)) = self.schedule.pop_due(now) else {
                break;
            };
            fired += usize::from(self.serve_timer(now, deadline, qpn));
        }
        self.schedule.drop_stale_timers(&self.qps);
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
        self.schedule.update(entry);
        due
    }

    fn fail_qp(&mut self, qpn: Qpn, now: Instant) {
        let Some(entry) = self.qps.get_mut(qpn) else {
            return;
        };
        entry.qp.handle_fatal(now, &mut self.tables.context());
        self.schedule.update(entry);
    }
}

#[cfg(test)]
mod tests;
