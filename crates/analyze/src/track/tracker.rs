//! The tracker: packets in, knowledge out.

use std::collections::VecDeque;

use uroce_wire::{Operation, Qpn, Service, SyndromeKind};

use super::annotation::{Annotation, Role};
use super::answers::role_of;
use super::connections::{Connection, Connections};
use super::figures::Figures;
use super::flow::{Flow, FlowKey};
use super::flow_id::FlowId;
use super::message::{Message, MessageId, Outcome, Verb};
use super::pairing::{Conversation, Pairing};
use super::summary::Summary;
use super::table::Flows;
use super::{TrackerConfig, UnwrappedPsn};
use crate::Packet;

/// Follows queue pairs through a capture.
///
/// One packet after the other goes in, in the order of the capture; each gets an [`Annotation`] that
/// says what is known at that moment. What a whole flow is like is in [`Tracker::flows`], messages
/// that are over come from [`Tracker::poll_message`].
#[derive(Debug)]
pub struct Tracker {
    config: TrackerConfig,
    pub(super) flows: Flows,
    pub(super) connections: Connections,
    pub(super) conversations: Vec<Conversation>,
    finished: VecDeque<Message>,
    pub(super) slot_budget: usize,
    pub(super) summary: Summary,
}

impl Tracker {
    /// A tracker that has seen nothing.
    pub fn new(config: TrackerConfig) -> Self {
        Self {
            config,
            flows: Flows::default(),
            connections: Connections::new(config.max_connections),
            conversations: Vec::new(),
            finished: VecDeque::with_capacity(config.max_finished_messages.min(4096)),
            slot_budget: config.max_psns_in_all,
            summary: Summary::default(),
        }
    }

    /// Takes in the next packet of the capture; `payload` is what was captured of its payload.
    pub fn handle_packet(&mut self, packet: &Packet, payload: &[u8]) -> Annotation {
        self.summary.packets += 1;
        self.summary.last_time = self.summary.last_time.max(Some(packet.time));
        let role = role(packet);
        if self.is_damaged(packet) {
            return self.handle_damaged(packet, role);
        }
        let Some(id) = self.flow_of(packet) else {
            self.summary.untracked_packets += 1;
            return Annotation::new(FlowId::UNTRACKED, UnwrappedPsn::first(packet.bth.psn), role);
        };
        let mut annotation = Annotation::new(id, UnwrappedPsn::first(packet.bth.psn), role);
        annotation.is_congestion_experienced = packet.is_congestion_experienced();
        if self.is_second_sighting(id, packet, role) {
            annotation.is_second_sighting = true;
            self.annotate_unfollowed(&mut annotation, packet);
            return annotation;
        }
        self.note_icrc(id, packet.icrc);
        if let Some(flow) = self.flows.get_mut(id) {
            flow.figures.note_packet(packet);
        }
        match role {
            Role::Request => self.handle_request(packet, &mut annotation),
            Role::Datagram | Role::Management => {
                self.handle_datagram(packet, payload, &mut annotation)
            }
            Role::CongestionNotification => self.count(id, |figures| figures.cnps += 1),
            Role::Unknown => {}
            _ if !self.handle_answer(packet, &mut annotation) => return annotation,
            _ => {}
        }
        annotation.peer = self.flows.get(id).and_then(Flow::peer);
        annotation
    }

    /// All flows in the order in which they were first seen.
    pub fn flows(&self) -> &[Flow] {
        self.flows.list()
    }

