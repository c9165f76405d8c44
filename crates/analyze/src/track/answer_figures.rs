//! What answers add to the figures of the flow that they travel in.

use uroce_wire::{SyndromeKind, credit_count};

use super::annotation::{Annotation, Outstanding, Role};
use super::figures::Figures;
use crate::Packet;

impl Figures {
    /// Counts an answer in the flow that it travels in.
    pub(super) fn note_answer(&mut self, packet: &Packet, role: Role) {
        match role {
            Role::Response => self.responses += 1,
            Role::Acknowledgement => self.acks += 1,
            Role::RnrNak => self.rnr_naks += 1,
            Role::Nak(code) => self.note_nak(code as usize),
            Role::ReservedNak(_) => self.note_nak(5),
            _ => {}
        }
        if let Some(SyndromeKind::Ack { credits }) = packet.aeth.map(|aeth| aeth.syndrome.kind())
            && let Some(credits) = credit_count(credits)
        {
            self.credits_min = Some(self.credits_min.map_or(credits, |least| least.min(credits)));
            self.credits_max = self.credits_max.max(Some(credits));
        }
    }

    fn note_nak(&mut self, code: usize) {
        self.nak_total += 1;
        if let Some(count) = self.naks.get_mut(code) {
            *count += 1;
        }
    }

    pub(super) fn note_answer_verdict(
        &mut self,
        packet: &Packet,
        role: Role,
        annotation: &Annotation,
    ) {
        self.unsolicited += u64::from(annotation.is_unsolicited);
        match role {
            Role::Response if annotation.is_duplicate => self.repeated_responses += 1,
            Role::Response => {
                self.goodput_bytes += u64::from(packet.payload_len);
                self.response_goodput_bytes += u64::from(packet.payload_len);
            }
            Role::Acknowledgement => self.repeated_acks += u64::from(annotation.is_duplicate),
            _ => {}
        }
    }

    pub(super) fn note_outstanding(&mut self, outstanding: Outstanding) {
        self.max_outstanding_bytes = self.max_outstanding_bytes.max(outstanding.bytes);
        self.max_outstanding_packets = self.max_outstanding_packets.max(outstanding.packets);
        self.max_outstanding_reads = self.max_outstanding_reads.max(outstanding.reads);
    }
}
