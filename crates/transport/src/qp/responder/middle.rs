//! The short way of a responder through a long message.
//!
//! A middle packet of the message in progress, of the one length it can have, needs one check of the
//! memory and one copy. Whatever else it is, or when the check fails, nothing has changed and the long
//! way, `run_request`, decides.

use uroce_memory::{Access, MemTable, MrSlice};
use uroce_wire::{Operation, Packet};

use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::qp::responder::Responder;

use super::Message;

impl Responder {
    /// Executes the request with the expected PSN if it is such a packet.
    pub(super) fn run_middle(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(message) = self.message else {
            return false;
        };
        let data = packet.payload();
        let regular = message.contains(packet)
            && packet.bth.pad == 0
            && data.len() == config.attr.path_mtu.bytes();
        if !regular || !self.place_middle(config, &message, data, cx) {
            return false;
        }
        self.pass_middle(data.len(), packet.bth.psn.add(1));
        true
    }

    /// Copies the payload to its place; false, with nothing written, if that is not allowed.
    fn place_middle(
        &self,
        config: &QpConfig,
        message: &Message,
        data: &[u8],
        cx: &mut Context<'_>,
    ) -> bool {
        let length = data.len() as u64;
        match message.operation {
            Operation::Write => {
                let place = self.place_in_write(config, message, length, cx.mem);
                place.is_some_and(|place| place.copy_in(0, data).is_ok())
            }
            Operation::Send => {
                let recv = &self.recv;
                message.done + length <= recv.length
                    && cx
                        .mem
                        .scatter(self.recv_pd(config, cx), &recv.sges, message.done, data)
                        .is_ok()
            }
            _ => false,
        }
    }

    /// Where the next `length` bytes of a WRITE go, of which they are not the last; `None` if that is not
    /// allowed.
    #[inline]
    pub(super) fn place_in_write<'m>(
        &self,
        config: &QpConfig,
        message: &Message,
        length: u64,
        mem: &'m MemTable,
    ) -> Option<MrSlice<'m>> {
        let (need, va) = (Access::REMOTE_WRITE, message.va.wrapping_add(message.done));
        if message.done + length >= message.length || !config.attr.access.contains(need) {
            return None;
        }
        mem.check(message.rkey, self.requirer(config), need, va, length).ok()
    }
}
