//! A message that arrives in several packets, and the memory that a request names.

use uroce_wire::{Operation, Packet, Position};

/// A message of which some packets have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    /// SEND or WRITE.
    pub(super) operation: Operation,
    /// Where a WRITE goes.
    pub(super) va: u64,
    pub(super) rkey: u32,
    /// Length that the RETH of a WRITE announced.
    pub(super) length: u64,
    /// Bytes that have arrived.
    pub(super) done: u64,
}

impl Message {
    /// A SEND of which nothing has arrived.
    pub(super) fn send() -> Self {
        Message { operation: Operation::Send, va: 0, rkey: 0, length: 0, done: 0 }
    }

    /// A WRITE of which nothing has arrived.
    pub(super) fn write(remote: &Remote) -> Self {
        let Remote { va, rkey, length } = *remote;
        Message { operation: Operation::Write, va, rkey, length, done: 0 }
    }

    /// True if this is one of its packets, neither the first nor the last.
    #[inline]
    pub(super) fn contains(&self, packet: &Packet<'_>) -> bool {
        packet.info.position == Position::Middle && packet.info.operation == self.operation
    }

    /// How many bytes middle packets may still bring: a WRITE has a last packet with one byte at least, and a SEND ends with
    /// its receive, which has `receive` bytes.
    #[inline]
    pub(super) fn middle_bytes(&self, receive: u64) -> u64 {
        let length = match self.operation {
            Operation::Write => self.length.saturating_sub(1),
            _ => receive,
        };
        length.saturating_sub(self.done)
    }
}

/// What one packet of a message asks for.
pub(super) struct Remote {
    pub(super) va: u64,
    pub(super) rkey: u32,
    pub(super) length: u64,
}

/// The memory that a request names, from its RETH or AtomicETH.
pub(super) fn remote_of(packet: &Packet<'_>) -> Option<Remote> {
    if let Some(reth) = packet.reth() {
        return Some(Remote { va: reth.va, rkey: reth.rkey, length: reth.length.into() });
    }
    packet.atomic_eth().map(|eth| Remote { va: eth.va, rkey: eth.rkey, length: 8 })
}

/// R18, R19: how many PSNs a request takes.
pub(super) fn psns_of_request(packet: &Packet<'_>, mtu: usize) -> u32 {
    match (packet.info.operation, packet.reth()) {
        (Operation::ReadRequest, Some(reth)) => reth.length.div_ceil(mtu as u32).max(1),
        _ => 1,
    }
}
