//! Requests that arrived behind each other in one buffer: the middle of a long message, or small messages in a row.
//!
//! There is one look at the queue pair and, for a long message, one check of its memory. What each packet does is what it does
//! on the fast path (`r19_a_train_does_what_its_packets_do`); whatever is not usual is left to come singly.

use uroce_wire::{Opcode, Packet, Psn};

use super::Responder;
use super::fast_path::{place_of_next, write_small};
use super::responses::Response;
use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::time::Instant;

/// Executes requests with the expected PSNs that arrived behind each other, up to `most`. Returns how many; what is not usual
/// has changed nothing.
pub(in crate::qp) fn take_train<'p>(
    responder: &mut Responder,
    config: &QpConfig,
    now: Instant,
    first: &Packet<'_>,
    most: u32,
    next: impl FnMut(Psn) -> Option<Packet<'p>>,
    cx: &mut Context<'_>,
) -> u32 {
    let length = first.payload().len();
    match &responder.message {
        _ if !responder.is_usual_in_order(config, first, length) => 0,
        Some(message) if message.contains(first) && length == config.attr.path_mtu.bytes() => {
            take_middle_train(responder, config, most, next, cx)
        }
        None if first.bth.opcode == Opcode::RC_SEND_ONLY => {
            take_send_train(responder, config, first, most, next, cx)
        }
        None if first.bth.opcode == Opcode::RC_WRITE_ONLY => {
            take_write_train(responder, config, now, most, next, cx)
        }
        _ => 0,
    }
}

/// Middle packets of the message in progress.
fn take_middle_train<'p>(
    responder: &mut Responder,
    config: &QpConfig,
    most: u32,
    mut next: impl FnMut(Psn) -> Option<Packet<'p>>,
    cx: &mut Context<'_>,
) -> u32 {
    let mtu = config.attr.path_mtu.bytes();
    let Some(message) = &responder.message else { return 0 };
    let room = message.middle_bytes(responder.receives.current().length) >> config.mtu_shift();
    let most = most.min(u32::try_from(room).unwrap_or(u32::MAX));
    let length = u64::from(most) << config.mtu_shift();
    if most == 0 {
        return 0;
    }
    let Some(place) = place_of_next(config, &responder.receives, message, length, cx) else {
        return 0;
    };
    let (mut taken, mut asked) = (0, false);
    while taken < most && !asked {
        let Some(packet) = next(responder.expected.add(taken)) else { break };
        let copied = place.copy_in_part(taken as usize * mtu, packet.payload());
        copied.expect("the place is as long as all payloads");
        (taken, asked) = (taken + 1, packet.bth.ack_req);
    }
    if taken > 0 {
        responder.pass_middle(config, taken as usize * mtu, taken, asked, cx);
    }
    taken
}

/// SENDs that are whole in their packets.
fn take_send_train<'p>(
    responder: &mut Responder,
    config: &QpConfig,
    first: &Packet<'_>,
    most: u32,
    mut next: impl FnMut(Psn) -> Option<Packet<'p>>,
    cx: &mut Context<'_>,
) -> u32 {
    let length = first.payload().len() as u32;
    let (mut taken, mut asked) = (0, AckRequested::default());
    while taken < most && !responder.has_failed() {
        let Some((wr_id, place)) = responder.receives.place_of_one(config.init.pd, length, cx.mem)
        else {
            break;
        };
        let Some(packet) = next(responder.expected) else { break };
        place.copy_in(0, packet.payload()).expect("the place is as long as the payload");
        responder.pass_small_send(config, wr_id, length, first.bth.solicited, cx);
        responder.pass_small();
        asked.note(&packet, responder.msn);
        taken += 1;
    }
    acknowledge_train(responder, &asked, cx);
    taken
}

/// WRITEs that are whole in their packets. One that is not allowed takes the slow path, and is the last.
fn take_write_train<'p>(
    responder: &mut Responder,
    config: &QpConfig,
    now: Instant,
    most: u32,
    mut next: impl FnMut(Psn) -> Option<Packet<'p>>,
    cx: &mut Context<'_>,
) -> u32 {
    let (mut taken, mut asked, mut refused) = (0, AckRequested::default(), None);
    while taken < most && refused.is_none() {
        let Some(packet) = next(responder.expected) else { break };
        taken += 1;
        if write_small(config, &packet, packet.payload(), cx) {
            responder.pass_small();
            asked.note(&packet, responder.msn);
        } else {
            refused = Some(packet);
        }
    }
    acknowledge_train(responder, &asked, cx);
    if let Some(packet) = refused {
        responder.handle_reliable(config, now, &packet, cx);
    }
    taken
}

/// Small messages behind each other have been executed: one ACK says so.
#[inline]
fn acknowledge_train(responder: &mut Responder, asked: &AckRequested, cx: &mut Context<'_>) {
    let &AckRequested { times, psn, msn } = asked;
    if times > 0 {
        responder.delayed_ack.clear();
        let deferred = responder.responses.queue_ack(Response::ack(psn, msn));
        cx.counters.ack_deferred += u64::from(times - 1) + u64::from(deferred);
    }
}

/// Which packets of a train asked for an ACK: how many, and the PSN of the last with the MSN behind it.
#[derive(Debug, Default)]
struct AckRequested {
    times: u32,
    psn: Psn,
    msn: u32,
}

impl AckRequested {
    #[inline]
    fn note(&mut self, packet: &Packet<'_>, msn: u32) {
        if packet.bth.ack_req {
            *self = AckRequested { times: self.times + 1, psn: packet.bth.psn, msn };
        }
    }
}
