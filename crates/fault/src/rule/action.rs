//! What a rule does to a packet.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use uroce_wire::{NakCode, Syndrome};

use super::field::{Field, NewValue};
use super::quantity::{
    A_TIME, Expected, ShowRate, ShowTime, count, integer, integer_up_to, rate, size, time,
};

/// Copies of one packet at most.
const COPIES_MAX: u64 = 64;
/// The largest UDP payload.
const BYTES_MAX: u64 = 65_535;
/// Bytes that may wait for a rate limit, unless the rule says otherwise.
const QUEUE_DEFAULT: u64 = 256 << 10;
/// How long a packet waits for others to pass, unless the rule says otherwise.
const HOLD_DEFAULT: Duration = Duration::from_secs(1);

/// What a rule does to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It does not go on.
    Drop,
    /// It goes on, also where it would be answered.
    Pass,
    /// This many copies follow it.
    Duplicate(u32),
    /// It waits for `time`, more or less by up to `jitter`.
    Delay { time: Duration, jitter: Duration },
    /// It waits until `others` packets to the same queue pair have passed, at most for `limit`.
    Hold { others: u32, limit: Duration },
    /// It waits for its turn at a rate; with more than `queue` bytes waiting it is dropped.
    Rate { bits_per_second: u64, queue: u64 },
    /// "Congestion experienced" in the IP header.
    Mark,
    /// One bit is turned round.
    Corrupt { area: Area, byte: Option<u32>, bit: Option<u8> },
    /// It ends after this many bytes.
    Truncate(u32),
    /// A header field gets a value.
    Set { field: Field, value: NewValue },
    /// The ICRC stays as it is behind `Set`.
    KeepIcrc,
    /// The ICRC is made right behind `Corrupt` and `Truncate`.
    FixIcrc,
    /// The sender gets an answer.
    Answer(Answer),
    /// It and all that follow it between the same addresses are dropped for this long.
    Mute(Duration),
    /// No rule does anything from here on.
    Stop,
}

/// The names of all actions.
pub(crate) const ACTIONS: &str = "drop, pass, dup, delay=T, hold=N, rate=R, ce, corrupt, \
     truncate=N, set:FIELD=V, fix-icrc, keep-icrc, answer:KIND, mute=T or stop";

/// True if an action begins with this word.
pub(crate) fn is_action(word: &str) -> bool {
    let end = word.find(['=', ':']).unwrap_or(word.len());
    let name = &word[..end];
    ACTIONS.split([',', ' ']).any(|known| {
        let known = known.split(['=', ':']).next().unwrap_or("");
        !known.is_empty() && known != "or" && known == name
    })
}

impl Action {
    pub(crate) fn parse(word: &str) -> Result<Self, Expected> {
        if let Some(assignment) = word.strip_prefix("set:") {
            return parse_set(assignment);
        }
        if let Some(answer) = word.strip_prefix("answer:") {
            return Answer::parse(answer).map(Self::Answer);
        }
        match word.split_once('=') {
            None => Self::parse_bare(word),
            Some((name, value)) => Self::parse_with(name, value),
        }
    }

    fn parse_bare(word: &str) -> Result<Self, Expected> {
        Ok(match word {
            "drop" => Self::Drop,
            "pass" => Self::Pass,
            "dup" => Self::Duplicate(1),
            "hold" => Self::Hold { others: 1, limit: HOLD_DEFAULT },
            "ce" => Self::Mark,
            "corrupt" => Self::Corrupt { area: Area::Any, byte: None, bit: None },
            "keep-icrc" => Self::KeepIcrc,
            "fix-icrc" => Self::FixIcrc,
            "stop" => Self::Stop,
            _ => return Err(expected()),
        })
    }

    fn parse_with(name: &str, value: &str) -> Result<Self, Expected> {
        Ok(match name {
            "dup" => Self::Duplicate(copies(value)?),
            "delay" => parse_delay(value)?,
            "hold" => parse_hold(value)?,
            "rate" => parse_rate(value)?,
            "corrupt" => parse_corrupt(value)?,
            "truncate" => Self::Truncate(integer_up_to(value, BYTES_MAX)? as u32),
            "mute" => Self::Mute(time(value)?),
            _ => return Err(expected()),
        })
    }
}

fn expected() -> Expected {
    format!("an action: {ACTIONS}").into()
}

fn copies(text: &str) -> Result<u32, Expected> {
    let copies = integer(text).filter(|copies| (1..=COPIES_MAX).contains(copies));
    copies.map(|copies| copies as u32).ok_or(format!("a number from 1 to {COPIES_MAX}").into())
}

fn parse_set(text: &str) -> Result<Action, Expected> {
    let (field, value) = text.split_once('=').ok_or("set:FIELD=VALUE")?;
    let field = Field::parse(field)?;
    Ok(Action::Set { field, value: NewValue::parse(value, field)? })
}

/// `T` or `T~J`.
fn parse_delay(text: &str) -> Result<Action, Expected> {
    let (delay, jitter) = text.split_once('~').unwrap_or((text, "0"));
    match (time(delay), time(jitter)) {
        (Ok(time), Ok(jitter)) => Ok(Action::Delay { time, jitter }),
        _ => Err(format!("{A_TIME}, or T~J for a time with jitter").into()),
    }
}

/// `N` or `N/T`.
fn parse_hold(text: &str) -> Result<Action, Expected> {
    let (others, limit) = match text.split_once('/') {
        Some((others, limit)) => (others, time(limit)?),
        None => (text, HOLD_DEFAULT),
    };
    Ok(Action::Hold { others: count(others)?, limit })
}

