//! The records that the stock test programs tell each other over TCP before and after they use RDMA, so that either end may be
//! one of them.
//!
//! Nothing here reads or writes a socket: records are arguments and results. What comes from a peer is refused unless it has the
//! form that belongs there.
#![forbid(unsafe_code)]

pub mod perftest;
pub mod pingpong;

use thiserror::Error;

/// A record that is not what this program expects.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the peer sent {found:?} where {expected} belongs")]
pub struct BadRecord {
    /// What should have come.
    pub expected: &'static str,
    /// What came, as text.
    pub found: String,
}

impl BadRecord {
    pub(crate) fn new(expected: &'static str, found: &[u8]) -> Self {
        let shown = &found[..found.len().min(120)];
        BadRecord { expected, found: String::from_utf8_lossy(shown).into_owned() }
    }
}

/// The fields of a text record, parted by colons and ended by a NUL.
pub(crate) struct RecordFields<'a> {
    expected: &'static str,
    all: &'a [u8],
    rest: Option<&'a str>,
}

impl<'a> RecordFields<'a> {
    pub(crate) fn new(expected: &'static str, all: &'a [u8]) -> Result<Self, BadRecord> {
        let end = all.iter().position(|&byte| byte == 0);
        let text = std::str::from_utf8(&all[..end.unwrap_or(all.len())]);
        match text {
            Ok(text) => Ok(RecordFields { expected, all, rest: Some(text) }),
            Err(_) => Err(BadRecord::new(expected, all)),
        }
    }

    pub(crate) fn bad(&self) -> BadRecord {
        BadRecord::new(self.expected, self.all)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, BadRecord> {
        let rest = self.rest.ok_or_else(|| self.bad())?;
        let (field, after) = match rest.split_once(':') {
            Some((field, after)) => (field, Some(after)),
            None => (rest, None),
        };
        self.rest = after;
        Ok(field)
    }

    /// A hexadecimal number of at most `digits` digits.
    pub(crate) fn hex(&mut self, digits: usize) -> Result<u64, BadRecord> {
        let text = self.text()?;
        let fine = !text.is_empty() && text.len() <= digits;
        // from_str_radix would also take a sign.
        if !fine || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(self.bad());
        }
        u64::from_str_radix(text, 16).map_err(|_| self.bad())
    }
}
