//! Several sharers of one address, and the one of them that a packet is for.

use std::io;

use uroce_wire::Slot;

use crate::packet::RxPacket;

/// One of several processes, or engines of a process, that share an address.
pub trait SharedPort {
    /// The upper 8 bits of the queue pair numbers that this sharer must use.
    fn slot(&self) -> Slot;

    /// Directs requests of connection management for a service ID to this sharer, of all on the
    /// address.
    ///
    /// # Errors
    ///
    /// EADDRINUSE when another sharer has the service ID.
    fn claim_service(&mut self, service: u64) -> io::Result<()>;

    /// Undoes [`claim_service`](Self::claim_service).
    fn release_service(&mut self, service: u64);
}

/// The process that a packet to QP 1 is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectTarget {
    /// The process that has received the packet.
    Here,
    /// The process with this slot.
    Slot(Slot),
    /// The process that listens on this service ID
    /// ([`SharedPort::claim_service`]).
    Service(u64),
    /// All processes on the address.
    Everyone,
}

/// Finds the process that a packet to QP 1 is for. The packet was not checked: a redirected packet
/// is work for other processes that any sender can cause, so this function should verify the packet
/// first.
pub type GsiTarget = fn(&RxPacket<'_>) -> RedirectTarget;
