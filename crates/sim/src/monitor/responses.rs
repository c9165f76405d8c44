//! One direction of an RC connection, from the packets of its responder.

use std::collections::BTreeSet;

use uroce_wire::{Mtu, NakCode, Operation, Packet, Psn, SyndromeKind, TAKES_GAP_LISTS};

use super::message_count::MessageCount;
use super::psn::PsnLine;
use crate::violation::{Check, Invariant, ensure};

/// An ACK that is asked for so many PSNs behind what was known when a NAK with a list left draws another one.
const TOLD_AGAIN: u64 = 64;

/// What has arrived at a responder, and what it has answered.
#[derive(Debug)]
pub(super) struct ResponseMonitor {
    line: PsnLine,
    /// Everything before it has arrived.
    arrived_to: u64,
    /// What has arrived behind.
    out_of_order: BTreeSet<u64>,
    /// Everything before it has arrived in its order and was not put off: the expected PSN is not below.
    in_order: u64,
    /// The PSN for which there was no receive.
    not_ready: Option<u64>,
    /// Everything before it is acknowledged.
    acknowledged: u64,
    /// Responses of READs and atomics have left with PSNs before it.
    responded: u64,
    /// The gap for which a NAK was sent.
    gap: Option<u64>,
    /// The requester has asked for gap lists, so that it may be told of one gap again.
    takes_gap_lists: bool,
    /// Behind what has drawn a NAK for that gap last.
    told: u64,
    /// The highest MSN so far.
    msn: Psn,
    messages: MessageCount,
    mtu: Mtu,
}

impl ResponseMonitor {
    pub(super) fn new(start: u32, mtu: Mtu) -> ResponseMonitor {
        let line = PsnLine::new(start);
        let start = line.start();
        ResponseMonitor {
            line,
            arrived_to: start,
            out_of_order: BTreeSet::new(),
            in_order: start,
            not_ready: None,
            acknowledged: start,
            responded: start,
            gap: None,
            takes_gap_lists: false,
            told: start,
            msn: Psn::new(0),
            messages: MessageCount::default(),
            mtu,
        }
    }

    /// A request that has arrived undamaged.
    pub(super) fn handle_arrived(&mut self, packet: &Packet<'_>) {
        let psn = self.line.extend(packet.bth.psn, self.arrived_to);
        let end = psn + self.span(packet);
        if self.gap.is_some_and(|gap| (psn..end).contains(&gap)) {
            self.gap = None;
        } else if self.takes_gap_lists && self.asks_behind_gap(packet, psn) {
            (self.gap, self.told) = (None, psn + 1);
        }
        self.takes_gap_lists |= asks_for_list(packet);
        if psn == self.in_order && self.not_ready.is_none() {
            self.in_order = end;
        }
        if end <= self.arrived_to {
            return;
        }
        if psn == self.arrived_to && self.out_of_order.is_empty() {
            self.messages.handle_in_order(packet, end - 1);
        } else {
            self.messages.stop();
        }
        self.out_of_order.extend(psn.max(self.arrived_to)..end);
        while self.out_of_order.remove(&self.arrived_to) {
            self.arrived_to += 1;
        }
    }

    /// A packet behind the gap draws a NAK again if it asks for a list, behind all that was known when the last NAK left, or for an
    /// ACK far behind that (ADR 33).
    fn asks_behind_gap(&self, packet: &Packet<'_>, psn: u64) -> bool {
        let Some(gap) = self.gap else { return false };
        let known = self.told.max(gap + 1);
        asks_for_list(packet) && psn >= known || packet.bth.ack_req && psn >= known + TOLD_AGAIN
    }

    fn span(&self, packet: &Packet<'_>) -> u64 {
        match packet.reth() {
            Some(reth) if packet.info.operation == Operation::ReadRequest => {
                u64::from(reth.length).div_ceil(self.mtu.bytes() as u64).clamp(1, 1 << 20)
            }
            _ => 1,
        }
    }