    /// The flow `id`; `None` for [`FlowId::UNTRACKED`].
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(id)
    }

    /// Flows that are the two directions of one conversation, in the order in which that was found.
    pub fn conversations(&self) -> &[Conversation] {
        &self.conversations
    }

    /// Connections that connection management made in the capture.
    pub fn connections(&self) -> &[Connection] {
        self.connections.list()
    }

    /// The next message that is no longer under way, the oldest first. For all of them, call it
    /// after each packet until there is none.
    pub fn poll_message(&mut self) -> Option<Message> {
        self.finished.pop_front()
    }

    /// What was seen so far, and what was left out.
    pub fn summary(&self) -> Summary {
        Summary { missed_exchanges: self.connections.lost, ..self.summary }
    }

    /// The capture has ended: closes what is under way, judges what is still open, and pairs flows for
    /// which there is only one choice.
    pub fn finish(&mut self) -> Summary {
        let end = self.summary.last_time.unwrap_or_default();
        self.pair_best();
        for index in 0..self.flows.list().len() {
            let id = FlowId(index as u32);
            if let Some(flow) = self.flows.get_mut(id) {
                flow.finish(end);
            }
            self.collect(id);
        }
        self.note_undecided();
        self.pair_by_addresses();
        self.summary()
    }

    fn flow_of(&mut self, packet: &Packet) -> Option<FlowId> {
        let key = FlowKey::of(packet);
        let known = self.flows.find(&key);
        let id = match known {
            Some(id) => id,
            None => self.add_flow(key)?,
        };
        let flow = self.flows.get_mut(id)?;
        if let Some(info) = packet.opcode_info {
            flow.note_service(info.service);
        }
        Some(id)
    }

    #[cold]
    fn add_flow(&mut self, key: FlowKey) -> Option<FlowId> {
        let id = self.flows.add(key, self.config.max_flows, self.config.slowest_messages)?;
        let flow = self.flows.get_mut(id)?;
        if let Some(mtu) = self.config.path_mtu {
            flow.requests.set_mtu(mtu);
        }
        self.apply_connection(id);
        Some(id)
    }

    fn handle_request(&mut self, packet: &Packet, annotation: &mut Annotation) {
        let (id, config) = (annotation.flow, self.config);
        let verb = packet.opcode_info.and_then(Verb::of);
        let (Some(flow), Some(verb)) = (self.flows.get_mut(id), verb) else {
            return;
        };
        if flow.requests.is_restart(packet) {
            flow.requests.flush(packet.time, Outcome::Flushed);
            flow.requests.restart(packet.bth.psn);
            flow.figures.restarts += 1;
            self.part_for_restart(id);
        }
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let Flow { requests, figures, .. } = flow;
        let verdict = requests.handle(packet, verb, &config, figures, &mut self.slot_budget);
        figures.requests += 1;
        if requests.messages.len() > config.max_open_messages {
            requests.close_oldest(packet.time);
            self.summary.crowded_messages += 1;
        }
        let outstanding = requests.outstanding();
        figures.note_outstanding(outstanding);
        annotation.psn = verdict.psn;
        annotation.message = verdict.message.map(|number| MessageId { flow: id, number });
        annotation.retransmission = verdict.retransmission;
        annotation.is_duplicate = verdict.is_duplicate;
        annotation.is_reordered = verdict.is_reordered;
        annotation.gap_before = verdict.gap;
        annotation.rnr_wait = verdict.rnr_wait;
        annotation.completed = verdict.completed;
        annotation.outstanding = outstanding;
        self.collect(id);
    }

    /// False if it is not known which requests it answers.
    fn handle_answer(&mut self, packet: &Packet, annotation: &mut Annotation) -> bool {
        let (id, role) = (annotation.flow, annotation.role);
        self.count(id, |figures| figures.note_answer(packet, role));
        if let (Some(flow), Some(aeth)) = (self.flows.get_mut(id), packet.aeth) {
            flow.note_msn(aeth.msn);
        }
        let Some(peer) = self.peer_for_answer(id, packet, role) else {
            return false;
        };
        let Some(Flow { requests, figures, .. }) = self.flows.get_mut(peer) else {
            return false;
        };
        let verdict = requests.handle_answer(packet, role, figures);
        annotation.outstanding = requests.outstanding();
        annotation.psn = verdict.psn;
        annotation.message = verdict.message.map(|number| MessageId { flow: peer, number });
        annotation.acknowledges = (!verdict.is_unsolicited).then_some(verdict.acknowledged);
        annotation.round_trip = verdict.round_trip;
        annotation.gap_before = verdict.gap;
        annotation.missing = verdict.missing;
        annotation.rnr_wait = verdict.rnr_wait;
        annotation.is_duplicate = verdict.is_repeated;
        annotation.is_unsolicited = verdict.is_unsolicited;
        self.note_agreement(id, !verdict.is_unsolicited);
        self.count(id, |figures| figures.note_answer_verdict(packet, role, annotation));
        self.collect(peer);
        true
    }

    fn handle_datagram(&mut self, packet: &Packet, payload: &[u8], annotation: &mut Annotation) {
        let id = annotation.flow;
        if let Some(deth) = packet.deth {
            self.pair_datagrams(id, deth.src_qpn);
        }
        if annotation.role == Role::Management
            && let Some(connection) =
                self.connections.handle(packet.source_ip(), packet.destination_ip(), payload)
        {
            self.apply_new_connection(&connection);
        }
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let message = flow.take_datagram(packet);
        annotation.psn = message.first_psn;
        annotation.message = Some(message.id);
        self.hand_out(message);
    }

    /// Takes over what the requests of `id` have finished.
    pub(super) fn collect(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id).filter(|flow| !flow.requests.done.is_empty())
        else {
            return;
        };
        let mut done = std::mem::take(&mut flow.requests.done);
        for mut message in done.drain(..) {
            message.id.flow = id;
            if let Some(flow) = self.flows.get_mut(id) {
                flow.note_message(&message);
            }
            self.hand_out(message);
        }
        if let Some(flow) = self.flows.get_mut(id) {
            flow.requests.done = done;
        }
    }

    fn hand_out(&mut self, message: Message) {
        if self.finished.len() >= self.config.max_finished_messages {
            self.finished.pop_front();
            self.summary.missed_messages += 1;
        }
        if self.config.max_finished_messages > 0 {
            self.finished.push_back(message);
        }
    }

    fn count(&mut self, id: FlowId, change: impl FnOnce(&mut Figures)) {
        if let Some(flow) = self.flows.get_mut(id) {
            change(&mut flow.figures);
        }
    }

    /// Two flows are one conversation.
    pub(super) fn pair(&mut self, one: FlowId, other: FlowId, paired_by: Pairing) {
        if paired_by == Pairing::ConnectionManagement && self.peer_of(one) != Some(other) {
            // The connections that they had before are over.
            [one, other].into_iter().for_each(|id| self.part(id));
        }
        let is_free = |id| self.flows.get(id).is_some_and(|flow| flow.peer.is_none());
        if !is_free(one) || (!is_free(other) && one != other) {
            return;
        }
        let flows = if one < other { [one, other] } else { [other, one] };
        let number = self.number_of_conversation(one, flows, paired_by);
        for (id, peer) in [(one, other), (other, one)] {
            let qpn = self.flows.get(peer).map(|flow| flow.key().destination_qpn);
            if let Some(flow) = self.flows.get_mut(id) {
                flow.set_peer(peer, number, qpn);
            }
        }
    }

    /// The number of the conversation that `one` is part of: the same as before if nothing has changed.
    fn number_of_conversation(
        &mut self,
        one: FlowId,
        flows: [FlowId; 2],
        paired_by: Pairing,
    ) -> usize {
        if let Some(number) = self.flows.get(one).and_then(Flow::conversation)
            && let Some(before) = self.conversations.get_mut(number)
            && before.flows == flows
        {
            before.paired_by = paired_by;
            return number;
        }
        self.conversations.push(Conversation { flows, paired_by, agreeing: 0, contradicting: 0 });
        self.conversations.len() - 1
    }

    fn peer_of(&self, id: FlowId) -> Option<FlowId> {
        self.flows.get(id).and_then(Flow::peer)
    }

    /// `id` and its peer are no conversation any more.
    pub(super) fn part(&mut self, id: FlowId) {
        for id in [self.peer_of(id), Some(id)].into_iter().flatten() {
            if let Some(flow) = self.flows.get_mut(id) {
                flow.forget_peer();
            }
        }
    }

    pub(super) fn note_agreement(&mut self, id: FlowId, agrees: bool) {
        let number = self.flows.get(id).and_then(Flow::conversation);
        if let Some(conversation) = number.and_then(|number| self.conversations.get_mut(number)) {
            conversation.agreeing += u64::from(agrees);
            conversation.contradicting += u64::from(!agrees);
        }
    }
}

/// What a packet is, by its opcode and its acknowledgement header.
pub(super) fn role(packet: &Packet) -> Role {
    let Some(info) = packet.opcode_info else {
        return Role::Unknown;
    };
    match (info.service, info.operation) {
        (Service::Cnp, _) => Role::CongestionNotification,
        (Service::Ud, _) if packet.bth.dest_qpn == Qpn::new(1) => Role::Management,
        (Service::Ud, _) => Role::Datagram,
        (_, Operation::Acknowledge) => role_of(packet),
        (_, Operation::ReadResponse | Operation::AtomicAcknowledge) => match packet.aeth {
            Some(aeth) if !matches!(aeth.syndrome.kind(), SyndromeKind::Ack { .. }) => {
                role_of(packet)
            }
            _ => Role::Response,
        },
        _ => Role::Request,
    }
}
