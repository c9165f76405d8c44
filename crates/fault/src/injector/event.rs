//! What was done to a packet, and the words for it.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::rule::{Answer, Area, Field, NewValue, ShowTime};
use crate::{PacketMeta, Time};

/// Something that a rule did to a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultEvent {
    /// When.
    pub time: Time,
    /// The packet.
    pub meta: PacketMeta,
    /// Opcode of the packet; `None` if it has no whole BTH.
    pub opcode: Option<u8>,
    /// Destination queue pair number of the packet.
    pub dest_qp: Option<u32>,
    /// Packet sequence number.
    pub psn: Option<u32>,
    /// Index of the rule in the plan.
    pub rule: usize,
    pub(super) what: What,
}

impl fmt::Display for FaultEvent {
    /// What was done, without the rule: `dropped`, `delayed by 10ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

/// What was done to a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    Dropped,
    Passed,
    Duplicated(u32),
    Delayed(Duration),
    Held(u32),
    QueueFull,
    NoRoom,
    Marked,
    Flipped { area: Area, byte: usize, bit: u8 },
    Truncated { from: usize, to: usize },
    Set { field: Field, value: NewValue },
    Answered(Answer),
    MuteBegan(Duration),
    Muted,
    Stopped,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Dropped => f.write_str("dropped"),
            Self::Passed => f.write_str("passed on purpose"),
            Self::Duplicated(1) => f.write_str("duplicated"),
            Self::Duplicated(copies) => write!(f, "duplicated {copies} times"),
            Self::Delayed(time) => write!(f, "delayed by {}", ShowTime(time)),
            Self::Held(others) => write!(f, "held until {others} others have passed"),
            Self::QueueFull => f.write_str("dropped because the queue of the rate limit is full"),
            Self::NoRoom => f.write_str("dropped because no more packets can be held"),
            Self::Marked => f.write_str("marked \"congestion experienced\""),
            Self::Flipped { area, byte, bit } => write_flipped(f, area, byte, bit),
            Self::Truncated { from, to } => write!(f, "cut from {from} to {to} bytes"),
            Self::Set { field, value } => write!(f, "{} set to {value}", field.name()),
            Self::Answered(answer) => write!(f, "answered with {answer}"),
            Self::MuteBegan(time) => write!(f, "dropped, and all behind it for {}", ShowTime(time)),
            Self::Muted => f.write_str("dropped while muted"),
            Self::Stopped => f.write_str("last packet that rules looked at; all rules stopped"),
        }
    }
}

fn write_flipped(f: &mut fmt::Formatter<'_>, area: Area, byte: usize, bit: u8) -> fmt::Result {
    match area {
        Area::Any => write!(f, "bit {bit} of byte {byte} turned round"),
        area => write!(f, "bit {bit} of {} byte {byte} turned round", area.name()),
    }
}

/// The comment of a packet in a capture says that rules took it away: it never came to its receiver. So it was dropped, or
/// answered in the receiver's place; an answer that a rule made has the same comment.
pub fn is_taken_away(comment: &str) -> bool {
    let begins = |word: &str| {
        let mut parts =
            comment.split("; ").map(|part| part.strip_prefix("fault: ").unwrap_or(part));
        comment.contains("fault: ") && parts.any(|part| part.starts_with(word))
    };
    let is_answered = ["answered with ack", "answered with nak", "answered with rnr"].map(begins);
    begins("dropped") || is_answered.contains(&true) && !begins("passed on purpose")
}

/// Adds `what by rule label` to a comment.
pub(super) fn add_comment(comment: &mut String, what: What, label: &str) {
    let start = if comment.is_empty() { "fault: " } else { "; " };
    // Writing to a string cannot fail.
    let _ = write!(comment, "{start}{what} by rule {label}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Action;

    #[test]
    fn a_packet_that_was_taken_away_is_known_by_its_comment() {
        let comment = |all: &[What]| {
            let mut comment = String::new();
            all.iter().for_each(|what| add_comment(&mut comment, *what, "1"));
            comment
        };
        let delayed = What::Delayed(Duration::from_millis(1));
        let answered = |kind: &str| match Action::parse(&format!("answer:{kind}")) {
            Ok(Action::Answer(answer)) => What::Answered(answer),
            _ => panic!("{kind} is no answer"),
        };
        for gone in [
            &[What::Dropped][..],
            &[delayed, What::Dropped],
            &[What::Marked, What::QueueFull],
            &[What::NoRoom],
            &[What::Muted],
            &[What::MuteBegan(Duration::from_secs(1))],
            &[answered("rnr:12")],
            &[delayed, answered("nak:0")],
            &[answered("ack")],
        ] {
            assert!(is_taken_away(&comment(gone)), "{}", comment(gone));
            assert!(is_taken_away(&format!("drop reason X; {}", comment(gone))));
        }
        for there in [
            &[][..],
            &[delayed],
            &[What::Held(1), What::Duplicated(2)],
            &[answered("cnp")],
            &[answered("nak:0"), What::Passed],
        ] {
            assert!(!is_taken_away(&comment(there)), "{}", comment(there));
        }
        assert!(!is_taken_away("dropped by the user's own words"));
    }
}
