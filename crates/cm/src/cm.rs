//! The connection manager of one device.

mod admission;
mod commands;
mod receive;

use std::net::IpAddr;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::budget::Budget;
use crate::connection::State;
use crate::event::Event;
use crate::id_source::IdSource;
use crate::identity::Identity;
use crate::limits::{CmLimits, TIMERS_PER_CALL};
use crate::outbox::{Outbox, Outgoing};
use crate::proven::ProvenSources;
use crate::reopening::Reopening;
use crate::table::Table;
use crate::time::Time;
use crate::{CommId, PortSpace, ServiceId};

/// The connection manager of one device: all its connections, resolutions and listeners.
///
/// Commands come from the application, [`handle_mad`](Cm::handle_mad) takes what arrives on QP 1.
/// After any of them, drain [`poll_transmit`](Cm::poll_transmit) and
/// [`poll_event`](Cm::poll_event), then read [`poll_timeout`](Cm::poll_timeout).
#[derive(Debug)]
pub struct Cm {
    us: Identity,
    limits: CmLimits,
    table: Table,
    out: Outbox,
    /// New requests.
    requests: Budget,
    /// Answers to what belongs to nothing.
    strays: Budget,
    /// Answers to sources whose address may be forged, sent again.
    repetitions: Budget,
    /// Checks of whether a peer is alive.
    checks: Budget,
    proven: ProvenSources,
    reopening: Reopening,
    ids: IdSource,
}

impl Cm {
    /// A connection manager without connections. All ids follow from `seed`, which must be
    /// unpredictable (A23).
    pub fn new(us: Identity, limits: CmLimits, seed: [u8; 32]) -> Cm {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let CmLimits { requests_per_second, requests_per_source, .. } = limits;
        let CmLimits { strays_per_second, strays_per_source, .. } = limits;
        let CmLimits { repetitions_per_second, repetitions_per_source, .. } = limits;
        let CmLimits { checks_per_second, checks_per_source, .. } = limits;
        Cm {
            us,
            limits,
            table: Table::default(),
            out: Outbox::default(),
            requests: Budget::new(requests_per_second, requests_per_source, rng.next_u64()),
            strays: Budget::new(strays_per_second, strays_per_source, rng.next_u64()),
            repetitions: Budget::new(
                repetitions_per_second,
                repetitions_per_source,
                rng.next_u64(),
            ),
            checks: Budget::new(checks_per_second, checks_per_source, rng.next_u64()),
            proven: ProvenSources::default(),
            reopening: Reopening::default(),
            ids: IdSource::new(rng, us.slot),
        }
    }

    /// The device that it speaks for.
    pub fn identity(&self) -> &Identity {
        &self.us
    }

    /// Connections and resolutions in any state, TIMEWAIT and answers that are kept included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Requests that are not answered, or whose answer is not confirmed.
    pub fn half_open(&self) -> usize {
        self.table.half_open.count()
    }

    /// MADs that were lost because those before them were not sent.
    pub fn lost(&self) -> u64 {
        self.out.lost()
    }

    /// True while calls to `service_id` mean something here although it has no listener: those that came
    /// are not answered, or the answer is not confirmed, or the listener may come back.
    pub fn is_wanted(&self, service_id: ServiceId) -> bool {
        self.reopening.is_open(service_id) || self.table.half_open.serves(service_id)
    }

    /// Where a connection stands; `None` if it is over or released.
    pub fn state(&self, id: CommId) -> Option<State> {
        self.table.connection(id).filter(|found| !found.is_released()).map(|found| found.state())
    }

    /// The peer of a connection; `None` if it is over or released.
    pub fn peer(&self, id: CommId) -> Option<IpAddr> {
        self.table.connection(id).filter(|found| !found.is_released()).map(|found| found.peer())
    }

    /// A connection is over on our side, and its peer has not answered the DREQ yet. Released connections count.
    pub fn awaits_drep(&self) -> bool {
        self.table.awaits_drep()
    }

    /// A port of `space` without a listener, for an application that leaves the choice to us.
    pub fn free_port(&mut self, space: PortSpace) -> Option<u16> {
        let listeners = &self.table.listeners;
        self.ids.draw_port(|port| !listeners.contains(ServiceId::new(space, port)))
    }

    /// An id that is free; `None` if the table is full of what is not over. Peers choose how long TIMEWAIT takes, so that one
    /// of those makes room.
    fn draw_id(&mut self) -> Option<CommId> {
        let Cm { ids, table, limits, out, .. } = self;
        if table.connections() >= limits.max_connections && !table.end_first_timewait(out) {
            return None;
        }
        ids.draw(|id| !table.is_taken(id))
    }

    /// Serves the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let early = self.reopening.due(now);
        self.handle_early(now, early);
        for _ in 0..TIMERS_PER_CALL {
            let Some(id) = self.table.due(now) else { return };
            let tid = self.ids.tid(id);
            let Cm { table, proven, repetitions, out, .. } = self;
            if let Some(exchange) = table.exchange_mut(id) {
                let peer = exchange.peer();
                let may_send = !exchange.may_be_forged()
                    || proven.contains(peer)
                    || repetitions.take(now, peer, false);
                exchange.handle_timeout(now, tid, may_send, out);
            }
            self.table.settle(id);
        }
    }

    /// The next MAD to send.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        self.out.pop_mad()
    }

    /// True while no event waits and [`poll_timeout`](Self::poll_timeout) names no time: cheaper to ask than both.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.table.has_deadline() && !self.reopening.has_deadline() && !self.out.has_event()
    }

    /// True if a MAD waits to be sent.
    pub fn wants_transmit(&self) -> bool {
        self.out.has_mad()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.pop_event()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.table.next_deadline(), self.reopening.next_deadline()].into_iter().flatten().min()
    }
}
