//! How a tracker finds the two flows of a conversation.

use uroce_wire::{Psn, Qpn, Service};

use super::UnwrappedPsn;
use super::annotation::{Annotation, Role};
use super::connections::{Connection, Endpoint};
use super::flow::{Flow, FlowKey};
use super::flow_id::FlowId;
use super::message::Outcome;
use super::pairing::{AnswerFit, Claims, Conversation, MAX_CANDIDATES, Pairing};
use super::tracker::{Tracker, role};
use super::unanswered::Unanswered;
use crate::Packet;

impl Tracker {
    /// The flow whose requests `packet` answers, if that is known or becomes clear with it.
    pub(super) fn peer_for_answer(
        &mut self,
        id: FlowId,
        packet: &Packet,
        role: Role,
    ) -> Option<FlowId> {
        if let Some(peer) = self.flows.get(id)?.peer
            && self.is_guessed(id)
        {
            match self.flows.get(peer)?.requests.doubts(packet, role) {
                None => self.flows.get_mut(id)?.claims.agree(),
                Some(fit) if self.is_of_another(id, peer, packet, role, fit) => {
                    self.flows.get_mut(id)?.claims.wait(packet);
                    return None;
                }
                Some(_) => {}
            }
        }
        match self.flows.get(id)?.peer {
            Some(peer) => Some(peer),
            None => self.find_peer(id, packet, role),
        }
    }

    fn find_peer(&mut self, id: FlowId, packet: &Packet, role: Role) -> Option<FlowId> {
        let mut claims = std::mem::take(&mut self.flows.get_mut(id)?.claims);
        self.compare(id, packet, role, &mut claims);
        let winner = claims.winner();
        if winner.is_none() {
            claims.wait(packet);
        }
        self.flows.get_mut(id)?.claims = claims;
        self.pair_by_answers(id, winner?)
    }

    /// The answers in `id` are taken for those to the requests of `other`.
    fn pair_by_answers(&mut self, id: FlowId, other: FlowId) -> Option<FlowId> {
        self.pair(id, other, Pairing::AcknowledgedPsn);
        let peer = self.flows.get(id)?.peer?;
        let waiting = self.flows.get_mut(id)?.claims.decide();
        if waiting.is_overfull
            && let Some(flow) = self.flows.get_mut(peer)
        {
            flow.requests.unanswered = Unanswered::since(flow.requests.next);
        }
        for answer in &waiting.answers {
            self.take_waiting(id, peer, answer);
        }
        Some(peer)
    }

    /// Whether an answer that does not go on with the requests of `peer` is none of its answers. If other ones do
    /// not go on with them either, the two flows are no conversation.
    #[cold]
    fn is_of_another(
        &mut self,
        id: FlowId,
        peer: FlowId,
        packet: &Packet,
        role: Role,
        fit: AnswerFit,
    ) -> bool {
        if !self.may_part(id, peer) {
            return false;
        }
        let is_proven = self.conversation_of(id).is_some_and(Conversation::is_proven);
        let (others, fits_other) = self.others(id, peer, packet, role);
        if !fits_other && (others == 0 || fit != AnswerFit::Impossible) {
            return false;
        }
        let Some(flow) = self.flows.get_mut(id) else {
            return false;
        };
        if !flow.claims.contradict() {
            return fits_other;
        }
        self.part(id);
        for (flow, other) in [(id, peer), (peer, id)] {
            if let Some(flow) = self.flows.get_mut(flow) {
                flow.claims.leave(other, !is_proven);
                flow.requests.forget_answers();
            }
        }
        false
    }

    /// The requests of `id` begin anew without connection management: perhaps with another queue pair.
    pub(super) fn part_for_restart(&mut self, id: FlowId) {
        let Some(peer) = self.flows.get(id).and_then(Flow::peer) else {
            return;
        };
        if !self.is_guessed(id) || !self.may_part(id, peer) {
            return;
        }
        self.part(id);
        for id in [id, peer] {
            if let Some(flow) = self.flows.get_mut(id) {
                flow.claims.decide();
            }
        }
    }

