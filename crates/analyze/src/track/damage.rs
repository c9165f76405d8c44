//! Packets whose ICRC is wrong.
//!
//! Where some packets from one address to another have a right ICRC, a wrong one is damage: nothing
//! in the packet is believed, not even the queue pair that it names. Where none is right, the capture
//! was made before the ICRC is written or behind something that rewrote the packets, and all are
//! believed.

use super::annotation::{Annotation, Role};
use super::flow::{Flow, FlowKey};
use super::flow_id::FlowId;
use super::tracker::Tracker;
use super::{Figures, UnwrappedPsn};
use crate::{IcrcStatus, Packet};

/// So many wrong ICRCs in front of the first right one are damage; more of them are another way of
/// capturing, which ended.
const FIRST_DAMAGED: u64 = 2;

impl Tracker {
    /// The packet is damaged.
    pub(super) fn is_damaged(&self, packet: &Packet) -> bool {
        matches!(packet.icrc, IcrcStatus::Wrong { .. })
            && self.flows.has_right_icrc(packet.source_ip(), packet.destination_ip())
    }

    /// Counts a damaged packet, for the flow that it names if there is one.
    #[cold]
    pub(super) fn handle_damaged(&mut self, packet: &Packet, role: Role) -> Annotation {
        self.summary.damaged_packets += 1;
        let id = self.flows.find(&FlowKey::of(packet)).unwrap_or(FlowId::UNTRACKED);
        let mut annotation = Annotation::new(id, UnwrappedPsn::first(packet.bth.psn), role);
        annotation.is_damaged = true;
        if let Some(flow) = self.flows.get_mut(id) {
            flow.figures.note_damaged(packet);
            if role == Role::Request {
                flow.requests.damaged.note(packet);
            }
        }
        self.annotate_unfollowed(&mut annotation, packet);
        annotation
    }

    /// A packet of `id` is not damaged, as far as is known.
    #[inline]
    pub(super) fn note_icrc(&mut self, id: FlowId, status: IcrcStatus) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        if !flow.has_right_icrc && flow.icrc_proof.is_given_by(status) {
            self.note_first_right_icrc(id);
        }
    }

    #[cold]
    fn note_first_right_icrc(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        flow.has_right_icrc = true;
        if flow.has_only_damaged() {
            flow.forget_damaged();
        }
        let key = *flow.key();
        self.flows.note_right_icrc(key.source, key.destination);
    }
}

impl Flow {
    /// There were wrong ICRCs and nothing else, and few of them.
    fn has_only_damaged(&self) -> bool {
        let Figures { packets, icrc_errors, .. } = self.figures;
        packets == icrc_errors && (1..=FIRST_DAMAGED).contains(&icrc_errors)
    }

    /// What the packets so far said is not believed any more.
    fn forget_damaged(&mut self) {
        let Figures { packets, wire_bytes, icrc_errors, .. } = self.figures;
        self.figures = Figures {
            packets,
            wire_bytes,
            icrc_errors,
            damaged: icrc_errors,
            ..Figures::default()
        };
        self.requests.forget();
        self.claims = Default::default();
    }
}
