//! Opcodes by the names that people use for them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use uroce_cm::Attribute;
use uroce_wire::{Opcode, Qpn, Service, SyndromeKind};

use super::words::number;
use crate::Packet;

/// The kinds of packets that one word names, see [`OpcodeFilter::from_str`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpcodeFilter {
    opcodes: [u64; 4],
    detail: Detail,
}

/// What else must be true of a packet with one of the opcodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Nothing.
    None,
    /// Its syndrome is that of a positive acknowledgement.
    Ack,
    /// Its syndrome is a NAK, other than receiver not ready.
    Nak,
    /// Its syndrome is receiver not ready.
    Rnr,
    /// It goes to QP 1; with a number, it is the connection management message with that attribute.
    Cm(Option<Attribute>),
}

/// Messages of connection management.
const CM_NAMES: [(&str, Attribute); 11] = [
    ("req", Attribute::REQ),
    ("mra", Attribute::MRA),
    ("rej", Attribute::REJ),
    ("rep", Attribute::REP),
    ("rtu", Attribute::RTU),
    ("dreq", Attribute::DREQ),
    ("drep", Attribute::DREP),
    ("sidr-req", Attribute::SIDR_REQ),
    ("sidr-rep", Attribute::SIDR_REP),
    ("lap", Attribute::LAP),
    ("apr", Attribute::APR),
];

/// Class of the MADs of connection management.
const CM_CLASS: u8 = 7;

impl OpcodeFilter {
    /// The packet is of one of these kinds. `payload` is what follows its headers.
    #[inline]
    pub fn matches(&self, packet: &Packet, payload: &[u8]) -> bool {
        self.has(packet.bth.opcode) && self.detail.matches(packet, payload)
    }

    const fn has(&self, opcode: Opcode) -> bool {
        self.opcodes[opcode.0 as usize / 64] & (1 << (opcode.0 % 64)) != 0
    }

    fn of(choose: impl Fn(Opcode) -> bool, detail: Detail) -> Self {
        let mut opcodes = [0; 4];
        for byte in 0..=u8::MAX {
            opcodes[usize::from(byte) / 64] |= u64::from(choose(Opcode(byte))) << (byte % 64);
        }
        Self { opcodes, detail }
    }

    fn named(name: &str) -> Option<Self> {
        let acknowledge = |detail| Self::of(|opcode| has_prefix(opcode, "acknowledge"), detail);
        match name {
            "ack" => Some(acknowledge(Detail::Ack)),
            "nak" => Some(acknowledge(Detail::Nak)),
            "rnr" | "rnr-nak" => Some(acknowledge(Detail::Rnr)),
            "cm" => Some(Self::management(None)),
            _ => Self::of_cm_message(name).or_else(|| Self::of_table(name)),
        }
    }

    fn of_cm_message(name: &str) -> Option<Self> {
        let name = name.strip_prefix("cm-").unwrap_or(name);
        let (_, attribute) = CM_NAMES.iter().find(|(known, _)| *known == name)?;
        Some(Self::management(Some(*attribute)))
    }

    fn management(attribute: Option<Attribute>) -> Self {
        Self::of(|opcode| opcode == Opcode::UD_SEND_ONLY, Detail::Cm(attribute))
    }

    fn of_table(name: &str) -> Option<Self> {
        let name = match name {
            "atomic" => return Some(Self::of(is_atomic, Detail::None)),
            "cas" | "cmp-swap" => "compare-swap",
            "faa" => "fetch-add",
            "atomic-ack" => "atomic-acknowledge",
            other => other,
        };
        let name = spelled_out(name);
        let found = Self::of(|opcode| has_prefix(opcode, &name), Detail::None);
        (found.opcodes != [0; 4]).then_some(found)
    }
}

/// `read-resp` and `read-req` in full.
fn spelled_out(name: &str) -> String {
    let words: Vec<_> = name.split('-').collect();
    let spell = |at: usize| match words[at] {
        "resp" if at > 0 => "response",
        "req" if at > 0 => "request",
        word => word,
    };
    (0..words.len()).map(spell).collect::<Vec<_>>().join("-")
}

/// `name` is the name of the opcode, or its beginning up to a hyphen; with or without its service.
fn has_prefix(opcode: Opcode, name: &str) -> bool {
    let Some(info) = opcode.info() else { return false };
    let full = info.name.to_ascii_lowercase().replace('_', "-");
    let bare = match info.service {
        Service::Cnp => &full,
        _ => full.split_once('-').map_or(full.as_str(), |(_, rest)| rest),
    };
    let begins = |text: &str| {
        text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    begins(&full) || begins(bare)
}

fn is_atomic(opcode: Opcode) -> bool {
    ["compare-swap", "fetch-add", "atomic-write", "atomic-acknowledge"]
        .iter()
        .any(|name| has_prefix(opcode, name))
}

impl Detail {
    fn matches(self, packet: &Packet, payload: &[u8]) -> bool {
        let kind = packet.aeth.map(|aeth| aeth.syndrome.kind());
        match self {
            Self::None => true,
            Self::Ack => matches!(kind, Some(SyndromeKind::Ack { .. })),
            Self::Nak => matches!(kind, Some(SyndromeKind::Nak(_) | SyndromeKind::ReservedNak(_))),
            Self::Rnr => matches!(kind, Some(SyndromeKind::Rnr { .. })),
            Self::Cm(attribute) => {
                packet.bth.dest_qpn == Qpn::GSI
                    && attribute.is_none_or(|wanted| cm_attribute(payload) == Some(wanted))
            }
        }
    }
}

/// Attribute of a MAD of connection management.
fn cm_attribute(mad: &[u8]) -> Option<Attribute> {
    let attribute = mad.get(16..18)?;
    let attribute = Attribute(u16::from_be_bytes([attribute[0], attribute[1]]));
    (mad[1] == CM_CLASS).then_some(attribute)
}

/// A word names no opcode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` names no opcode: write send, send-first, write-only, read-req, read-resp, ack, nak, rnr, \
     atomic, cnp, cm, req, rep, rtu, dreq, a full name like rc-write-last, or a number like 0x0a"
)]
pub struct UnknownOpcode(String);

impl FromStr for OpcodeFilter {
    type Err = UnknownOpcode;

    /// Reads a number (`17`, `0x11`) or a name, in small or capital letters, with `-` or `_`:
    ///
    /// - the name of the opcode table with or without its service, or its beginning: `rc-send-first`,
    ///   `send-first`, `write`, `read-response`, `read-resp-last`, `ud`;
    /// - `ack`, `nak`, `rnr`: acknowledgements by their syndrome;
    /// - `atomic`: all atomics and their answers; `cas`, `faa`;
    /// - `cm`: everything to QP 1; `req`, `rep`, `rtu`, `rej`, `mra`, `dreq`, `drep`, `sidr-req`,
    ///   `sidr-rep`, `lap`, `apr`, with `cm-` in front or not: that message.
    ///
    /// # Errors
    /// The word is none of these.
    fn from_str(text: &str) -> Result<Self, UnknownOpcode> {
        if let Some(value) = number(text, 0xff) {
            return Ok(Self::of(|opcode| u32::from(opcode.0) == value, Detail::None));
        }
        let name = text.to_ascii_lowercase().replace('_', "-");
        let named = (!name.is_empty()).then(|| Self::named(&name)).flatten();
        named.ok_or_else(|| UnknownOpcode(text.to_owned()))
    }
}

impl fmt::Debug for OpcodeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opcodes = (0..=u8::MAX).map(Opcode).filter(|opcode| self.has(*opcode));
        f.debug_set().entries(opcodes).entry(&self.detail).finish()
    }
}
