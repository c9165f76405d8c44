//! All exchanges of a device: by our id, by the peer's id and queue pair, by deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use uroce_wire::Qpn;

use crate::connection::{Connection, State};
use crate::exchange::Exchange;
use crate::half_open::HalfOpen;
use crate::limits::{MAX_ANSWERED, MAX_HELD};
use crate::listener::{ListenerId, Listeners};
use crate::outbox::Outbox;
use crate::resolution::Resolution;
use crate::time::Time;
use crate::time_order::TimeOrder;
use crate::{CommId, ServiceId};

#[derive(Debug)]
struct Entry {
    exchange: Exchange,
    /// Its entry among the timers.
    armed: Option<Time>,
    /// Its entry among those whose answer is not confirmed.
    unconfirmed: Option<Time>,
    /// Its entry among the answers that are kept.
    answered: Option<Time>,
    /// Its entry among those in TIMEWAIT.
    timewait: Option<Time>,
    /// It is counted as half open.
    half_open: bool,
    /// The application has fetched it: a request then no longer counts against the backlog.
    fetched: bool,
    /// It is counted as waiting at this listener.
    waits_at: Option<ListenerId>,
    /// Under what the peer finds it.
    indexed: Option<CommId>,
    /// The queue pair of the peer that is its own.
    holds: Option<Qpn>,
    /// The application is done with its id.
    released: bool,
}

