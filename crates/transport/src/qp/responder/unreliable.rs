//! UC: no answers; a damaged message is dropped whole (R97, R98). UD: one packet, one receive, with the GRH area in
//! front (R99).

use uroce_wire::{DropReason, NakCode, Operation, Packet, Psn, ud_grh_area};

use super::Responder;
use super::checks::Refusal;
use super::receives::Receives;
use crate::cause::{Cause, FlushReason};
use crate::context::{Arrival, Context};
use crate::qp::config::{QpConfig, pad_of};
use crate::wc_status::WcStatus;

/// Bytes in front of the payload of a UD receive buffer.
const GRH_AREA: u64 = 40;

impl Responder {
    pub(super) fn handle_unreliable(
        &mut self,
        config: &QpConfig,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let psn = packet.bth.psn;
        let distance = psn.since(self.expected);
        if distance < 0 && !packet.info.starts() {
            // The rest of a message that is over.
            cx.counters.duplicate_request += 1;
            cx.counters.drop(DropReason::UcOutOfSequence);
            return;
        }
        if distance != 0 {
            cx.counters.out_of_seq_request += 1;
            self.drop_rest = true;
        }
        if packet.info.starts() {
            // A new message, whatever its PSN (R97): nothing tells a repetition from one that was
            // overtaken. It ends the one that was cut short; its receive is used again.
            self.drop_rest = false;
            if self.message.take().is_some() {
                // The new one may be a WRITE, which would keep it from the others of a shared queue.
                self.receives.give_back(cx);
            }
        }
        self.expected = psn.add(1);
        if self.drop_rest {
            self.message = None;
            self.receives.give_back(cx);
            cx.counters.drop(DropReason::UcOutOfSequence);
            return;
        }
        let fits = check_first_packet(&self.receives, packet, cx);
        if let Err(refusal) = fits.and_then(|()| self.run_request(config, packet, cx)) {
            self.drop_message(config, psn.add(1), refusal, cx);
        }
    }

    fn drop_message(
        &mut self,
        config: &QpConfig,
        next: Psn,
        refusal: Refusal,
        cx: &mut Context<'_>,
    ) {
        self.expected = next;
        self.message = None;
        self.drop_rest = true;
        match refusal {
            Refusal::NotReady => cx.counters.drop(DropReason::UcNoReceive),
            Refusal::Nak { code: NakCode::RemoteAccess, .. } => {
                cx.counters.drop(DropReason::UcAccess);
            }
            Refusal::Nak { code: NakCode::RemoteOperational, status, cause } => {
                cx.counters.drop(DropReason::UcAccess);
                self.fail_receive(config, status, cause, cx);
            }
            Refusal::Nak { .. } => cx.counters.drop(DropReason::UcInvalid),
        }
        self.receives.give_back(cx);
    }

    /// A receive work request of UC or UD that cannot be written to: its owner's mistake, which
    /// puts the QP into the error state (class A, R38).
    pub(super) fn fail_receive(
        &mut self,
        config: &QpConfig,
        status: WcStatus,
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        let Some(wr_id) = self.report_failed_receive(config, status, cause, cx) else {
            return;
        };
        self.fail(FlushReason::RecvFailed { wr_id, status }, cx);
    }

    pub(super) fn handle_datagram(
        &mut self,
        config: &QpConfig,
        arrival: &Arrival,
        packet: &Packet<'_>,
        cx: &mut Context<'_>,
    ) {
        let payload = packet.payload();
        if usize::from(packet.bth.pad) != pad_of(payload.len()) {
            cx.counters.drop(DropReason::BadPad);
            return;
        }
        if payload.len() > config.init.port_mtu.bytes() {
            cx.counters.drop(DropReason::UdTooLong);
            return;
        }
        let length = GRH_AREA + payload.len() as u64;
        let room = self.receives.next_length(cx);
        if room.is_some_and(|room| length > room) {
            // B9: the datagram is dropped; the receive stays for the next one, of whichever queue pair. It was never taken, so
            // that a shared queue does not say that it runs low (R90).
            cx.counters.drop(DropReason::UdTooLong);
            return;
        }
        if !self.receives.take(cx) {
            cx.counters.drop(DropReason::UdNoReceive);
            return;
        }
        let grh = ud_grh_area(
            arrival.src,
            arrival.dst,
            arrival.ip_id,
            arrival.hop_limit,
            arrival.traffic_class,
            arrival.udp_len,
        );
        match self.receives.scatter_datagram(config, &grh, payload, cx) {
            Ok(()) => self.report_receive(config, packet, length as u32, Some(arrival.src), cx),
            Err(cause) => {
                cx.counters.drop(DropReason::UdAccess);
                self.fail_receive(config, WcStatus::LocProtErr, cause, cx);
            }
        }
    }
}

/// A SEND whose first packet is too long for the next receive does not take it: a shared queue would say that it runs low (R90).
fn check_first_packet(
    receives: &Receives,
    packet: &Packet<'_>,
    cx: &Context<'_>,
) -> Result<(), Refusal> {
    let length = packet.payload().len() as u64;
    let begins = packet.info.operation == Operation::Send && packet.info.starts();
    match receives.next_length(cx) {
        Some(room) if begins && length > room => Err(Refusal::too_long(length, room)),
        _ => Ok(()),
    }
}
