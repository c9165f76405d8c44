//! What kind of guest to boot.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::addresses;
use crate::kernel::Kernel;

/// Which end of the wire a guest sits at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// The end that is always a guest: 10.77.0.2.
    Far,
    /// Our end, when it is a guest too: 10.77.0.1.
    Near,
}

impl Seat {
    /// The addresses of this end.
    pub fn addresses(self) -> (Ipv4Addr, Ipv6Addr) {
        match self {
            Self::Far => (addresses::GUEST_V4, addresses::GUEST_V6),
            Self::Near => (addresses::HOST_V4, addresses::HOST_V6),
        }
    }
}

/// What to boot.
#[derive(Debug, Clone)]
pub struct GuestConfig {
    /// Its kernel.
    pub kernel: Kernel,
    /// MTU of the wire in bytes: 9000 gives a path MTU of 4096, 1500 one of 1024.
    pub mtu: u32,
    /// Also give both ends an IPv6 address.
    pub ipv6: bool,
    /// Its end of the wire.
    pub seat: Seat,
    /// Processors of the guest.
    pub cores: u32,
    /// Memory of the guest in MiB.
    pub memory_mib: u32,
}

impl Default for GuestConfig {
    fn default() -> Self {
        Self {
            kernel: Kernel::Host,
            mtu: 9000,
            ipv6: true,
            seat: Seat::Far,
            cores: 2,
            memory_mib: 1024,
        }
    }
}
