//! Packets as the network carries them.

use uroce_datapath::Route;

/// A UDP payload with its addresses.
#[derive(Debug, Clone)]
pub(crate) struct SimPacket {
    pub(crate) route: Route,
    /// BTH to ICRC.
    pub(crate) bytes: Vec<u8>,
}

/// A packet that has arrived at a NIC.
#[derive(Debug)]
pub(crate) struct ArrivedPacket {
    /// Who has sent it, whatever its source address.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packet: SimPacket,
    /// No fault rule has held or altered it.
    pub(crate) is_intact: bool,
}
