//! A range of frame numbers.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// All frames from the first to the last, both included; the first frame of a capture is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRange {
    first: u64,
    last: u64,
}

impl FrameRange {
    /// The frames from `first` to `last`, both included.
    pub const fn new(first: u64, last: u64) -> Self {
        Self { first, last }
    }

    /// True for a frame of the range.
    #[inline]
    pub const fn contains(self, frame: u64) -> bool {
        self.first <= frame && frame <= self.last
    }
}

impl fmt::Display for FrameRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// A text is no range of frame numbers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no range of frames: write 40..60 (both included), or one number")]
pub struct BadFrameRange(String);

impl FromStr for FrameRange {
    type Err = BadFrameRange;

    fn from_str(text: &str) -> Result<Self, BadFrameRange> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(BadFrameRange(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_belong_to_it() {
        let range: FrameRange = "5..9".parse().expect("a range");
        let inside: Vec<_> = (0..20).filter(|frame| range.contains(*frame)).collect();
        assert_eq!(inside, [5, 6, 7, 8, 9]);
        assert_eq!(range.to_string().parse(), Ok(range));
        assert_eq!("7".parse(), Ok(FrameRange::new(7, 7)));
    }

    #[test]
    fn what_is_no_range_is_said() {
        for text in ["", "..", "1..", "9..5", "-1..2", "a", "1..99999999999999999999"] {
            let error = text.parse::<FrameRange>().expect_err(text);
            assert!(error.to_string().contains("both included"), "{error}");
        }
    }
}
