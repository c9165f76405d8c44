//! The device that a connection manager speaks for.

use std::net::IpAddr;

use uroce_wire::Slot;

use crate::error::CmError;

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
    /// Our place among the processes that share the address, which our ids name: 24 bits of them are
    /// random then. `None`: all 32 are.
    pub slot: Option<Slot>,
}

impl Identity {
    /// Connections are between addresses of one IP version.
    pub(crate) fn check_family(&self, remote: IpAddr) -> Result<(), CmError> {
        let local = self.address;
        if remote.is_ipv4() != local.is_ipv4() {
            return Err(CmError::OtherFamily { remote, local });
        }
        Ok(())
    }
}