/// Kept in step with the state machines by [`settle`](Table::settle), which every change calls.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<CommId, Entry>,
    /// Ids of what is over, which the application may still name.
    held: BTreeSet<CommId>,
    by_remote_id: BTreeMap<(IpAddr, CommId), CommId>,
    by_remote_qpn: BTreeMap<(IpAddr, Qpn), CommId>,
    questions: BTreeMap<(IpAddr, u32), CommId>,
    timers: TimeOrder,
    unconfirmed: TimeOrder,
    answered: TimeOrder,
    timewait: TimeOrder,
    pub(crate) half_open: HalfOpen,
    pub(crate) listeners: Listeners,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// No other exchange may get this id yet.
    pub(crate) fn is_taken(&self, id: CommId) -> bool {
        self.entries.contains_key(&id) || self.held.contains(&id)
    }

    /// The application will not name the id any more.
    pub(crate) fn note_released(&mut self, id: CommId) {
        match self.entries.get_mut(&id) {
            Some(entry) => entry.released = true,
            None => drop(self.held.remove(&id)),
        }
    }

    /// The application has fetched the request.
    pub(crate) fn note_fetched(&mut self, id: CommId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.fetched = true;
        settle_waiting(entry, &mut self.listeners);
    }

    fn hold(&mut self, id: CommId) {
        self.held.insert(id);
        if self.held.len() > MAX_HELD {
            self.held.pop_first();
        }
    }

    pub(crate) fn connection(&self, id: CommId) -> Option<&Connection> {
        match &self.entries.get(&id)?.exchange {
            Exchange::Connection(connection) => Some(connection),
            Exchange::Resolution(_) => None,
        }
    }

    /// A peer has been told that a connection is over, and has not answered yet.
    pub(crate) fn awaits_drep(&self) -> bool {
        let state_of = |entry: &Entry| match &entry.exchange {
            Exchange::Connection(connection) => Some(connection.state()),
            Exchange::Resolution(_) => None,
        };
        self.entries.values().any(|entry| state_of(entry) == Some(State::DreqSent))
    }

    /// Call [`settle`](Self::settle) afterwards.
    pub(crate) fn connection_mut(&mut self, id: CommId) -> Option<&mut Connection> {
        match &mut self.entries.get_mut(&id)?.exchange {
            Exchange::Connection(connection) => Some(connection),
            Exchange::Resolution(_) => None,
        }
    }

    pub(crate) fn resolution_mut(&mut self, id: CommId) -> Option<&mut Resolution> {
        match &mut self.entries.get_mut(&id)?.exchange {
            Exchange::Connection(_) => None,
            Exchange::Resolution(resolution) => Some(resolution),
        }
    }

    /// Call [`settle`](Self::settle) afterwards.
    pub(crate) fn exchange_mut(&mut self, id: CommId) -> Option<&mut Exchange> {
        self.entries.get_mut(&id).map(|entry| &mut entry.exchange)
    }

    /// The connection that `peer` calls `remote`.
    pub(crate) fn find_remote_id(&self, peer: IpAddr, remote: CommId) -> Option<CommId> {
        self.by_remote_id.get(&(peer, remote)).copied()
    }

    /// The connection with this queue pair of `peer`.
    pub(crate) fn find_remote_qpn(&self, peer: IpAddr, qpn: Qpn) -> Option<CommId> {
        self.by_remote_qpn.get(&(peer, qpn)).copied()
    }

    /// The resolution that `peer` asked for under this id.
    pub(crate) fn find_question(&self, peer: IpAddr, request: u32) -> Option<CommId> {
        self.questions.get(&(peer, request)).copied()
    }

    pub(crate) fn add_connection(&mut self, id: CommId, connection: Connection) {
        self.insert(id, Exchange::Connection(Box::new(connection)));
    }

    pub(crate) fn add_resolution(&mut self, id: CommId, resolution: Resolution) {
        if resolution.is_of_peer() {
            self.questions.insert((resolution.peer(), resolution.req().request_id), id);
        }
        self.insert(id, Exchange::Resolution(Box::new(resolution)));
    }

    fn insert(&mut self, id: CommId, exchange: Exchange) {
        let entry = Entry {
            exchange,
            armed: None,
            unconfirmed: None,
            answered: None,
            timewait: None,
            half_open: false,
            fetched: false,
            waits_at: None,
            indexed: None,
            holds: None,
            released: false,
        };
        let old = self.entries.insert(id, entry);
        debug_assert!(old.is_none(), "an id was given out twice");
        self.settle(id);
    }

    /// Brings timers, counts and indices in step with the exchange; forgets it when it is closed.
    pub(crate) fn settle(&mut self, id: CommId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let exchange = &entry.exchange;
        self.timers.settle(&mut entry.armed, id, exchange.deadline());
        self.unconfirmed.settle(&mut entry.unconfirmed, id, exchange.unconfirmed_since());
        self.answered.settle(&mut entry.answered, id, exchange.answered_until());
        let timewait = exchange.deadline().filter(|_| exchange.state() == State::Timewait);
        self.timewait.settle(&mut entry.timewait, id, timewait);
        let (peer, half_open) = (entry.exchange.peer(), entry.exchange.is_half_open());
        match (entry.half_open, half_open) {
            (false, true) => self.half_open.add(peer, service_of(&entry.exchange)),
            (true, false) => self.half_open.remove(peer, service_of(&entry.exchange)),
            _ => {}
        }
        entry.half_open = half_open;
        settle_waiting(entry, &mut self.listeners);
        self.settle_index(id, peer);
        self.forget_if_closed(id);
    }

    fn settle_index(&mut self, id: CommId, peer: IpAddr) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Exchange::Connection(connection) = &entry.exchange else { return };
        if entry.indexed.is_none()
            && let Some((remote_id, _)) = connection.remote()
        {
            entry.indexed = Some(remote_id);
            self.by_remote_id.insert((peer, remote_id), id);
        }
        if entry.holds.is_none()
            && let Some(qpn) = connection.held_qpn()
        {
            entry.holds = Some(qpn);
            self.by_remote_qpn.insert((peer, qpn), id);
        }
    }

    fn forget_if_closed(&mut self, id: CommId) {
        if self.entries.get(&id).is_none_or(|entry| entry.exchange.state() != State::Closed) {
            return;
        }
        let Some(entry) = self.entries.remove(&id) else { return };
        if !entry.released {
            self.hold(id);
        }
        debug_assert!(entry.armed.is_none() && !entry.half_open && entry.waits_at.is_none());
        let peer = entry.exchange.peer();
        if let Some(remote_id) = entry.indexed {
            self.by_remote_id.remove(&(peer, remote_id));
        }
        if let Some(qpn) = entry.holds
            && self.by_remote_qpn.get(&(peer, qpn)) == Some(&id)
        {
            self.by_remote_qpn.remove(&(peer, qpn));
        }
        if let Exchange::Resolution(resolution) = &entry.exchange {
            let key = (peer, resolution.req().request_id);
            if self.questions.get(&key) == Some(&id) {
                self.questions.remove(&key);
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| at)
    }

    pub(crate) fn has_deadline(&self) -> bool {
        self.timers.first().is_some()
    }

    /// An exchange whose deadline has come.
    pub(crate) fn due(&self, now: Time) -> Option<CommId> {
        self.timers.first().filter(|(at, _)| *at <= now).map(|(_, id)| id)
    }

    /// The exchange, of a source that `of` names, whose answer has been unconfirmed for longest, since
    /// `before` at least.
    pub(crate) fn oldest_unconfirmed(
        &self,
        before: Time,
        of: impl Fn(IpAddr) -> bool,
    ) -> Option<CommId> {
        let mut old = self.unconfirmed.iter().take_while(|(since, _)| *since <= before);
        let peer = |id: &CommId| self.entries.get(id).map(|entry| entry.exchange.peer());
        old.find(|(_, id)| peer(id).is_some_and(&of)).map(|(_, id)| id)
    }

    /// An exchange goes before its time.
    pub(crate) fn make_room(&mut self, id: CommId, out: &mut Outbox) {
        if let Some(exchange) = self.exchange_mut(id) {
            exchange.make_room(out);
        }
        self.settle(id);
    }

    /// Answers are kept for repetitions of their question, but not any number of them.
    pub(crate) fn forget_oldest_answer(&mut self, out: &mut Outbox) {
        let too_many = self.answered.len() > MAX_ANSWERED;
        if let Some((_, id)) = self.answered.first().filter(|_| too_many) {
            self.make_room(id, out);
        }
    }

    /// The TIMEWAIT that would end first ends now, for a new exchange. False if there is none.
    pub(crate) fn end_first_timewait(&mut self, out: &mut Outbox) -> bool {
        let Some((_, id)) = self.timewait.first() else { return false };
        self.make_room(id, out);
        true
    }

    /// How many there are but for answers that are kept.
    pub(crate) fn connections(&self) -> usize {
        self.entries.len() - self.answered.len()
    }
}

/// Requests that the application has neither fetched nor decided on count against the backlog.
fn settle_waiting(entry: &mut Entry, listeners: &mut Listeners) {
    let waits = entry.exchange.state() == State::ReqReceived && !entry.fetched;
    match (waits, entry.waits_at) {
        (true, None) => entry.waits_at = listeners.begin_waiting(service_of(&entry.exchange)),
        (false, Some(listener)) => {
            listeners.end_waiting(listener);
            entry.waits_at = None;
        }
        _ => {}
    }
}

fn service_of(exchange: &Exchange) -> ServiceId {
    match exchange {
        Exchange::Connection(connection) => connection.req().service_id,
        Exchange::Resolution(resolution) => resolution.req().service_id,
    }
}
