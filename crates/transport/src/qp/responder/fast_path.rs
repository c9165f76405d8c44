//! The fast path of a responder: what is expected, and usual.
//!
//! A SEND that is whole in its packet needs a receive, one copy and one completion; a WRITE needs one copy, and so does
//! a middle packet of the message in progress. Whatever else it is, or when the copy is not allowed, nothing has
//! changed, and the slow path, `run_request`, decides.

use uroce_memory::{Access, MrSlice, Sge};
use uroce_wire::{Opcode, Operation, Packet};

use super::message::Message;
use super::receives::Receives;
use super::{Responder, pass_to};
use crate::attr::QpType;
use crate::context::Context;
use crate::qp::config::{QpConfig, pad_of};
use crate::qp_state::QpState;

impl Responder {
    /// Executes the request if it is one of these. False, with nothing changed, if it takes the slow path.
    /// A packet that a router has marked does not come here before it was noted.
    // Always: each request takes this way, from two places.
    #[inline(always)]
    pub(super) fn take_usual(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let data = packet.payload();
        if !self.is_usual_in_order(config, packet, data.len()) {
            return false;
        }
        let done = match (packet.bth.opcode, &self.message) {
            (Opcode::RC_SEND_ONLY, None) => send_small(self, config, packet, data, cx),
            (Opcode::RC_WRITE_ONLY, None) => write_small(config, packet, data, cx),
            (_, Some(_)) => return take_middle(self, config, packet, data, cx),
            _ => false,
        };
        if done {
            self.pass_small();
            if packet.bth.ack_req {
                self.acknowledge_request(cx);
            }
        }
        done
    }

    /// A message that was whole in its packet has been executed.
    #[inline]
    pub(super) fn pass_small(&mut self) {
        pass_to(self, self.expected.add(1));
        self.msn = (self.msn + 1) & 0xff_ffff;
    }

    /// The request with the expected PSN, in a packet with a payload of a valid length, while nothing else is going on.
    #[inline]
    pub(super) fn is_usual_in_order(
        &self,
        config: &QpConfig,
        packet: &Packet<'_>,
        length: usize,
    ) -> bool {
        let ready =
            config.state == QpState::Rts || config.state == QpState::Rtr && self.established;
        matches!(config.init.qp_type, QpType::Rc | QpType::Uc)
            && ready
            && self.is_next(packet.bth.psn)
            && usize::from(packet.bth.pad) == pad_of(length)
            && (1..=config.attr.path_mtu.bytes()).contains(&length)
    }

    /// The bytes of a SEND have got to the oldest receive.
    // Always: it is the way of each small SEND, from two places.
    #[inline(always)]
    pub(super) fn pass_small_send(
        &mut self,
        config: &QpConfig,
        wr_id: u64,
        length: u32,
        solicited: bool,
        cx: &mut Context<'_>,
    ) {
        self.receives.drop_front_of_one();
        let wc = config.received(wr_id, length, config.peer());
        self.complete_recv(config, wc, solicited, cx);
    }

    /// `packets` middle packets have brought `length` bytes to their place, of which the last asks for an ACK or does not.
    #[inline]
    pub(super) fn pass_middle(
        &mut self,
        config: &QpConfig,
        length: usize,
        packets: u32,
        ack_req: bool,
        cx: &mut Context<'_>,
    ) {
        if let Some(message) = &mut self.message {
            message.done += length as u64;
        }
        pass_to(self, self.expected.add(packets));
        if ack_req && config.init.qp_type.is_reliable() {
            self.acknowledge_request(cx);
        }
    }

    /// Executes `packets` middle packets with the expected PSNs, of which `payload` is all. False, with nothing
    /// changed, if something about them is not usual.
    pub(crate) fn take_run(
        &mut self,
        config: &QpConfig,
        head: &Packet<'_>,
        packets: u32,
        payload: &MrSlice<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(message) = &self.message else {
            return false;
        };
        let usual = message.contains(head) && self.is_next(head.bth.psn);
        let length = payload.len() as u64;
        let place =
            if usual { place_of_next(config, &self.receives, message, length, cx) } else { None };
        if place.is_none_or(|place| place.copy_from(payload).is_err()) {
            return false;
        }
        self.pass_middle(config, payload.len(), packets, head.bth.ack_req, cx);
        true
    }
}

