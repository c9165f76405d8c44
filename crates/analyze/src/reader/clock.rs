//! Units of time in a pcapng capture.

use crate::Timestamp;

const SECOND: u128 = 1_000_000_000;

/// How the timestamps of an interface are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    resolution: Resolution,
    /// Seconds to add.
    offset: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    /// A unit is so many nanoseconds.
    Multiple(u64),
    /// So many units are a nanosecond; too many for a number if `None`.
    Fraction(Option<u64>),
    /// A unit is a second, divided by two so often.
    Binary(u8),
}

impl Default for Clock {
    /// Microseconds.
    fn default() -> Self {
        Self { resolution: Resolution::Multiple(1000), offset: 0 }
    }
}

impl Clock {
    /// Option `if_tsresol`: a negative power of 10, or of 2 if the upper bit is set.
    pub(super) fn set_resolution(&mut self, value: u8) {
        let exponent = u32::from(value & 0x7f);
        self.resolution = match (value & 0x80 != 0, exponent) {
            (true, _) => Resolution::Binary(value & 0x7f),
            (false, 0..=9) => Resolution::Multiple(10u64.pow(9 - exponent)),
            (false, _) => Resolution::Fraction(10u64.checked_pow(exponent - 9)),
        };
    }

    /// Option `if_tsoffset`: seconds to add to each time.
    pub(super) const fn set_offset(&mut self, seconds: i64) {
        self.offset = seconds;
    }

    /// The time of a timestamp in units. A time before 1970, or one too late for 64 bits of
    /// nanoseconds, becomes the nearest one that there is.
    #[inline]
    pub(super) fn time(&self, units: u64) -> Timestamp {
        let nanoseconds = match self.resolution {
            Resolution::Multiple(factor) => units.saturating_mul(factor),
            Resolution::Fraction(divisor) => divisor.map_or(0, |divisor| units / divisor),
            Resolution::Binary(bits) => {
                let product = u128::from(units) * SECOND;
                u64::try_from(product >> bits).unwrap_or(u64::MAX)
            }
        };
        let offset = self.offset.saturating_mul(SECOND as i64);
        Timestamp::from_nanos(nanoseconds.saturating_add_signed(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(resolution: u8, offset: i64, units: u64) -> u64 {
        let mut clock = Clock::default();
        clock.set_resolution(resolution);
        clock.set_offset(offset);
        clock.time(units).as_nanos()
    }

    #[test]
    fn units_of_all_kinds_become_nanoseconds() {
        assert_eq!(Clock::default().time(7).as_nanos(), 7_000);
        assert_eq!(
            [0, 3, 6, 9].map(|power| nanos(power, 0, 7)),
            [7_000_000_000, 7_000_000, 7_000, 7]
        );
        assert_eq!(nanos(12, 0, 7_999), 7);
        assert_eq!(nanos(0x80 | 32, 0, 3 << 31), 1_500_000_000);
        assert_eq!(nanos(0x80, 0, 2), 2_000_000_000);
    }

    #[test]
    fn an_offset_is_whole_seconds() {
        assert_eq!(nanos(9, 2, 5), 2_000_000_005);
        assert_eq!(nanos(9, -1, 1_000_000_005), 5);
    }

    #[test]
    fn values_that_no_clock_has_do_no_harm() {
        assert_eq!(nanos(0, 0, u64::MAX), u64::MAX);
        assert_eq!(nanos(0x80, 0, u64::MAX), u64::MAX);
        assert_eq!(nanos(0x7f, 0, u64::MAX), 0);
        assert_eq!(nanos(0xff, 0, u64::MAX), 0);
        assert_eq!(nanos(9, i64::MIN, 5), 0);
        assert_eq!(nanos(9, i64::MAX, 5), i64::MAX as u64 + 5);
    }
}
