//! How a tracker finds the two flows of a conversation.

use uroce_wire::{Psn, Qpn, Service};

use super::UnwrappedPsn;
use super::annotation::Role;
use super::connections::{Connection, Endpoint};
use super::flow::{Flow, FlowKey};
use super::flow_id::FlowId;
use super::message::Outcome;
use super::pairing::{Claims, Pairing};
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
        let mut claims = std::mem::take(&mut self.flows.get_mut(id)?.claims);
        self.compare(id, packet, role, &mut claims);
        let winner = claims.winner();
        self.flows.get_mut(id)?.claims = claims;
        let winner = winner?;
        self.pair(id, winner, Pairing::AcknowledgedPsn);
        self.flows.get(id)?.peer
    }

    /// Notes in `claims` which flows without a peer an answer in `id` fits.
    fn compare(&self, id: FlowId, packet: &Packet, role: Role, claims: &mut Claims) {
        let Some(flow) = self.flows.get(id) else {
            return;
        };
        let free = |other: FlowId| self.flows.get(other).filter(|flow| flow.peer.is_none());
        let fits = |other: FlowId| {
            let other = free(other).filter(|other| other.service() == flow.service())?;
            other.requests.fits(packet, role)
        };
        claims.keep(|other| free(other).is_some());
        let all = self.flows.against(flow.key());
        if !claims.takes_all(all.len()) {
            return claims.note_again(fits);
        }
        for other in all.iter().copied() {
            if let Some(fits) = fits(other) {
                claims.note(other, fits);
            }
        }
    }

    /// The capture has ended: flows that answers may belong to of which the requests were not found are not known
    /// to be without an answer.
    pub(super) fn note_undecided(&mut self) {
        for index in 0..self.flows.list().len() {
            let Some(flow) = self.flows.get_mut(FlowId(index as u32)) else {
                return;
            };
            let (key, claims) = (*flow.key(), std::mem::take(&mut flow.claims));
            if flow.peer.is_some() || claims.is_empty() {
                continue;
            }
            for at in 0..self.flows.against(&key).len() {
                let other = self.flows.against(&key).get(at).copied();
                if let Some(flow) = other.and_then(|other| self.flows.get_mut(other)) {
                    flow.is_undecided |= flow.peer.is_none() && claims.may_be(flow.id());
                }
            }
        }
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
        let fits = |other: &&FlowId| {
            let free = self.flows.get(**other).filter(|other| other.peer.is_none());
            free.is_some_and(|other| other.service() == flow.service())
        };
        let mut fitting = self.flows.against(flow.key()).iter().filter(fits);
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
