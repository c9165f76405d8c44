//! The fast path of a responder: what is expected, and usual.
//!
//! A SEND that is whole in its packet needs a receive, one copy and one completion; a WRITE needs one copy, and so does
//! a middle packet of the message in progress. Whatever else it is, or when the copy is not allowed, nothing has
//! changed, and the slow path, `run_request`, decides.

use uroce_memory::{Access, MrSlice, Sge};
use uroce_wire::{Opcode, Operation, Packet};

use super::Responder;
use super::message::Message;
use super::receives::Receives;
use crate::attr::QpType;
use crate::completion_counter::CountedOps;
use crate::context::{Arrival, Context};
use crate::qp::config::{QpConfig, pad_of};
use crate::qp_state::QpState;

impl Responder {
    /// Executes the request if it is one of these. False, with nothing changed, if it takes the slow path.
    #[inline]
    pub(super) fn take_fast_path(
        &mut self,
        config: &QpConfig,
        arrival: &Arrival,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let data = packet.payload();
        if !self.is_plain_in_order(config, arrival, packet, data.len()) {
            return false;
        }
        let done = match (packet.bth.opcode, &self.message) {
            (Opcode::RC_SEND_ONLY, None) => self.take_small_send(config, packet, data, cx),
            (Opcode::RC_WRITE_ONLY, None) => write_small(config, packet, data, cx),
            (_, Some(_)) => return self.take_middle(config, packet, data, cx),
            _ => false,
        };
        if !done {
            return false;
        }
        self.expected = packet.bth.psn.add(1);
        self.msn = (self.msn + 1) & 0xff_ffff;
        if packet.bth.ack_req {
            self.acknowledge_request(cx);
        }
        true
    }

    /// The request with the expected PSN, in a packet with a payload of a valid length, while nothing else is going on.
    #[inline]
    fn is_plain_in_order(
        &self,
        config: &QpConfig,
        arrival: &Arrival,
        packet: &Packet<'_>,
        length: usize,
    ) -> bool {
        let ready =
            config.state == QpState::Rts || config.state == QpState::Rtr && self.established;
        matches!(config.init.qp_type, QpType::Rc | QpType::Uc)
            && ready
            && self.is_next(packet.bth.psn)
            && !arrival.is_congestion_marked()
            && usize::from(packet.bth.pad) == pad_of(length)
            && (1..=config.attr.path_mtu.bytes()).contains(&length)
    }

    /// The receive is taken when the bytes have got there. A shared queue takes the slow path.
    #[inline]
    fn take_small_send(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        data: &[u8],
        cx: &mut Context<'_>,
    ) -> bool {
        let Some((wr_id, sge)) = self.receives.front_of_one() else {
            return false;
        };
        if data.len() > sge.length as usize {
            return false;
        }
        let place = Sge { length: data.len() as u32, ..*sge };
        let granted = cx.mem.check_local(&place, config.init.pd, Access::LOCAL_WRITE);
        if !granted.is_ok_and(|place| place.copy_in(0, data).is_ok()) {
            return false;
        }
        self.receives.drop_front_of_one();
        let wc = config.received(wr_id, data.len() as u32, config.peer());
        self.complete_recv(config, wc, packet.bth.solicited, cx);
        true
    }

    /// A middle packet of the message in progress.
    fn take_middle(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        data: &[u8],
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(message) = &self.message else {
            return false;
        };
        let regular = message.contains(packet) && data.len() == config.attr.path_mtu.bytes();
        if !regular || !place_middle(config, &self.receives, message, data, cx) {
            return false;
        }
        self.pass_middle(config, data.len(), packet, 1, cx);
        true
    }

    /// `packets` middle packets, the first of which is `first`, have brought `length` bytes to their place.
    #[inline]
    fn pass_middle(
        &mut self,
        config: &QpConfig,
        length: usize,
        first: &Packet<'_>,
        packets: u32,
        cx: &mut Context<'_>,
    ) {
        if let Some(message) = &mut self.message {
            message.done += length as u64;
        }
        self.expected = first.bth.psn.add(packets);
        if first.bth.ack_req && config.init.qp_type.is_reliable() {
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
        if !usual || !place_run(config, &self.receives, message, payload, cx) {
            return false;
        }
        self.pass_middle(config, payload.len(), head, packets, cx);
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

/// Brings a WRITE that is whole in its packet to its place; false if that is not allowed.
#[inline]
fn write_small(config: &QpConfig, packet: &Packet<'_>, data: &[u8], cx: &mut Context<'_>) -> bool {
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
    config.completion_counters.note(CountedOps::REMOTE_WRITE, true, data.len() as u64);
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

/// Copies the payload to its place; false, with nothing written, if that is not allowed or not simple.
fn place_run(
    config: &QpConfig,
    receives: &Receives,
    message: &Message,
    payload: &MrSlice<'_>,
    cx: &mut Context<'_>,
) -> bool {
    let length = payload.len() as u64;
    let place = match message.operation {
        Operation::Write => {
            let by = config.requirer(config.init.pd);
            next_address(config, message, length).and_then(|va| {
                cx.mem.check(message.rkey, by, Access::REMOTE_WRITE, va, length).ok()
            })
        }
        Operation::Send => {
            let &[Sge { addr, length: room, lkey }] = &receives.current().sges[..] else {
                return false;
            };
            let Some(addr) = addr.checked_add(message.done) else { return false };
            if message.done + length > u64::from(room) {
                return false;
            }
            let place = Sge { addr, length: length as u32, lkey };
            let pd = receives.buffer_pd(config, cx);
            cx.mem.check_local(&place, pd, Access::LOCAL_WRITE).ok()
        }
        _ => None,
    };
    place.is_some_and(|place| place.copy_from(payload).is_ok())
}