/// `R` or `R/BYTES`.
fn parse_rate(text: &str) -> Result<Action, Expected> {
    let (bits, queue) = match text.split_once('/') {
        Some((bits, queue)) => (bits, size(queue)?),
        None => (text, QUEUE_DEFAULT),
    };
    Ok(Action::Rate { bits_per_second: rate(bits)?, queue })
}

/// `AREA`, `AREA@BYTE` or `AREA@BYTE.BIT`.
fn parse_corrupt(text: &str) -> Result<Action, Expected> {
    let (area, place) = match text.split_once('@') {
        Some((area, place)) => (area, Some(place)),
        None => (text, None),
    };
    let area = Area::parse(area)?;
    let Some(place) = place else {
        return Ok(Action::Corrupt { area, byte: None, bit: None });
    };
    let (byte, bit) = match place.split_once('.') {
        Some((byte, bit)) => (byte, Some(integer_up_to(bit, 7)? as u8)),
        None => (place, None),
    };
    let byte = Some(integer_up_to(byte, BYTES_MAX)? as u32);
    Ok(Action::Corrupt { area, byte, bit })
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Drop => f.write_str("drop"),
            Self::Pass => f.write_str("pass"),
            Self::Duplicate(1) => f.write_str("dup"),
            Self::Duplicate(copies) => write!(f, "dup={copies}"),
            Self::Delay { time, jitter: Duration::ZERO } => write!(f, "delay={}", ShowTime(time)),
            Self::Delay { time, jitter } => {
                write!(f, "delay={}~{}", ShowTime(time), ShowTime(jitter))
            }
            Self::Hold { others, limit: HOLD_DEFAULT } => write!(f, "hold={others}"),
            Self::Hold { others, limit } => write!(f, "hold={others}/{}", ShowTime(limit)),
            Self::Rate { bits_per_second, queue: QUEUE_DEFAULT } => {
                write!(f, "rate={}", ShowRate(bits_per_second))
            }
            Self::Rate { bits_per_second, queue } => {
                write!(f, "rate={}/{queue}", ShowRate(bits_per_second))
            }
            Self::Mark => f.write_str("ce"),
            Self::Corrupt { area, byte, bit } => write_corrupt(f, area, byte, bit),
            Self::Truncate(bytes) => write!(f, "truncate={bytes}"),
            Self::Set { field, value } => write!(f, "set:{}={value}", field.name()),
            Self::KeepIcrc => f.write_str("keep-icrc"),
            Self::FixIcrc => f.write_str("fix-icrc"),
            Self::Answer(answer) => write!(f, "answer:{answer}"),
            Self::Mute(time) => write!(f, "mute={}", ShowTime(time)),
            Self::Stop => f.write_str("stop"),
        }
    }
}

fn write_corrupt(
    f: &mut fmt::Formatter<'_>,
    area: Area,
    byte: Option<u32>,
    bit: Option<u8>,
) -> fmt::Result {
    write!(f, "corrupt={}", area.name())?;
    match (byte, bit) {
        (Some(byte), Some(bit)) => write!(f, "@{byte}.{bit}"),
        (Some(byte), None) => write!(f, "@{byte}"),
        (None, _) => Ok(()),
    }
}

/// Part of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    /// BTH to ICRC.
    Any,
    /// BTH and extension headers.
    Header,
    /// What is between headers and ICRC, pad included.
    Payload,
    /// The last four bytes.
    Icrc,
}

impl Area {
    const ALL: [Self; 4] = [Self::Any, Self::Header, Self::Payload, Self::Icrc];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Header => "header",
            Self::Payload => "payload",
            Self::Icrc => "icrc",
        }
    }

    fn parse(text: &str) -> Result<Self, Expected> {
        let found = Self::ALL.into_iter().find(|area| area.name() == text);
        found.ok_or(Cow::Borrowed(
            "any, header, payload or icrc, each with or without a place: payload@17 is byte 17, \
             payload@17.3 bit 3 of it",
        ))
    }
}

/// A packet that goes back to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An acknowledge packet.
    Acknowledge(Syndrome),
    /// A congestion notification.
    Cnp,
}

impl Answer {
    fn parse(text: &str) -> Result<Self, Expected> {
        let (kind, code) = text.split_once(':').unwrap_or((text, ""));
        let code = integer(code);
        match (kind, code) {
            ("ack", None) if text == "ack" => {
                Ok(Self::Acknowledge(Syndrome::ack(Syndrome::ACK_UNLIMITED)))
            }
            ("cnp", None) if text == "cnp" => Ok(Self::Cnp),
            ("nak", Some(code @ 0..=31)) => Ok(Self::nak(code as u8)),
            ("rnr", Some(code @ 0..=31)) => Ok(Self::Acknowledge(Syndrome::rnr(code as u8))),
            _ => Err("answer:ack, answer:nak:CODE (0 PSN sequence error, 1 invalid request, \
                      2 remote access error, 3 remote operational error, 4 invalid RD request), \
                      answer:rnr:TIMER (0 to 31) or answer:cnp"
                .into()),
        }
    }

    fn nak(code: u8) -> Self {
        Self::Acknowledge(Syndrome(Syndrome::nak(NakCode::PsnSequence).0 | code))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cnp => f.write_str("cnp"),
            Self::Acknowledge(syndrome) => match syndrome.0 >> 5 {
                0 => f.write_str("ack"),
                1 => write!(f, "rnr:{}", syndrome.0 & 0x1f),
                _ => write!(f, "nak:{}", syndrome.0 & 0x1f),
            },
        }
    }
}
