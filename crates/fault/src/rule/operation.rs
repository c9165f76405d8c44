//! Names of operations, and which packets they stand for.

use std::fmt;

use uroce_wire::{Opcode, OpcodeInfo, Operation};

use super::quantity::{Expected, integer};
use crate::packet_view::PacketView;

/// Messages of connection management: name and attribute id of the MAD.
const CM_MESSAGES: [(&str, u16); 11] = [
    ("req", 0x10),
    ("mra", 0x11),
    ("rej", 0x12),
    ("rep", 0x13),
    ("rtu", 0x14),
    ("dreq", 0x15),
    ("drep", 0x16),
    ("sidr-req", 0x17),
    ("sidr-rep", 0x18),
    ("lap", 0x19),
    ("apr", 0x1a),
];
/// Acknowledge packets by the type in the upper bits of the syndrome.
const ACKNOWLEDGES: [(&str, u8); 3] = [("ack", 0), ("rnr", 1), ("nak", 3)];
/// Names in one rule at most.
const NAMES_MAX: usize = 64;

/// A set of numbers below 256.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    #[inline]
    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & 1 << (byte & 63) != 0
    }
}

/// The operations that a rule is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OperationSet {
    /// As written.
    names: Vec<String>,
    /// Opcodes by number: of any queue pair.
    numbers: ByteSet,
    /// Opcodes by name: not those that carry connection management.
    opcodes: ByteSet,
    /// Types of acknowledge, one bit each.
    acknowledges: u8,
    /// Attribute ids of connection management, one bit each from 0x10.
    cm: u16,
    /// All opcodes that are worth a closer look.
    candidates: ByteSet,
}

impl OperationSet {
    /// Names separated by `|`.
    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let mut set = Self::default();
        for name in text.split('|') {
            let name = name.to_ascii_lowercase().replace('_', "-");
            if set.names.len() == NAMES_MAX || !set.add(&name) {
                return Err(expected());
            }
            set.names.push(name);
        }
        set.prepare();
        Ok(set)
    }

    /// Adds what `name` stands for; false if it is no name.
    fn add(&mut self, name: &str) -> bool {
        if let Some(number) = integer(name) {
            return u8::try_from(number).map(|number| self.numbers.insert(number)).is_ok();
        }
        if let Some((_, kind)) = ACKNOWLEDGES.iter().find(|(known, _)| *known == name) {
            self.acknowledges |= 1 << kind;
        } else if let Some((_, id)) = CM_MESSAGES.iter().find(|(known, _)| *known == name) {
            self.cm |= 1 << (id - 0x10);
        } else if name == "cm" {
            self.cm = u16::MAX;
        } else {
            return self.add_opcodes(name);
        }
        true
    }

    fn add_opcodes(&mut self, name: &str) -> bool {
        let mut is_name = false;
        for opcode in 0..=u8::MAX {
            if Opcode(opcode).info().is_some_and(|info| is_called(info, name)) {
                self.opcodes.insert(opcode);
                is_name = true;
            }
        }
        is_name
    }

    fn prepare(&mut self) {
        for opcode in 0..=u8::MAX {
            let operation = Opcode(opcode).info().map(|info| info.operation);
            let acknowledge = operation == Some(Operation::Acknowledge) && self.acknowledges != 0;
            let management = opcode == Opcode::UD_SEND_ONLY.0 && self.cm != 0;
            let named = self.numbers.contains(opcode) || self.opcodes.contains(opcode);
            if named || acknowledge || management {
                self.candidates.insert(opcode);
            }
        }
    }

    /// True if the packet is one of these.
    #[inline]
    pub(crate) fn contains(&self, packet: &PacketView<'_>) -> bool {
        let Some(opcode) = packet.opcode() else {
            return false;
        };
        self.candidates.contains(opcode) && self.contains_candidate(packet, opcode)
    }

    fn contains_candidate(&self, packet: &PacketView<'_>, opcode: u8) -> bool {
        self.numbers.contains(opcode)
            || (self.opcodes.contains(opcode) && !packet.is_management())
            || (self.acknowledges != 0 && self.has_acknowledge(packet))
            || (self.cm != 0 && self.has_cm_message(packet))
    }

    fn has_acknowledge(&self, packet: &PacketView<'_>) -> bool {
        let is_acknowledge =
            packet.info().is_some_and(|info| info.operation == Operation::Acknowledge);
        let kind = packet.syndrome().filter(|_| is_acknowledge).map(|syndrome| syndrome >> 5);
        kind.is_some_and(|kind| self.acknowledges & 1 << kind != 0)
    }

    fn has_cm_message(&self, packet: &PacketView<'_>) -> bool {
        let id = packet.cm_attribute().and_then(|id| id.checked_sub(0x10));
        id.is_some_and(|bit| bit < CM_MESSAGES.len() as u16 && self.cm & 1 << bit != 0)
    }
}

impl fmt::Display for OperationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join("|"))
    }
}

/// True if people call an opcode so: by its family, or by its name with or without the service.
fn is_called(info: &OpcodeInfo, name: &str) -> bool {
    match name {
        "send" => info.operation == Operation::Send,
        "write" => info.operation == Operation::Write,
        "read" | "read-req" => info.operation == Operation::ReadRequest,
        "read-resp" | "read-response" => info.operation == Operation::ReadResponse,
        "atomic" => matches!(info.operation, Operation::CompareSwap | Operation::FetchAdd),
        "atomic-ack" => info.operation == Operation::AtomicAcknowledge,
        "request" => info.is_request(),
        "response" => info.is_response(),
        _ => is_own_name(info, name),
    }
}

/// `rc-send-first` of `RC_SEND_FIRST`, or `send-first` of any service.
fn is_own_name(info: &OpcodeInfo, name: &str) -> bool {
    let name = match name.strip_prefix("read-resp-") {
        Some(part) => format!("read-response-{part}"),
        None => name.to_owned(),
    };
    let full = info.name.to_ascii_lowercase().replace('_', "-");
    full == name || full.split_once('-').is_some_and(|(_, bare)| bare == name)
}

fn expected() -> Expected {
    let cm = CM_MESSAGES.map(|(name, _)| name).join(", ");
    format!(
        "operations separated by '|': send, write, read, read-resp, atomic, atomic-ack, \
         atomic-write, flush, ack, nak, rnr, cnp, request, response, cm, {cm}, the name of one \
         opcode such as send-first or rc-write-only-imm, or its number"
    )
    .into()
}
