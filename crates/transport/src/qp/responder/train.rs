//! Requests that arrived behind each other in one buffer: the middle of a long message, or small messages in a row.
//!
//! There is one look at the queue pair and, for a long message, one check of its memory. What each packet does is what it does
//! on the fast path (`r19_a_train_does_what_its_packets_do`); whatever is not usual is left to come singly.

use uroce_wire::{Opcode, Packet, Psn, Syndrome};

use super::Responder;
use super::fast_path::{place_of_next, write_small};
use super::responses::Response;
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::time::Instant;

impl Responder {
    /// Executes requests with the expected PSNs that arrived behind each other, up to `most`. Returns how many; what is not usual
    /// has changed nothing.
    pub(crate) fn take_train<'p>(
        &mut self,
        config: &QpConfig,
        now: Instant,
        first: &Packet<'_>,
        most: u32,
        next: impl FnMut(Psn) -> Option<Packet<'p>>,
        cx: &mut Context<'_>,
    ) -> u32 {
        let length = first.payload().len();
        match &self.message {
            _ if !self.is_usual_in_order(config, first, length) => 0,
            Some(message) if message.contains(first) && length == config.attr.path_mtu.bytes() => {
                self.take_middle_train(config, most, next, cx)
            }
            None if first.bth.opcode == Opcode::RC_SEND_ONLY => {
                self.take_send_train(config, first, most, next, cx)
            }
            None if first.bth.opcode == Opcode::RC_WRITE_ONLY => {
                self.take_write_train(config, now, most, next, cx)
            }
            _ => 0,
        }
    }

    /// Middle packets of the message in progress.
    fn take_middle_train<'p>(
        &mut self,
        config: &QpConfig,
        most: u32,
        mut next: impl FnMut(Psn) -> Option<Packet<'p>>,
        cx: &mut Context<'_>,
    ) -> u32 {
        let mtu = config.attr.path_mtu.bytes();
        let Some(message) = &self.message else { return 0 };
        let room = message.middle_bytes(&self.receives) >> config.mtu_shift();
        let most = most.min(u32::try_from(room).unwrap_or(u32::MAX));
        let length = u64::from(most) << config.mtu_shift();
        if most == 0 {
            return 0;
        }
        let Some(place) = place_of_next(config, &self.receives, message, length, cx) else {
            return 0;
        };
        let (mut taken, mut asked) = (0, false);
        while taken < most && !asked {
            let Some(packet) = next(self.expected.add(taken)) else { break };
            let copied = place.copy_in_part(taken as usize * mtu, packet.payload());
            copied.expect("the place is as long as all payloads");
            (taken, asked) = (taken + 1, packet.bth.ack_req);
        }
        if taken > 0 {
            self.pass_middle(config, taken as usize * mtu, taken, asked, cx);
        }
        taken
    }

    /// SENDs that are whole in their packets.
    fn take_send_train<'p>(
        &mut self,
        config: &QpConfig,
        first: &Packet<'_>,
        most: u32,
        mut next: impl FnMut(Psn) -> Option<Packet<'p>>,
        cx: &mut Context<'_>,
    ) -> u32 {
        let length = first.payload().len() as u32;
        let (mut taken, mut asked) = (0, Asked::default());
        while taken < most && !self.has_failed() {
            let Some((wr_id, place)) = self.place_of_small_send(config, length, cx) else { break };
            let Some(packet) = next(self.expected) else { break };
            place.copy_in(0, packet.payload()).expect("the place is as long as the payload");
            self.pass_small_send(config, wr_id, length, first.bth.solicited, cx);
            self.pass_small();
            asked.note(&packet, self.msn);
            taken += 1;
        }
        self.acknowledge_train(&asked, cx);
        taken
    }

    /// WRITEs that are whole in their packets. One that is not allowed takes the slow path, and is the last.
    fn take_write_train<'p>(
        &mut self,
        config: &QpConfig,
        now: Instant,
        most: u32,
        mut next: impl FnMut(Psn) -> Option<Packet<'p>>,
        cx: &mut Context<'_>,
    ) -> u32 {
        let (mut taken, mut asked, mut refused) = (0, Asked::default(), None);
        while taken < most && refused.is_none() {
            let Some(packet) = next(self.expected) else { break };
            taken += 1;
            if write_small(config, &packet, packet.payload(), cx) {
                self.pass_small();
                asked.note(&packet, self.msn);
            } else {
                refused = Some(packet);
            }
        }
        self.acknowledge_train(&asked, cx);
        if let Some(packet) = refused {
            self.handle_reliable(config, now, &packet, cx);
        }
        taken
    }

    /// Small messages behind each other have been executed: one ACK says so.
    #[inline]
    fn acknowledge_train(&mut self, asked: &Asked, cx: &mut Context<'_>) {
        let &Asked { times, psn, msn } = asked;
        if times > 0 {
            let syndrome = Syndrome::ack(Syndrome::ACK_UNLIMITED);
            let deferred = self.responses.queue_ack(Response::Ack { psn, syndrome, msn });
            cx.counters.ack_deferred += u64::from(times - 1) + u64::from(deferred);
        }
    }
}

/// Which packets of a train asked for an ACK: how many, and the PSN of the last with the MSN behind it.
#[derive(Debug, Default)]
struct Asked {
    times: u32,
    psn: Psn,
    msn: u32,
}

impl Asked {
    #[inline]
    fn note(&mut self, packet: &Packet<'_>, msn: u32) {
        if packet.bth.ack_req {
            *self = Asked { times: self.times + 1, psn: packet.bth.psn, msn };
        }
    }
}
