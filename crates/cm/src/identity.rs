//! Who we are.

use std::net::IpAddr;

/// The device that a connection manager speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its address, which is also its GID.
    pub address: IpAddr,
    /// Node GUID.
    pub guid: u64,
    /// Its ACK delay (code, 5 bits).
    pub ack_delay: u8,
    /// Its largest path MTU (1 to 5).
    pub active_mtu: u8,
}
