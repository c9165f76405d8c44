//! Header fields that a rule can set.

use std::fmt;

use uroce_wire::{HeaderSet, OpcodeInfo};

use super::quantity::{Expected, integer};

/// Extension headers in the order in which they follow the BTH, with their bytes.
const ORDER: [(HeaderSet, usize); 9] = [
    (HeaderSet::XRCETH, 4),
    (HeaderSet::DETH, 8),
    (HeaderSet::FETH, 4),
    (HeaderSet::RETH, 16),
    (HeaderSet::AETH, 4),
    (HeaderSet::ATOMIC_ETH, 28),
    (HeaderSet::ATOMIC_ACK_ETH, 8),
    (HeaderSet::IMMDT, 4),
    (HeaderSet::IETH, 4),
];
const BTH: HeaderSet = HeaderSet::empty();
const BTH_LEN: usize = 12;

/// One place where a field lies: `bits` bits that begin `shift` bits above the lowest bit of the
/// `bytes` bytes at byte `at` of a header.
#[derive(Debug)]
struct HeaderBytes {
    name: &'static str,
    header: HeaderSet,
    at: usize,
    bytes: usize,
    shift: u32,
    bits: u32,
}

const fn place(
    name: &'static str,
    header: HeaderSet,
    at: usize,
    bytes: usize,
    shift: u32,
    bits: u32,
) -> HeaderBytes {
    HeaderBytes { name, header, at, bytes, shift, bits }
}

/// A field of two headers has two rows.
static PLACES: [HeaderBytes; 29] = [
    place("opcode", BTH, 0, 1, 0, 8),
    place("se", BTH, 1, 1, 7, 1),
    place("migreq", BTH, 1, 1, 6, 1),
    place("pad", BTH, 1, 1, 4, 2),
    place("tver", BTH, 1, 1, 0, 4),
    place("pkey", BTH, 2, 2, 0, 16),
    place("fecn", BTH, 4, 1, 7, 1),
    place("becn", BTH, 4, 1, 6, 1),
    place("dest_qp", BTH, 5, 3, 0, 24),
    place("ackreq", BTH, 8, 1, 7, 1),
    place("psn", BTH, 9, 3, 0, 24),
    place("srqn", HeaderSet::XRCETH, 1, 3, 0, 24),
    place("qkey", HeaderSet::DETH, 0, 4, 0, 32),
    place("src_qp", HeaderSet::DETH, 5, 3, 0, 24),
    place("plt", HeaderSet::FETH, 3, 1, 0, 4),
    place("sel", HeaderSet::FETH, 3, 1, 4, 2),
    place("va", HeaderSet::RETH, 0, 8, 0, 64),
    place("rkey", HeaderSet::RETH, 8, 4, 0, 32),
    place("len", HeaderSet::RETH, 12, 4, 0, 32),
    place("syndrome", HeaderSet::AETH, 0, 1, 0, 8),
    place("msn", HeaderSet::AETH, 1, 3, 0, 24),
    place("va", HeaderSet::ATOMIC_ETH, 0, 8, 0, 64),
    place("rkey", HeaderSet::ATOMIC_ETH, 8, 4, 0, 32),
    place("swap", HeaderSet::ATOMIC_ETH, 12, 8, 0, 64),
    place("compare", HeaderSet::ATOMIC_ETH, 20, 8, 0, 64),
    place("original", HeaderSet::ATOMIC_ACK_ETH, 0, 8, 0, 64),
    place("imm", HeaderSet::IMMDT, 0, 4, 0, 32),
    place("inv_rkey", HeaderSet::IETH, 0, 4, 0, 32),
    place("rkey", HeaderSet::IETH, 0, 4, 0, 32),
];

/// A header field that a rule can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    name: &'static str,
    bits: u32,
}

impl Field {
    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let found = PLACES.iter().find(|place| place.name == text);
        found.map(|place| Self { name: place.name, bits: place.bits }).ok_or_else(expected)
    }

    pub(crate) const fn name(self) -> &'static str {
        self.name
    }

    /// The largest value.
    pub(crate) const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Where it lies in a packet; `None` if no header of the packet has it.
    fn place(self, info: Option<&OpcodeInfo>) -> Option<(usize, &'static HeaderBytes)> {
        let headers = info.map_or(BTH, |info| info.headers);
        let mut candidates = PLACES.iter().filter(|place| place.name == self.name);
        let place = candidates.find(|place| headers.contains(place.header))?;
        let start = if place.header == BTH { 0 } else { offset(headers, place.header) };
        Some((start + place.at, place))
    }

    /// True if a packet with these headers has it.
    pub(crate) fn is_in(self, info: Option<&OpcodeInfo>) -> bool {
        self.place(info).is_some()
    }

    /// Puts a value into the packet; `None`, changing nothing, if the packet has no such field.
    pub(crate) fn set(
        self,
        packet: &mut [u8],
        info: Option<&OpcodeInfo>,
        value: NewValue,
    ) -> Option<()> {
        let (at, place) = self.place(info)?;
        let bytes = packet.get_mut(at..at.checked_add(place.bytes)?)?;
        let word = bytes.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let mask = self.max() << place.shift;
        let new = value.of(word >> place.shift & self.max()) << place.shift;
        let word = word & !mask | new & mask;
        bytes.copy_from_slice(word.to_be_bytes().get(8 - place.bytes..)?);
        Some(())
    }
}

/// Byte of the packet where a header begins.
fn offset(headers: HeaderSet, header: HeaderSet) -> usize {
    let before = ORDER.iter().take_while(|(other, _)| *other != header);
    let lengths = before.filter(|(other, _)| headers.contains(*other)).map(|(_, length)| length);
    BTH_LEN + lengths.sum::<usize>()
}

fn expected() -> Expected {
    let mut names = PLACES.iter().map(|place| place.name).collect::<Vec<_>>();
    names.sort_unstable();
    names.dedup();
    format!("a header field: {}", names.join(", ")).into()
}

/// The value that a field gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewValue {
    /// This one.
    Is(u64),
    /// The old one and this much, modulo the width of the field.
    More(u64),
    /// The old one less this much, modulo the width of the field.
    Less(u64),
}

impl NewValue {
    /// A value that fits `field`.
    pub(crate) fn parse(text: &str, field: Field) -> Result<Self, Expected> {
        let (make, number): (fn(u64) -> Self, _) = match text.split_at_checked(1) {
            Some(("+", number)) => (Self::More, number),
            Some(("-", number)) => (Self::Less, number),
            _ => (Self::Is, text),
        };
        let value = integer(number).filter(|&value| value <= field.max());
        value.map(make).ok_or_else(|| {
            let (name, max) = (field.name(), field.max());
            format!("a value of {name} from 0 to {max:#x}, or +N or -N to change it").into()
        })
    }

    const fn of(self, old: u64) -> u64 {
        match self {
            Self::Is(value) => value,
            Self::More(value) => old.wrapping_add(value),
            Self::Less(value) => old.wrapping_sub(value),
        }
    }
}

impl fmt::Display for NewValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(value) => write!(f, "{value:#x}"),
            Self::More(value) => write!(f, "+{value}"),
            Self::Less(value) => write!(f, "-{value}"),
        }
    }
}
