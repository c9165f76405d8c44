//! Captures of both ends: each packet is there twice.

use super::FlowId;
use super::annotation::{Annotation, Role};
use super::tracker::Tracker;
use crate::{Direction, Packet};

impl Tracker {
    /// A capture of both ends has each packet twice. Requests count where they leave, answers where
    /// they arrive: that is what their requester knows.
    pub(super) fn is_second_sighting(&mut self, id: FlowId, packet: &Packet, role: Role) -> bool {
        let Some(flow) = self.flows.get_mut(id) else {
            return false;
        };
        flow.note_direction(packet.direction);
        let is_answer = !matches!(role, Role::Request | Role::Datagram | Role::Management);
        let is_second = match packet.direction {
            Some(Direction::Inbound) if is_answer => flow.is_second_answer(packet),
            Some(Direction::Inbound) => flow.is_seen_twice(),
            Some(Direction::Outbound) if is_answer => {
                flow.is_seen_twice() || flow.note_answer_that_left(packet)
            }
            _ => false,
        };
        flow.figures.second_sightings += u64::from(is_second);
        is_second
    }

    /// What can be said of a packet that is not followed: where it would belong.
    pub(super) fn annotate_unfollowed(&self, annotation: &mut Annotation, packet: &Packet) {
        let Some(flow) = self.flows.get(annotation.flow) else {
            return;
        };
        annotation.peer = flow.peer();
        let requests = match annotation.role {
            Role::Request => Some(&flow.requests),
            _ => flow.peer().and_then(|peer| self.flows.get(peer)).map(|peer| &peer.requests),
        };
        if let Some(requests) = requests.filter(|requests| requests.is_started()) {
            annotation.psn = requests.next.nearest(packet.bth.psn);
        }
    }
}