    /// I7: a response that leaves.
    pub(super) fn handle_sent(&mut self, packet: &Packet<'_>) -> Check {
        let psn = self.line.extend(packet.bth.psn, self.arrived_to);
        let name = packet.info.name;
        let kind = packet.aeth().map(|aeth| aeth.syndrome.kind());
        if packet.info.operation != Operation::Acknowledge {
            ensure(psn < self.arrived_to, Invariant::Sequence, || {
                format!("a {name} answers a request that has not arrived")
            })?;
            self.responded = self.responded.max(psn + 1);
            return Ok(());
        }
        self.check_msn(packet)?;
        if !matches!(kind, Some(SyndromeKind::Ack { .. })) {
            self.messages.stop();
        }
        match kind {
            Some(SyndromeKind::Ack { .. }) => {
                self.check_message_count(packet, psn)?;
                self.check_ack(psn)
            }
            Some(SyndromeKind::Rnr { .. }) => {
                // What was kept behind it is forgotten, and with it what the requester was told of that.
                (self.not_ready, self.told) = (Some(psn), psn);
                self.in_order = self.in_order.min(psn);
                self.check_nak(psn, "an RNR NAK")
            }
            Some(SyndromeKind::Nak(NakCode::PsnSequence)) => {
                self.check_nak(psn, "a NAK")?;
                ensure(psn >= self.in_order, Invariant::Sequence, || {
                    let ahead = self.in_order - psn;
                    format!("a NAK has a PSN that is {ahead} below the expected one")
                })?;
                ensure(self.gap != Some(psn), Invariant::Sequence, || {
                    format!("a second NAK for the same gap at {:?}", packet.bth.psn)
                })?;
                self.gap = Some(psn);
                Ok(())
            }
            Some(SyndromeKind::Nak(_)) => Ok(()),
            _ => {
                let what = format!("a {name} with a syndrome that is not defined");
                Err((Invariant::Sequence, what))
            }
        }
    }

    fn check_ack(&mut self, psn: u64) -> Check {
        ensure(psn < self.arrived_to, Invariant::Sequence, || {
            format!("an ACK is {} ahead of what has arrived", psn + 1 - self.arrived_to)
        })?;
        ensure(psn + 1 >= self.acknowledged, Invariant::Sequence, || {
            format!("an ACK goes back by {}", self.acknowledged - psn - 1)
        })?;
        // rxe completes a READ when an ACK comes between two of its responses.
        ensure(psn + 1 >= self.responded, Invariant::Sequence, || {
            let less = self.responded - psn - 1;
            format!("an ACK behind a response says {less} less than that")
        })?;
        self.acknowledged = psn + 1;
        self.in_order = self.in_order.max(psn + 1);
        if self.not_ready.is_some_and(|not_ready| not_ready <= psn) {
            self.not_ready = None;
        }
        Ok(())
    }

    fn check_nak(&self, psn: u64, what: &str) -> Check {
        ensure(psn >= self.acknowledged, Invariant::Sequence, || {
            format!("{what} goes back by {}", self.acknowledged - psn)
        })?;
        ensure(psn <= self.arrived_to, Invariant::Sequence, || {
            format!("{what} is {} ahead of what has arrived", psn - self.arrived_to)
        })
    }

    /// I7: an ACK counts the messages that it acknowledges.
    fn check_message_count(&self, packet: &Packet<'_>, psn: u64) -> Check {
        let (Some(aeth), Some(due)) = (packet.aeth(), self.messages.msn_at(psn)) else {
            return Ok(());
        };
        ensure(aeth.msn == due, Invariant::Sequence, || {
            format!("the MSN of an ACK is {}, and {due} messages have ended", aeth.msn)
        })
    }

    /// I7: the message sequence number never falls.
    fn check_msn(&mut self, packet: &Packet<'_>) -> Check {
        let Some(aeth) = packet.aeth() else { return Ok(()) };
        let msn = Psn::new(aeth.msn);
        let risen = msn.since(self.msn);
        ensure(risen >= 0, Invariant::Sequence, || format!("the MSN falls by {}", -risen))?;
        self.msn = msn;
        Ok(())
    }
}

fn asks_for_list(packet: &Packet<'_>) -> bool {
    let plain = matches!(packet.info.operation, Operation::Send | Operation::Write);
    plain && packet.bth.reserved7 & TAKES_GAP_LISTS != 0
}
