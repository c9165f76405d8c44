//! What a packet is, in a few words.

use std::time::Duration;

use uroce_wire::{OpcodeInfo, Operation, Position, Qpn, Syndrome, SyndromeKind, rnr_timer_ns};

use super::ArrowKind;
use crate::{Packet, quantity};

/// What the packet is for.
pub(super) fn kind(packet: &Packet) -> ArrowKind {
    let Some(info) = packet.opcode_info else { return ArrowKind::Other };
    match info.operation {
        _ if packet.bth.dest_qpn == Qpn::GSI => ArrowKind::Other,
        Operation::Cnp => ArrowKind::Congestion,
        Operation::Acknowledge => acknowledgement_kind(packet),
        Operation::ReadResponse | Operation::AtomicAcknowledge => ArrowKind::Response,
        _ => ArrowKind::Request,
    }
}

fn acknowledgement_kind(packet: &Packet) -> ArrowKind {
    match packet.aeth.map(|aeth| aeth.syndrome.kind()) {
        None | Some(SyndromeKind::Ack { .. }) => ArrowKind::Acknowledgement,
        Some(_) => ArrowKind::Refusal,
    }
}

/// Operation and place in the message: `SEND First`, `WRITE Only Imm`, `NAK: remote access error`.
pub(super) fn operation(packet: &Packet) -> String {
    let Some(info) = packet.opcode_info else { return packet.bth.opcode.to_string() };
    match info.operation {
        Operation::Acknowledge => packet
            .aeth
            .map_or_else(|| "ACK or NAK (cut)".to_owned(), |aeth| acknowledgement(aeth.syndrome)),
        operation => with_position(operation, info),
    }
}

fn acknowledgement(syndrome: Syndrome) -> String {
    match syndrome.kind() {
        SyndromeKind::Ack { .. } => "ACK".to_owned(),
        SyndromeKind::Rnr { timer } => {
            let wait = quantity::duration(Duration::from_nanos(rnr_timer_ns(timer)));
            format!("RNR NAK, wait {wait}")
        }
        SyndromeKind::Nak(code) => format!("NAK: {}", code.name()),
        SyndromeKind::ReservedNak(code) => format!("NAK: reserved code {code}"),
        SyndromeKind::Reserved(byte) => format!("reserved syndrome {byte:#04x}"),
    }
}

fn with_position(operation: Operation, info: &OpcodeInfo) -> String {
    let name = match operation {
        Operation::Send => "SEND",
        Operation::Write => "WRITE",
        Operation::ReadRequest => return "READ request".to_owned(),
        Operation::ReadResponse => "READ response",
        Operation::AtomicAcknowledge => return "atomic ACK".to_owned(),
        Operation::CompareSwap => return "compare and swap".to_owned(),
        Operation::FetchAdd => return "fetch and add".to_owned(),
        Operation::Flush => return "FLUSH".to_owned(),
        Operation::AtomicWrite => return "atomic WRITE".to_owned(),
        Operation::Cnp => return "CNP".to_owned(),
        Operation::Acknowledge => "ACK",
    };
    let position = match info.position {
        Position::First => "First",
        Position::Middle => "Middle",
        Position::Last => "Last",
        Position::Only => "Only",
    };
    let extra = if info.has_imm() {
        " Imm"
    } else if info.has_invalidate() {
        " Inv"
    } else {
        ""
    };
    format!("{name} {position}{extra}")
}

/// Length and further fields behind the PSN: `1024 B AckReq`, `msn 3`; empty if there is nothing.
pub(super) fn details(packet: &Packet) -> String {
    let mut words = Vec::new();
    match packet.opcode_info.map(|info| info.operation) {
        Some(Operation::ReadRequest | Operation::Flush) => {
            words.extend(packet.reth.map(|reth| format!("of {} B", reth.length)));
        }
        Some(Operation::Acknowledge) => {
            words.extend(packet.aeth.map(|aeth| format!("msn {}", aeth.msn)));
        }
        Some(Operation::Cnp) => {}
        _ if packet.payload_len > 0 => words.push(format!("{} B", packet.payload_len)),
        _ => {}
    }
    if packet.bth.ack_req {
        words.push("AckReq".to_owned());
    }
    words.join(" ")
}
