//! The additional rejection information (ARI) of a REJ.

use std::fmt;
use std::net::Ipv6Addr;

use uroce_wire::Mtu;

use crate::RejReason;
use crate::message::Rej;

/// What a REJ tells beside its reason, up to 72 bytes: as a rule, the value that the sender would take. Its form depends on the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ari(Box<[u8]>);

impl Ari {
    /// The information of `rej`, as long as it says, and no longer than the field.
    pub fn of(rej: &Rej) -> Self {
        let length = usize::from(rej.info_len).min(rej.info.len());
        Self(rej.info[..length].into())
    }

    /// As they came; empty if the peer told nothing.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What it tells in a REJ for this reason, in words; bytes whose form is not defined are shown as they are. `None`: nothing.
    pub fn words(&self, reason: RejReason) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.known(reason).unwrap_or_else(|| format!("additional information {self}")))
    }

    /// The reason in words, and what the peer tells beside it.
    pub fn with(&self, reason: RejReason) -> String {
        match self.words(reason) {
            Some(words) => format!("{reason}: {words}"),
            None => reason.to_string(),
        }
    }

    fn known(&self, reason: RejReason) -> Option<String> {
        let words = match reason {
            RejReason::TIMEOUT => format!("from the node with GUID {:#018x}", self.number(8)?),
            RejReason::INVALID_GID | RejReason::INVALID_ALT_GID => {
                format!("GID {} would do", Ipv6Addr::from_bits(self.number(16)?))
            }
            RejReason::PORT_REDIRECT => {
                format!("it is at GID {}", Ipv6Addr::from_bits(self.number(16)?))
            }
            RejReason::INVALID_LID | RejReason::INVALID_ALT_LID => {
                format!("LID {:#06x} would do", self.number(2)?)
            }
            RejReason::INVALID_SL | RejReason::INVALID_ALT_SL => {
                format!("service level {} would do", self.upper_half()?)
            }
            RejReason::INVALID_TRAFFIC_CLASS | RejReason::INVALID_ALT_TRAFFIC_CLASS => {
                format!("traffic class {} would do", self.number(1)?)
            }
            RejReason::INVALID_HOP_LIMIT | RejReason::INVALID_ALT_HOP_LIMIT => {
                format!("hop limit {} would do", self.number(1)?)
            }
            RejReason::INVALID_MTU => format!("{} bytes are the most", self.largest_mtu()?.bytes()),
            RejReason::INVALID_CLASS_VERSION => {
                format!("class version {} would do", self.number(1)?)
            }
            _ => return None,
        };
        Some(words)
    }

    /// The first `length` bytes as a number.
    fn number(&self, length: usize) -> Option<u128> {
        let bytes = self.0.get(..length)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }

    fn upper_half(&self) -> Option<u8> {
        self.0.first().map(|byte| byte >> 4)
    }

    /// In the upper half of its byte, where a REQ has it, or in the lower one.
    fn largest_mtu(&self) -> Option<Mtu> {
        let byte = *self.0.first()?;
        Mtu::from_code(if byte >> 4 != 0 { byte >> 4 } else { byte })
    }
}

impl fmt::Display for Ari {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
