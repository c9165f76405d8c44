//! How many PSNs a READ takes, while the path MTU is not known.

use uroce_wire::{Mtu, Operation};

use super::UnwrappedPsn;
use super::message::{OpenMessage, Verb};
use super::open_messages::OpenMessages;
use super::requests::Requests;
use crate::Packet;

impl Requests {
    /// Learns the path MTU from a packet that is not the last of its message: it is full (R24, R48).
    pub(super) fn learn_mtu(&mut self, packet: &Packet) {
        if self.mtu.is_some() || packet.opcode_info.is_none_or(|info| info.ends()) {
            return;
        }
        if Mtu::ALL.iter().any(|mtu| mtu.bytes() as u32 == packet.payload_len) {
            self.set_mtu(packet.payload_len);
        }
    }

    /// The path MTU is `mtu` bytes: the end of all READs under way is known.
    pub(super) fn set_mtu(&mut self, mtu: u32) {
        self.mtu = Some(mtu);
        if let Some(end) = self.messages.learn_spans(mtu) {
            self.next = self.next.max(end.plus(1));
        }
    }

    /// A new request at `psn` behind a READ tells how many PSNs the READ has, if a path MTU fits.
    pub(super) fn learn_span_of_read(&mut self, psn: UnwrappedPsn) {
        let Some((index, first, bytes)) = self.messages.newest_unmeasured_read() else {
            return;
        };
        if bytes == 0 {
            // Its length is not known, and so not what the network may have lost behind it.
            self.next = psn;
            return self.messages.end_at(index, UnwrappedPsn(psn.0 - 1));
        }
        if self.mtu.is_some() {
            return;
        }
        let packets = psn.since(first);
        if packets == 1 && bytes <= Mtu::M4096.bytes() as u64 {
            return self.messages.end_at(index, first);
        }
        let fits = |mtu: &Mtu| bytes.div_ceil(mtu.bytes() as u64) == packets;
        if let Some(mtu) = Mtu::ALL.into_iter().find(fits) {
            self.set_mtu(mtu.bytes() as u32);
        }
    }
}

impl OpenMessages {
    /// Index, first PSN and bytes of the newest message, if it is a READ whose end is not known.
    fn newest_unmeasured_read(&mut self) -> Option<(usize, UnwrappedPsn, u64)> {
        let newest = self.len().checked_sub(1)?;
        let is_open =
            |message: &&mut OpenMessage| message.verb == Verb::Read && message.last_psn.is_none();
        let message = self.get_mut(newest).filter(is_open)?;
        Some((newest, message.first_psn, message.bytes))
    }

    fn end_at(&mut self, index: usize, last: UnwrappedPsn) {
        if let Some(message) = self.get_mut(index) {
            message.last_psn = Some(last);
        }
    }

    /// Sets the last PSN of all READs; gives that of the newest one.
    fn learn_spans(&mut self, mtu: u32) -> Option<UnwrappedPsn> {
        let mut newest = None;
        for index in 0..self.len() {
            let is_measured =
                |it: &&mut OpenMessage| it.verb == Verb::Read && !it.is_length_unknown();
            if let Some(message) = self.get_mut(index).filter(is_measured) {
                let span = message.bytes.div_ceil(u64::from(mtu)).max(1);
                message.last_psn = Some(message.first_psn.plus(span - 1));
                newest = message.last_psn;
            }
        }
        newest
    }

    /// Index and copy of the message that a response with `psn` answers.
    pub(super) fn find_for_response(
        &self,
        psn: UnwrappedPsn,
        info: &Option<&'static uroce_wire::OpcodeInfo>,
    ) -> Option<(usize, OpenMessage)> {
        let is_atomic = info.is_some_and(|info| info.operation == Operation::AtomicAcknowledge);
        let index = self.find(psn)?;
        let message = *self.get(index)?;
        if psn.since(message.first_psn) >= message.largest_span() {
            return None;
        }
        let is_one = matches!(message.verb, Verb::CompareSwap | Verb::FetchAdd);
        (message.verb.needs_response() && is_one == is_atomic).then_some((index, message))
    }
}