    fn conversation_of(&self, id: FlowId) -> Option<&Conversation> {
        self.conversations.get(self.flows.get(id)?.conversation()?)
    }

    /// Nothing but answers tells that `id` and its peer are a conversation.
    fn is_guessed(&self, id: FlowId) -> bool {
        let is_guess = |pair: &Conversation| pair.paired_by == Pairing::AcknowledgedPsn;
        self.conversation_of(id).is_some_and(is_guess)
    }

    fn may_part(&self, id: FlowId, peer: FlowId) -> bool {
        [id, peer].into_iter().all(|id| self.flows.get(id).is_some_and(Flow::may_part))
    }

    /// Flows but `peer` that the answers in `id` may belong to, and whether this one belongs to one of them that has
    /// no peer. Of very many, each answer looks at a part.
    fn others(&self, id: FlowId, peer: FlowId, packet: &Packet, role: Role) -> (usize, bool) {
        let Some(flow) = self.flows.get(id) else {
            return (0, false);
        };
        let all = self.flows.against(flow.key());
        let first = packet.frame as usize % all.len().max(1);
        let others = all.iter().cycle().skip(first).take(all.len().min(MAX_CANDIDATES));
        let others = others.filter_map(|other| self.flows.get(*other)).filter(|other| {
            other.id() != peer && other.service() == flow.service() && other.requests.is_started()
        });
        let belongs = |other: &Flow| {
            let fit = other.requests.fits(packet, role);
            other.peer.is_none() && fit == Some(AnswerFit::Belongs)
        };
        others.fold((0, false), |(count, fits), other| (count + 1, fits || belongs(other)))
    }

    /// An answer that came before it was known whose it is.
    fn take_waiting(&mut self, id: FlowId, peer: FlowId, packet: &Packet) {
        let role = role(packet);
        let Some(Flow { requests, figures, .. }) = self.flows.get_mut(peer) else {
            return;
        };
        if requests.fits(packet, role) != Some(AnswerFit::Belongs) {
            return;
        }
        let verdict = requests.handle_answer(packet, role, figures);
        self.note_agreement(id, !verdict.is_unsolicited);
        let mut annotation = Annotation::new(id, verdict.psn, role);
        annotation.is_duplicate = verdict.is_repeated;
        annotation.is_unsolicited = verdict.is_unsolicited;
        if let Some(flow) = self.flows.get_mut(id) {
            flow.figures.note_answer_verdict(packet, role, &annotation);
        }
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
            if let Some(fit) = fits(other) {
                claims.note(other, fit);
            }
        }
    }

    /// The capture has ended: answers of which nobody knows whose they are belong to the flow that they fit best.
    pub(super) fn pair_best(&mut self) {
        for index in 0..self.flows.list().len() {
            let id = FlowId(index as u32);
            let free = self.flows.get(id).filter(|flow| flow.peer.is_none());
            let best = free.and_then(|flow| flow.claims.best());
            let peer = best.and_then(|best| self.pair_by_answers(id, best));
            if let Some(flow) = peer.and_then(|peer| self.flows.get_mut(peer)) {
                flow.is_undecided = true;
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
            if flow.peer.is_some() || flow.claims.is_empty() {
                continue;
            }
            let (key, claims) = (*flow.key(), std::mem::take(&mut flow.claims));
            for at in 0..self.flows.against(&key).len() {
                let other = self.flows.against(&key).get(at).copied();
                if let Some(flow) = other.and_then(|other| self.flows.get_mut(other)) {
                    flow.is_undecided |= flow.peer.is_none() && claims.may_be(flow.id());
                }
            }
            if let Some(flow) = self.flows.get_mut(FlowId(index as u32)) {
                flow.claims = claims;
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