/// Address of the next `length` bytes of a WRITE, of which they are not the last; `None` if the queue pair does
/// not allow it.
#[inline]
fn next_address(config: &QpConfig, message: &Message, length: u64) -> Option<u64> {
    let allowed = config.attr.access.contains(Access::REMOTE_WRITE);
    (allowed && message.done + length < message.length)
        .then(|| message.va.wrapping_add(message.done))
}

/// Brings a SEND that is whole in its packet to its receive, which is taken when the bytes have got there. A shared queue takes
/// the slow path.
#[inline]
fn send_small(
    responder: &mut Responder,
    config: &QpConfig,
    packet: &Packet<'_>,
    data: &[u8],
    cx: &mut Context<'_>,
) -> bool {
    let (pd, length) = (config.init.pd, data.len() as u32);
    let Some((wr_id, place)) = responder.receives.place_of_one(pd, length, cx.mem) else {
        return false;
    };
    if place.copy_in(0, data).is_err() {
        return false;
    }
    responder.pass_small_send(config, wr_id, length, packet.bth.solicited, cx);
    true
}

/// Executes a middle packet of the message in progress; false, with nothing changed, if it is not one, or not allowed.
fn take_middle(
    responder: &mut Responder,
    config: &QpConfig,
    packet: &Packet<'_>,
    data: &[u8],
    cx: &mut Context<'_>,
) -> bool {
    let Some(message) = &responder.message else {
        return false;
    };
    let regular = message.contains(packet) && data.len() == config.attr.path_mtu.bytes();
    if !regular || !place_middle(config, &responder.receives, message, data, cx) {
        return false;
    }
    responder.pass_middle(config, data.len(), 1, packet.bth.ack_req, cx);
    true
}

/// Brings a WRITE that is whole in its packet to its place; false if that is not allowed.
#[inline]
pub(super) fn write_small(
    config: &QpConfig,
    packet: &Packet<'_>,
    data: &[u8],
    cx: &mut Context<'_>,
) -> bool {
    let Some(reth) = packet.reth().filter(|reth| reth.length as usize == data.len()) else {
        return false;
    };
    if !config.attr.access.contains(Access::REMOTE_WRITE) {
        return false;
    }
    if cx.mem.write(reth.rkey, config.requirer(config.init.pd), reth.va, data).is_err() {
        return false;
    }
    cx.counters.rdma_recvs += 1;
    config.completion_counters.note_write(packet, data.len() as u64);
    true
}

/// Copies the payload to its place; false, with nothing written, if that is not allowed.
fn place_middle(
    config: &QpConfig,
    receives: &Receives,
    message: &Message,
    data: &[u8],
    cx: &mut Context<'_>,
) -> bool {
    let length = data.len() as u64;
    match message.operation {
        Operation::Write => {
            let by = config.requirer(config.init.pd);
            next_address(config, message, length)
                .is_some_and(|va| cx.mem.write(message.rkey, by, va, data).is_ok())
        }
        Operation::Send => {
            let recv = receives.current();
            let pd = receives.buffer_pd(config, cx);
            message.done + length <= recv.length
                && cx.mem.scatter(pd, &recv.sges, message.done, data).is_ok()
        }
        _ => false,
    }
}

/// Where the next `length` bytes of the message in progress go; `None` if that is not allowed or not simple.
pub(super) fn place_of_next<'m>(
    config: &QpConfig,
    receives: &Receives,
    message: &Message,
    length: u64,
    cx: &'m Context<'_>,
) -> Option<MrSlice<'m>> {
    match message.operation {
        Operation::Write => {
            let by = config.requirer(config.init.pd);
            let va = next_address(config, message, length)?;
            cx.mem.check(message.rkey, by, Access::REMOTE_WRITE, va, length).ok()
        }
        Operation::Send => {
            let &[Sge { addr, length: room, lkey }] = &receives.current().sges[..] else {
                return None;
            };
            if message.done + length > u64::from(room) {
                return None;
            }
            let addr = addr.checked_add(message.done)?;
            let place = Sge { addr, length: u32::try_from(length).ok()?, lkey };
            cx.mem.check_local(&place, receives.buffer_pd(config, cx), Access::LOCAL_WRITE).ok()
        }
        _ => None,
    }
}
