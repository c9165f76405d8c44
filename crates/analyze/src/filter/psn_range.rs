//! A range of packet sequence numbers.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use uroce_wire::Psn;

use super::words::number;

/// All PSNs from the first to the last, both included; the range may go over the end of the 24-bit
/// space: `0xfffff0..0x10` has 33 PSNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PsnRange {
    first: Psn,
    last: Psn,
}

impl PsnRange {
    /// The PSNs from `first` to `last`, both included.
    pub const fn new(first: Psn, last: Psn) -> Self {
        Self { first, last }
    }

    /// The first of them.
    pub const fn first(self) -> Psn {
        self.first
    }

    /// The last of them.
    pub const fn last(self) -> Psn {
        self.last
    }

    /// True for a PSN of the range.
    #[inline]
    pub const fn contains(self, psn: Psn) -> bool {
        psn.sub(self.first.get()).get() <= self.last.sub(self.first.get()).get()
    }
}

impl fmt::Display for PsnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// A text is no range of PSNs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no range of PSNs: write 0x100..0x17f (both included), or one PSN, at most 0xffffff"
)]
pub struct BadPsnRange(String);

impl FromStr for PsnRange {
    type Err = BadPsnRange;

    fn from_str(text: &str) -> Result<Self, BadPsnRange> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let psn = |word| number(word, Psn::MASK).map(Psn::new);
        match (psn(first), psn(last)) {
            (Some(first), Some(last)) => Ok(Self { first, last }),
            _ => Err(BadPsnRange(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contains(range: &str, psn: u32) -> bool {
        range.parse::<PsnRange>().expect(range).contains(Psn::new(psn))
    }

    #[test]
    fn both_ends_belong_to_it() {
        assert!(contains("5..9", 5) && contains("5..9", 9) && contains("0x5..9", 7));
        assert!(!contains("5..9", 4) && !contains("5..9", 10));
        assert!(contains("7", 7) && !contains("7", 8));
    }

    #[test]
    fn r15_it_may_wrap() {
        assert!(contains("0xfffff0..0x10", 0xff_ffff) && contains("0xfffff0..0x10", 0));
        assert!(!contains("0xfffff0..0x10", 0x11) && !contains("0xfffff0..0x10", 0xff_ffef));
    }

    #[test]
    fn what_is_no_range_is_said() {
        for text in ["", "..", "1..", "..2", "a..b", "1...2", "1..0x1000000", "1..2..3"] {
            let error = text.parse::<PsnRange>().expect_err(text);
            assert!(error.to_string().contains("both included"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn its_text_is_read_back(first in 0..=Psn::MASK, last in 0..=Psn::MASK) {
            let range = PsnRange::new(Psn::new(first), Psn::new(last));
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }

        #[test]
        fn any_text_is_read_without_panic(text: String) {
            let _ = text.parse::<PsnRange>();
        }
    }
}
