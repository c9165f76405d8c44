//! What sort of packet it is, as a page colours and names it.

use uroce_wire::{
    Opcode, OpcodeInfo, Operation, Position, Service, Syndrome, SyndromeKind, rnr_timer_us,
};

use crate::Packet;

/// Sorts of packets, in the order of the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PacketKind {
    /// SEND of a connection.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    Read,
    /// Atomic operation.
    Atomic,
    /// FLUSH.
    Flush,
    /// SEND of a datagram.
    Datagram,
    /// RDMA READ response.
    ReadResponse,
    /// ACK, also that of an atomic.
    Ack,
    /// NAK that does not ask for time.
    Nak,
    /// RNR NAK.
    Rnr,
    /// Congestion notification.
    Cnp,
    /// An opcode that is not known.
    Unknown,
}

/// Identifier and legend of each kind, in the order of [`PacketKind`].
pub(super) const KINDS: [(&str, &str); 12] = [
    ("send", "SEND"),
    ("write", "WRITE"),
    ("read", "READ request"),
    ("atomic", "Atomic"),
    ("flush", "FLUSH"),
    ("datagram", "Datagram"),
    ("response", "READ response"),
    ("ack", "ACK"),
    ("nak", "NAK"),
    ("rnr", "RNR NAK"),
    ("cnp", "CNP"),
    ("unknown", "Unknown"),
];

impl PacketKind {
    /// The kind of `packet`.
    pub(super) fn of(packet: &Packet) -> Self {
        let Some(info) = packet.opcode_info else { return Self::Unknown };
        match info.operation {
            Operation::Send if info.service == Service::Ud => Self::Datagram,
            Operation::Send => Self::Send,
            Operation::Write => Self::Write,
            Operation::ReadRequest => Self::Read,
            Operation::CompareSwap | Operation::FetchAdd | Operation::AtomicWrite => Self::Atomic,
            Operation::Flush => Self::Flush,
            Operation::ReadResponse => Self::ReadResponse,
            Operation::Cnp => Self::Cnp,
            Operation::Acknowledge | Operation::AtomicAcknowledge => {
                packet.aeth.map_or(Self::Ack, |aeth| Self::of_syndrome(aeth.syndrome))
            }
        }
    }

    fn of_syndrome(syndrome: Syndrome) -> Self {
        match syndrome.kind() {
            SyndromeKind::Ack { .. } => Self::Ack,
            SyndromeKind::Rnr { .. } => Self::Rnr,
            _ => Self::Nak,
        }
    }
}

/// Microseconds that an RNR NAK asks for; 0 for every other packet.
pub(super) fn rnr_wait_us(packet: &Packet) -> u32 {
    match packet.aeth.map(|aeth| aeth.syndrome.kind()) {
        Some(SyndromeKind::Rnr { timer }) => rnr_timer_us(timer),
        _ => 0,
    }
}

/// What a syndrome means.
pub(super) fn syndrome_text(syndrome: Syndrome) -> String {
    match syndrome.kind() {
        SyndromeKind::Ack { credits } if credits == Syndrome::ACK_UNLIMITED => {
            "ACK, no credit limit".to_owned()
        }
        SyndromeKind::Ack { credits } => match uroce_wire::credit_count(credits) {
            Some(1) => "ACK, 1 credit".to_owned(),
            Some(count) => format!("ACK, {count} credits"),
            None => "ACK".to_owned(),
        },
        SyndromeKind::Rnr { timer } => {
            format!("RNR NAK, wait {} ms", f64::from(rnr_timer_us(timer)) / 1000.0)
        }
        SyndromeKind::Nak(code) => format!("NAK, {}", code.name()),
        SyndromeKind::ReservedNak(code) => format!("NAK, reserved code {code}"),
        SyndromeKind::Reserved(_) => "reserved".to_owned(),
    }
}

/// Why an acknowledgement refuses; empty for other packets and plain ACKs.
pub(super) fn note(packet: &Packet) -> String {
    let refusal = matches!(PacketKind::of(packet), PacketKind::Nak | PacketKind::Rnr);
    let text = packet.aeth.filter(|_| refusal).map(|aeth| syndrome_text(aeth.syndrome));
    let text = text.unwrap_or_default();
    text.split_once(", ").map_or(text.clone(), |(_, why)| why.to_owned())
}

/// Name of an opcode for people: `WRITE First`, `READ response Only`, `ACK`.
pub(super) fn opcode_label(opcode: Opcode) -> String {
    opcode.info().map_or_else(|| opcode.to_string(), label)
}

fn label(info: &OpcodeInfo) -> String {
    let operation = match info.operation {
        Operation::Send => "SEND",
        Operation::Write => "WRITE",
        Operation::ReadRequest => "READ request",
        Operation::ReadResponse => "READ response",
        Operation::Acknowledge => "ACK",
        Operation::AtomicAcknowledge => "ATOMIC ACK",
        Operation::CompareSwap => "COMPARE SWAP",
        Operation::FetchAdd => "FETCH ADD",
        Operation::Flush => "FLUSH",
        Operation::AtomicWrite => "ATOMIC WRITE",
        Operation::Cnp => "CNP",
    };
    let has_positions =
        matches!(info.operation, Operation::Send | Operation::Write | Operation::ReadResponse);
    let position = match info.position {
        _ if !has_positions => "",
        Position::First => " First",
        Position::Middle => " Middle",
        Position::Last => " Last",
        Position::Only => " Only",
    };
    let extra = match (info.has_imm(), info.has_invalidate()) {
        (true, _) => " with immediate",
        (_, true) => " with invalidate",
        _ => "",
    };
    format!("{operation}{position}{extra}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_unique_within_a_service() {
        let mut seen = std::collections::HashSet::new();
        for info in (0..=255).filter_map(|byte| Opcode(byte).info()) {
            assert!(seen.insert((info.name.split('_').next(), label(info))), "{}", info.name);
        }
        assert_eq!(opcode_label(Opcode::RC_WRITE_LAST_IMM), "WRITE Last with immediate");
        assert_eq!(opcode_label(Opcode::RC_ACKNOWLEDGE), "ACK");
        assert_eq!(opcode_label(Opcode(0xff)), "opcode 0xff");
    }

    #[test]
    fn every_syndrome_has_a_meaning() {
        assert_eq!(syndrome_text(Syndrome(0x60)), "NAK, PSN sequence error");
        assert_eq!(syndrome_text(Syndrome::rnr(12)), "RNR NAK, wait 0.64 ms");
        assert_eq!(syndrome_text(Syndrome(31)), "ACK, no credit limit");
        assert!((0..=255).all(|byte| !syndrome_text(Syndrome(byte)).is_empty()));
    }
}
