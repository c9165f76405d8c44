//! How a tracker finds the two flows of a conversation.

use uroce_wire::{Psn, Qpn, Service};

use super::UnwrappedPsn;
use super::annotation::Role;
use super::connections::{Connection, Endpoint};
use super::flow::{Flow, FlowKey};
use super::flow_id::FlowId;
use super::message::Outcome;
use super::pairing::Pairing;
use super::tracker::Tracker;
use crate::Packet;

impl Tracker {
    /// The flow whose requests `packet` answers, if that is known or becomes clear with it.
    pub(super) fn peer_for_answer(
        &mut self,
        id: FlowId,
        packet: &Packet,
        role: Role,
    ) -> Option<FlowId> {
        if let Some(peer) = self.flows.get(id)?.peer {
            return Some(peer);
        }
        let (key, service) = (*self.flows.get(id)?.key(), self.flows.get(id)?.service());
        // Of those that an answer was not compared with, each may be the one that is meant.
        let (candidates, count) = self.flows.unpaired_against(&key)?;
        let mut claims = std::mem::take(&mut self.flows.get_mut(id)?.claims);
        claims.keep(|other| self.flows.get(other).is_some_and(|flow| flow.peer.is_none()));
        for candidate in candidates.into_iter().take(count) {
            let fits = self
                .flows
                .get_mut(candidate)
                .filter(|other| other.service() == service)
                .and_then(|other| other.requests.fits(packet, role));
            if let Some(fits) = fits {
                claims.note(candidate, fits);
            }
        }
        let winner = claims.winner();
        self.flows.get_mut(id)?.claims = claims;
        let winner = winner?;
        self.pair(id, winner, Pairing::AcknowledgedPsn);
        self.flows.get(id)?.peer
    }

    /// A datagram in `id` comes from the queue pair `source`.
    pub(super) fn pair_datagrams(&mut self, id: FlowId, source: Qpn) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let key = *flow.key();
        if flow.source_qpn() != Some(source) {
            flow.set_source_qpn(source);
        }
        if flow.peer.is_some() {
            return;
        }
        if let Some(other) = self.flows.find(&against(&key, source)) {
            self.pair(id, other, Pairing::SourceQueuePair);
        }
    }

    /// Gives a new flow what connection management has said of it.
    pub(super) fn apply_connection(&mut self, id: FlowId) {
        let Some(key) = self.flows.get(id).map(|flow| *flow.key()) else {
            return;
        };
        let end = Endpoint { address: key.destination, qpn: key.destination_qpn };
        let Some((connection, other)) = self.connections.of(end) else {
            return;
        };
        if other.address != key.source {
            return;
        }
        let connection = *connection;
        if let Some(flow) = self.flows.get_mut(id) {
            flow.learn(&connection, connection.passive == end);
        }
        if let Some(peer) = self.flows.find(&against(&key, other.qpn)) {
            self.pair(id, peer, Pairing::ConnectionManagement);
        }
    }

    /// Connection management has made a connection: flows between its ends begin anew.
    pub(super) fn apply_new_connection(&mut self, connection: &Connection) {
        let (active, passive) = (connection.active, connection.passive);
        let mut found = [None; 2];
        for (place, (from, to)) in found.iter_mut().zip([(active, passive), (passive, active)]) {
            let key =
                FlowKey { source: from.address, destination: to.address, destination_qpn: to.qpn };
            *place = self.flows.find(&key);
            if let Some(flow) = place.and_then(|id| self.flows.get_mut(id)) {
                flow.learn(connection, to == passive);
            }
            if let Some(id) = *place {
                self.collect(id);
            }
        }
        if let [Some(one), Some(other)] = found {
            self.pair(one, other, Pairing::ConnectionManagement);
        }
    }

    /// Pairs flows that have no other choice.
    pub(super) fn pair_by_addresses(&mut self) {
        for index in 0..self.flows.list().len() {
            let id = FlowId(index as u32);
            if let Some(other) = self.only_choice(id)
                && self.only_choice(other) == Some(id)
            {
                self.pair(id, other, Pairing::Addresses);
            }
        }
    }

    /// The only unpaired flow in the other direction.
    fn only_choice(&self, id: FlowId) -> Option<FlowId> {
        let flow = self.flows.get(id).filter(|flow| flow.peer.is_none() && is_connected(flow))?;
        let (candidates, count) = self.flows.unpaired_against(flow.key())?;
        let fits = |other: &&FlowId| {
            self.flows.get(**other).is_some_and(|other| other.service() == flow.service())
        };
        let mut fitting = candidates[..count].iter().filter(fits);
        let only = *fitting.next()?;
        (fitting.next().is_none() && only != id).then_some(only)
    }
}

fn is_connected(flow: &Flow) -> bool {
    matches!(flow.service(), Some(Service::Rc | Service::Uc | Service::Xrc))
}

/// The key of the flow that goes back to the queue pair `source`.
fn against(key: &FlowKey, source: Qpn) -> FlowKey {
    FlowKey { source: key.destination, destination: key.source, destination_qpn: source }
}

impl Flow {
    /// Connection management has told about this flow. `to_passive`: it goes to the end that was called.
    fn learn(&mut self, connection: &Connection, to_passive: bool) {
        let (first, source): (Psn, Qpn) = match to_passive {
            true => (connection.active_psn, connection.active.qpn),
            false => (connection.passive_psn, connection.passive.qpn),
        };
        self.set_source_qpn(source);
        if self.requests.is_started() {
            let now = self.figures.last_time.unwrap_or_default();
            self.requests.flush(now, Outcome::Flushed);
            self.requests.restart(first);
            self.figures.restarts += 1;
        } else {
            self.requests.start(UnwrappedPsn::first(first));
        }
        if let Some(mtu) = connection.path_mtu {
            self.requests.set_mtu(mtu);
        }
        self.requests.ack_timeout = connection.ack_timeout;
    }
}
