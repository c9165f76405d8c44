//! Which packets a rule is about.

use std::fmt;
use std::net::IpAddr;

use uroce_wire::Position;

use super::operation::OperationSet;
use super::quantity::{Expected, NumberRange, integer, integer_up_to};
use crate::Direction;

/// Bits of a QPN or a PSN.
const MAX_24: u64 = 0xff_ffff;

/// What a packet must be for a rule to match. What is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Matcher {
    pub direction: Option<Direction>,
    pub operations: Option<OperationSet>,
    pub part: Option<Part>,
    pub queue_pair: Option<QueuePairMatch>,
    pub psn: Option<PsnMatch>,
    /// How often the PSN was seen, this time included.
    pub iteration: Option<NumberRange>,
    /// Number of the message, from 1.
    pub message: Option<NumberRange>,
    /// Number of the packet, from 1.
    pub packet: Option<NumberRange>,
    /// Bytes of payload.
    pub length: Option<NumberRange>,
    /// Source or destination.
    pub either: Option<Prefix>,
    pub source: Option<Prefix>,
    pub destination: Option<Prefix>,
    pub ecn: Option<Ecn>,
    pub syndrome: Option<NumberRange>,
}

impl Matcher {
    /// True if packets of this direction can match.
    pub(crate) fn is_about(&self, direction: Direction) -> bool {
        self.direction.is_none_or(|own| own == direction)
    }

    /// True if the history of the queue pair is needed to decide.
    pub(crate) fn needs_history(&self) -> bool {
        let is_index = matches!(self.queue_pair, Some(QueuePairMatch::Index(_)));
        let is_relative = matches!(self.psn, Some(PsnMatch::Offset(_) | PsnMatch::Every(_)));
        is_index || is_relative || self.packet.is_some() || self.needs_psn_history()
    }

    /// True if what was seen of single PSNs is needed to decide.
    pub(crate) fn needs_psn_history(&self) -> bool {
        self.iteration.is_some() || self.message.is_some()
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.direction {
            Some(direction) => write!(f, "{direction}")?,
            None => f.write_str("any")?,
        }
        let mut put = |key: &str, value: Option<&dyn fmt::Display>| match value {
            Some(value) => write!(f, " {key}={value}"),
            None => Ok(()),
        };
        put("op", self.operations.as_ref().map(|value| value as _))?;
        put("part", self.part.as_ref().map(|value| value as _))?;
        put("qp", self.queue_pair.as_ref().map(|value| value as _))?;
        put("psn", self.psn.as_ref().map(|value| value as _))?;
        put("iter", self.iteration.as_ref().map(|value| value as _))?;
        put("msg", self.message.as_ref().map(|value| value as _))?;
        put("pkt", self.packet.as_ref().map(|value| value as _))?;
        put("len", self.length.as_ref().map(|value| value as _))?;
        put("ip", self.either.as_ref().map(|value| value as _))?;
        put("src", self.source.as_ref().map(|value| value as _))?;
        put("dst", self.destination.as_ref().map(|value| value as _))?;
        put("ecn", self.ecn.as_ref().map(|value| value as _))?;
        put("syndrome", self.syndrome.as_ref().map(|value| value as _))
    }
}

/// Place of a packet in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part(pub Position);

impl Part {
    const ALL: [(&'static str, Position); 4] = [
        ("first", Position::First),
        ("middle", Position::Middle),
        ("last", Position::Last),
        ("only", Position::Only),
    ];

    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|&(_, part)| Self(part)).ok_or("first, middle, last or only".into())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, part)| *part == self.0);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// Destination queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuePairMatch {
    /// Its number.
    Number(u32),
    /// How many others were seen in the same direction before it.
    Index(u32),
}

impl QueuePairMatch {
    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let is_hex = text.starts_with("0x") || text.starts_with("0X");
        let value = integer(text).filter(|&value| value <= MAX_24).map(|value| value as u32);
        match value {
            Some(value) if is_hex => Ok(Self::Number(value)),
            Some(value) => Ok(Self::Index(value)),
            None => Err("a queue pair number in hexadecimal such as 0x11, or a decimal index \
                         such as 0 for the first queue pair that appears"
                .into()),
        }
    }
}

impl fmt::Display for QueuePairMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number:#x}"),
            Self::Index(index) => write!(f, "{index}"),
        }
    }
}

/// Packet sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PsnMatch {
    /// These numbers, as they stand in the packet.
    Number(NumberRange),
    /// These distances from the first PSN that was seen.
    Offset(NumberRange),
    /// Each of which the distance, plus 1, is a multiple of this.
    Every(u32),
}

impl PsnMatch {
    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let parsed = if let Some(period) = text.strip_prefix('%') {
            let period = integer_up_to(period, MAX_24).ok().filter(|&period| period > 0);
            period.map(|period| Self::Every(period as u32))
        } else if let Some(offsets) = text.strip_prefix('+') {
            // The second end may repeat the sign: +4..+8.
            let offsets = offsets.replacen("..+", "..", 1);
            NumberRange::parse(&offsets).ok().map(Self::Offset)
        } else {
            let numbers = NumberRange::parse(text).ok();
            numbers.filter(|numbers| numbers.low <= MAX_24).map(Self::Number)
        };
        parsed.ok_or(
            "a PSN such as 0x123 or 0x123..0x200, an offset from the first such as +4 or \
             +4..+8, or %N for each N-th"
                .into(),
        )
    }
}

impl fmt::Display for PsnMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(NumberRange { low, high }) if low == high => write!(f, "{low:#x}"),
            Self::Number(NumberRange { low, high: u64::MAX }) => write!(f, "{low:#x}.."),
            Self::Number(NumberRange { low, high }) => write!(f, "{low:#x}..{high:#x}"),
            Self::Offset(NumberRange { low, high }) if low != high && *high != u64::MAX => {
                write!(f, "+{low}..+{high}")
            }
            Self::Offset(offsets) => write!(f, "+{offsets}"),
            Self::Every(period) => write!(f, "%{period}"),
        }
    }
}

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let parsed = address.parse::<IpAddr>().ok().and_then(|address| {
            let all = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(all), integer).filter(|&bits| bits <= all)?;
            Some(Self { address, bits: bits as u8 })
        });
        parsed.ok_or("an IP address such as 192.0.2.1 or 2001:db8::/32".into())
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let differing = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros()
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros()
            }
            _ => return false,
        };
        differing >= u32::from(self.bits)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.address.is_ipv4() { 32 } else { 128 };
        write!(f, "{}", self.address)?;
        if self.bits == all { Ok(()) } else { write!(f, "/{}", self.bits) }
    }
}

/// The ECN field of the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ecn(u8);

impl Ecn {
    const NAMES: [&'static str; 4] = ["not-ect", "ect1", "ect0", "ce"];

    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let found = Self::NAMES.iter().position(|name| *name == text);
        found.map(|bits| Self(bits as u8)).ok_or("not-ect, ect0, ect1 or ce".into())
    }

    /// True if this is the ECN field of a traffic class.
    pub(crate) const fn is_of(self, traffic_class: u8) -> bool {
        self.0 == traffic_class & 3
    }
}

impl fmt::Display for Ecn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[usize::from(self.0 & 3)])
    }
}
