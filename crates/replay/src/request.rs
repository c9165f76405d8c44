//! A request as it was recorded.

use uroce_wire::{Operation, Packet, Psn};

/// A request packet of the recording.
#[derive(Debug, Clone)]
pub struct Request {
    /// Place in the recording.
    pub position: u64,
    /// Its frame.
    pub frame: u64,
    /// Nanoseconds since the first packet of the recording.
    pub time: u64,
    /// PSN.
    pub psn: Psn,
    /// PSN, counted on over 2^24 from the first one of the recording.
    pub(crate) place: i64,
    /// ToS or traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// UDP source port.
    pub source_port: u16,
    /// Its ICRC is wrong: the device drops it, as it did then, and nothing in it is believed.
    pub is_damaged: bool,
    /// The capture has it without its end, for which zeros stand.
    pub is_cut: bool,
    /// BTH to ICRC.
    pub bytes: Box<[u8]>,
}

/// Memory that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub rkey: u32,
    pub va: u64,
    pub length: u64,
}

impl Request {
    /// Its headers; `None` for what is no packet.
    pub(crate) fn packet(&self) -> Option<Packet<'_>> {
        Packet::parse(&self.bytes).ok()
    }
}

/// The memory that `packet` names in its RETH or AtomicETH.
pub(crate) fn target_of(packet: &Packet<'_>) -> Option<Target> {
    if let Some(reth) = packet.reth() {
        return Some(Target { rkey: reth.rkey, va: reth.va, length: reth.length.into() });
    }
    packet.atomic_eth().map(|eth| Target { rkey: eth.rkey, va: eth.va, length: 8 })
}

/// It uses up a receive, or begins a message that does.
pub(crate) fn takes_receive(packet: &Packet<'_>) -> bool {
    match packet.info.operation {
        Operation::Send => packet.info.starts(),
        Operation::Write => packet.info.has_imm(),
        _ => false,
    }
}
