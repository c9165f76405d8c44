//! Packet sequence numbers: 24 bits, compared and added modulo 2^24 (R15).

use core::fmt;

/// A packet sequence number. It has no total order: use [`Psn::since`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The bits that count.
    pub const MASK: u32 = 0xff_ffff;

    /// The low 24 bits of `value`.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Psn(value & Self::MASK)
    }

    /// As a number below 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `count` behind this one.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Psn(self.0.wrapping_add(count) & Self::MASK)
    }

    /// The PSN `count` before this one.
    #[inline]
    #[must_use]
    pub const fn sub(self, count: u32) -> Self {
        Psn(self.0.wrapping_sub(count) & Self::MASK)
    }

    /// Distance from `earlier` to this PSN, in `-2^23..2^23` (R16).
    #[inline]
    pub const fn since(self, earlier: Psn) -> i32 {
        ((self.0.wrapping_sub(earlier.0) << 8) as i32) >> 8
    }

    /// True if this PSN lies in the half range before `other`.
    #[inline]
    pub const fn is_before(self, other: Psn) -> bool {
        self.since(other) < 0
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r15_wraps_at_24_bits() {
        assert_eq!(Psn::new(0xff_ffff).add(1), Psn::new(0));
        assert_eq!(Psn::new(0).sub(1), Psn::new(0xff_ffff));
        assert_eq!(Psn::new(0x0100_0005), Psn::new(5));
    }

    #[test]
    fn r16_half_range_split() {
        let zero = Psn::new(0);
        assert_eq!(Psn::new(0x7f_ffff).since(zero), 0x7f_ffff);
        assert_eq!(Psn::new(0x80_0000).since(zero), -0x80_0000);
        assert!(Psn::new(0xff_ffff).is_before(zero));
        assert!(!zero.is_before(zero));
    }

    proptest! {
        #[test]
        fn since_undoes_add(start: u32, count in 0u32..0x80_0000) {
            let start = Psn::new(start);
            prop_assert_eq!(start.add(count).since(start), count as i32);
            prop_assert_eq!(start.add(count).sub(count), start);
        }
    }
}
