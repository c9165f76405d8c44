//! Packet sequence numbers that do not wrap.

use std::fmt;

use uroce_wire::Psn;

/// A PSN counted on over 2^24. Its low 24 bits are the PSN on the wire; the first PSN of a flow lies
/// between 2^24 and 2^25, so that packets from before the capture have a number, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnwrappedPsn(pub u64);

impl UnwrappedPsn {
    /// The number of the first PSN that is seen of a flow.
    pub const fn first(psn: Psn) -> Self {
        Self((1 << 24) | psn.get() as u64)
    }

    /// The number of `psn` that is nearest to this one, and not below zero.
    pub const fn nearest(self, psn: Psn) -> Self {
        let distance = psn.since(self.on_wire());
        match self.0.checked_add_signed(distance as i64) {
            Some(number) => Self(number),
            None => Self(psn.get() as u64),
        }
    }

    /// The 24 bits on the wire.
    pub const fn on_wire(self) -> Psn {
        Psn::new(self.0 as u32)
    }

    /// The PSN `count` behind this one.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// PSNs from `earlier` to this one; 0 if `earlier` is the later one.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for UnwrappedPsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.on_wire())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_number_goes_on_over_the_wrap_in_both_directions() {
        assert_eq!(UnwrappedPsn(3).nearest(Psn::new(0xff_fff8)).on_wire(), Psn::new(0xff_fff8));
        let last = UnwrappedPsn::first(Psn::new(0xff_ffff));
        let wrapped = last.nearest(Psn::new(1));
        assert_eq!(wrapped.since(last), 2);
        assert_eq!(wrapped.nearest(Psn::new(0xff_fffe)), UnwrappedPsn(last.0 - 1));
        assert_eq!(last.since(wrapped), 0);
    }

    proptest! {
        #[test]
        fn the_low_bits_are_always_those_of_the_wire(start: u32, steps: Vec<u32>) {
            let mut psn = UnwrappedPsn::first(Psn::new(start));
            for step in steps {
                psn = psn.nearest(Psn::new(step));
                // Numbers from before the first one do not exist: 2^24 of them are in reserve.
                if psn.0 == 0 {
                    return Ok(());
                }
                prop_assert_eq!(psn.on_wire(), Psn::new(step));
            }
        }
    }
}
