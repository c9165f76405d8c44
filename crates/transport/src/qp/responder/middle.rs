//! The short way of a responder through a long message.
//!
//! A middle packet of the message in progress, of the one length it can have, needs one check of the
//! memory and one copy. Whatever else it is, or when the check fails, nothing has changed and the long
//! way, `run_request`, decides.

use uroce_memory::Access;
use uroce_wire::{Operation, Packet, Position};

use crate::context::Context;
use crate::qp::QueuePair;

use super::Message;

impl QueuePair {
    /// Executes the request with the expected PSN if it is such a packet.
    pub(super) fn run_middle(&mut self, packet: &Packet<'_>, cx: &mut Context<'_>) -> bool {
        let Some(message) = self.responder.message else {
            return false;
        };
        let data = packet.payload();
        let regular = packet.info.position == Position::Middle
            && packet.info.operation == message.operation
            && packet.bth.pad == 0
            && data.len() == self.attr.path_mtu.bytes();
        if !regular || !self.place_middle(&message, data, cx) {
            return false;
        }
        let done = message.done + data.len() as u64;
        self.responder.message = Some(Message { done, ..message });
        self.responder.expected = packet.bth.psn.add(1);
        true
    }

    /// Copies the payload to its place; false, with nothing written, if that is not allowed.
    fn place_middle(&self, message: &Message, data: &[u8], cx: &mut Context<'_>) -> bool {
        let done = message.done + data.len() as u64;
        match message.operation {
            Operation::Write => {
                let (by, va) = (self.requirer(), message.va.wrapping_add(message.done));
                let need = Access::REMOTE_WRITE;
                let slice = cx.mem.check(message.rkey, by, need, va, data.len() as u64);
                done < message.length
                    && self.attr.access.contains(need)
                    && slice.is_ok_and(|slice| slice.copy_in(0, data).is_ok())
            }
            Operation::Send => {
                let recv = &self.responder.recv;
                done <= recv.length
                    && cx.mem.scatter(self.recv_pd(cx), &recv.sges, message.done, data).is_ok()
            }
            _ => false,
        }
    }
}
