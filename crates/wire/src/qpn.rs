//! Queue pair numbers.

use core::fmt;

/// A queue pair number: 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// Subnet management; does not exist on RoCE.
    pub const SMI: Qpn = Qpn(0);
    /// General services: connection management.
    pub const GSI: Qpn = Qpn(1);
    /// Destination of multicast packets (R14).
    pub const MULTICAST: Qpn = Qpn(0xff_ffff);

    /// The low 24 bits of `value`.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Qpn(value & 0xff_ffff)
    }

    /// As a number below 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}
