//! Which way a packet goes.

use std::fmt;

/// Which way a packet goes, seen from the device whose faults these are. A proxy is the device of
/// its first side: what comes from there is `Tx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It leaves.
    Tx,
    /// It arrives.
    Rx,
}

impl Direction {
    /// Place in a list of two.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Tx => 0,
            Self::Rx => 1,
        }
    }

    /// The other direction.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Tx => Self::Rx,
            Self::Rx => Self::Tx,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Direction;

    #[test]
    fn directions_are_written_as_in_rules() {
        assert_eq!([Direction::Tx, Direction::Rx].map(|way| way.to_string()), ["tx", "rx"]);
    }
}
