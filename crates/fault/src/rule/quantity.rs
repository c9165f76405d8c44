//! Numbers, ranges, times, sizes, rates and probabilities as rules write them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// What a value should have been, in words.
pub(crate) type Expected = Cow<'static, str>;

/// The longest time that a rule may name.
const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const TIME_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const SIZE_UNITS: [(&str, u64); 6] =
    [("kib", 1 << 10), ("mib", 1 << 20), ("kb", 1_000), ("mb", 1_000_000), ("b", 1), ("", 1)];
const RATE_UNITS: [(&str, u64); 4] =
    [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

pub(crate) const A_TIME: &str = "a time with its unit, up to 24h, such as 500us, 10ms or 2s";

/// A whole number: decimal, or hexadecimal behind `0x`.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // The parser of the standard library takes a sign.
    let is_digit = |byte: u8| char::from(byte).is_digit(radix);
    digits.bytes().all(is_digit).then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

/// A whole number up to `max`.
pub(crate) fn integer_up_to(text: &str, max: u64) -> Result<u64, Expected> {
    integer(text)
        .filter(|&value| value <= max)
        .ok_or_else(|| format!("a whole number from 0 to {max}").into())
}

/// A whole number from 1 to 2^32-1.
pub(crate) fn count(text: &str) -> Result<u32, Expected> {
    let value = integer(text).and_then(|value| u32::try_from(value).ok());
    value.filter(|&value| value > 0).ok_or("a whole number from 1 to 4294967295".into())
}

/// A number with a unit of `units`, as a multiple of the smallest unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at_checked(end)?;
    let unit = unit.to_ascii_lowercase();
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || number.ends_with('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? };
    let parts = u128::from(parts) * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    whole.checked_add(u64::try_from(parts).ok()?)
}

/// A time with its unit, at most 24 hours. 0 needs no unit.
pub(crate) fn time(text: &str) -> Result<Duration, Expected> {
    let nanoseconds = if text == "0" { Some(0) } else { scaled(text, &TIME_UNITS) };
    let time = nanoseconds.map(Duration::from_nanos);
    time.filter(|&time| time <= TIME_MAX).ok_or(A_TIME.into())
}

/// A number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, Expected> {
    scaled(text, &SIZE_UNITS).ok_or("a size such as 1500, 64KiB or 1MB".into())
}

/// Bits per second.
pub(crate) fn rate(text: &str) -> Result<u64, Expected> {
    let rate = scaled(text, &RATE_UNITS).filter(|&rate| rate > 0);
    rate.ok_or("a rate in bits per second such as 100mbit or 2.5gbit".into())
}

/// Writes a number with the largest unit that leaves it whole.
fn show(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fitting = units.iter().filter(|(_, scale)| value != 0 && value.is_multiple_of(*scale));
    match fitting.max_by_key(|(_, scale)| *scale) {
        Some((unit, scale)) => write!(f, "{}{unit}", value / scale),
        None => write!(f, "{value}"),
    }
}

/// A time as rules write it.
pub(crate) struct ShowTime(pub Duration);

impl fmt::Display for ShowTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX), &TIME_UNITS)
    }
}

/// A rate as rules write it.
pub(crate) struct ShowRate(pub u64);

impl fmt::Display for ShowRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.0, &RATE_UNITS)
    }
}

/// A probability, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probability(f64);

impl Probability {
    pub(crate) const ALWAYS: Self = Self(1.0);
    pub(crate) const NEVER: Self = Self(0.0);

    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let (number, scale) = match text.strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (text, 1.0),
        };
        let value = number.parse::<f64>().map(|value| value / scale);
        match value {
            // Adding 0 makes a negative zero a positive one.
            Ok(value) if (0.0..=1.0).contains(&value) => Ok(Self(value + 0.0)),
            _ => Err("a probability from 0 to 1, such as 0.01 or 1%".into()),
        }
    }

    /// True if it is neither 0 nor 1.
    pub(crate) fn is_chance(self) -> bool {
        self.0 > 0.0 && self.0 < 1.0
    }

    /// In percent.
    pub(crate) fn percent(self) -> f64 {
        self.0 * 100.0
    }

    /// 1 less this.
    pub(crate) fn complement(self) -> Self {
        Self(1.0 - self.0)
    }

    /// True for the share of draws that this probability says. `draw` is uniform over 64 bits.
    pub(crate) fn takes(self, draw: impl FnOnce() -> u64) -> bool {
        // 53 bits are what a float holds exactly.
        self.0 >= 1.0 || (self.0 > 0.0 && ((draw() >> 11) as f64) < self.0 * (1u64 << 53) as f64)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Whole numbers from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberRange {
    pub low: u64,
    pub high: u64,
}

impl NumberRange {
    const OPEN: u64 = u64::MAX;

    /// `N`, `A..B` with both ends included, or `A..`.
    pub(crate) fn parse(text: &str) -> Result<Self, Expected> {
        let range = match text.split_once("..") {
            None => integer(text).map(|value| Self { low: value, high: value }),
            Some((low, "")) => integer(low).map(|low| Self { low, high: Self::OPEN }),
            Some((low, high)) => {
                integer(low).zip(integer(high)).map(|(low, high)| Self { low, high })
            }
        };
        let range = range.filter(|range| range.low <= range.high);
        range.ok_or("a number N, or a range A..B or A..".into())
    }

    /// As [`NumberRange::parse`], of what is counted from 1 on.
    pub(crate) fn parse_ordinal(text: &str) -> Result<Self, Expected> {
        let range = Self::parse(text)?;
        if range.low == 0 {
            return Err("a number N from 1 on, or a range A..B or A.. from 1 on".into());
        }
        Ok(range)
    }

    /// As [`NumberRange::parse`], and `>N`, `>=N`, `<N`, `<=N`.
    pub(crate) fn parse_comparison(text: &str) -> Result<Self, Expected> {
        let above = |low: &str, step| Some((integer(low)?.checked_add(step)?, Self::OPEN));
        let below = |high: &str, step| Some((0, integer(high)?.checked_sub(step)?));
        let bounds = if let Some(low) = text.strip_prefix(">=") {
            above(low, 0)
        } else if let Some(low) = text.strip_prefix('>') {
            above(low, 1)
        } else if let Some(high) = text.strip_prefix("<=") {
            below(high, 0)
        } else if let Some(high) = text.strip_prefix('<') {
            below(high, 1)
        } else {
            return Self::parse(text);
        };
        let range = bounds.map(|(low, high)| Self { low, high });
        range.ok_or("a number behind <, <=, > or >=".into())
    }

    pub(crate) const fn contains(self, value: u64) -> bool {
        self.low <= value && value <= self.high
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { low, high } if low == high => write!(f, "{low}"),
            Self { low, high: Self::OPEN } => write!(f, "{low}.."),
            Self { low, high } => write!(f, "{low}..{high}"),
        }
    }
}
