//! Which packets of a capture are asked for.

mod frame_range;
mod opcode_filter;
mod psn_range;
mod words;

use std::net::IpAddr;

pub use frame_range::{BadFrameRange, FrameRange};
pub use opcode_filter::{OpcodeFilter, UnknownOpcode};
pub use psn_range::{BadPsnRange, PsnRange};
use uroce_wire::Qpn;
pub use words::{BadQpn, parse_qpn};

use crate::Packet;

/// A choice of packets: a packet is chosen if it passes every criterion that is set. A criterion
/// with several values is passed by a packet that has one of them.
///
/// The empty filter, `Filter::default()`, chooses everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    qpns: Vec<Qpn>,
    hosts: Vec<IpAddr>,
    opcodes: Vec<OpcodeFilter>,
    psns: Vec<PsnRange>,
    frames: Vec<FrameRange>,
    only_errors: bool,
}

/// What a packet's own bytes do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learned {
    /// Queue pair of the sender, as learned from connection management or from earlier packets;
    /// RC and UC packets name only the receiver.
    pub source_qpn: Option<Qpn>,
    /// The packet is a sign of trouble, as [`is_trouble`](crate::report::is_trouble) says, or a finding
    /// that is more than a note names it.
    pub is_error: bool,
}

impl Filter {
    /// Chooses packets to or from queue pair `qpn` as well.
    #[must_use]
    pub fn with_qpn(mut self, qpn: Qpn) -> Self {
        self.qpns.push(qpn);
        self
    }

    /// Chooses packets to or from `host` as well.
    #[must_use]
    pub fn with_host(mut self, host: IpAddr) -> Self {
        self.hosts.push(host);
        self
    }

    /// Chooses packets with these opcodes as well.
    #[must_use]
    pub fn with_opcode(mut self, opcode: OpcodeFilter) -> Self {
        self.opcodes.push(opcode);
        self
    }

    /// Chooses packets with these PSNs as well.
    #[must_use]
    pub fn with_psns(mut self, psns: PsnRange) -> Self {
        self.psns.push(psns);
        self
    }

    /// Chooses packets in these frames as well.
    #[must_use]
    pub fn with_frames(mut self, frames: FrameRange) -> Self {
        self.frames.push(frames);
        self
    }

    /// Chooses only packets that are signs of trouble.
    #[must_use]
    pub fn with_only_errors(mut self) -> Self {
        self.only_errors = true;
        self
    }

    /// It chooses only packets that are signs of trouble.
    pub fn only_errors(&self) -> bool {
        self.only_errors
    }

    /// It chooses every packet.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The queue pairs that are asked for; all if there are none.
    pub fn qpns(&self) -> &[Qpn] {
        &self.qpns
    }

    /// Chooses the packet. `payload` is what follows its headers, as far as it was captured.
    #[inline]
    pub fn matches(&self, packet: &Packet, payload: &[u8], learned: Learned) -> bool {
        self.matches_qpn(packet, learned)
            && self.matches_host(packet)
            && any_or_empty(&self.frames, |range| range.contains(packet.frame))
            && any_or_empty(&self.psns, |range| range.contains(packet.bth.psn))
            && any_or_empty(&self.opcodes, |opcode| opcode.matches(packet, payload))
            && (!self.only_errors || learned.is_error)
    }

    fn matches_qpn(&self, packet: &Packet, learned: Learned) -> bool {
        let source = packet.deth.map(|deth| deth.src_qpn).or(learned.source_qpn);
        any_or_empty(&self.qpns, |qpn| *qpn == packet.bth.dest_qpn || Some(*qpn) == source)
    }

    fn matches_host(&self, packet: &Packet) -> bool {
        let (source, destination) = (packet.source_ip(), packet.destination_ip());
        any_or_empty(&self.hosts, |host| *host == source || *host == destination)
    }
}

fn any_or_empty<T>(values: &[T], test: impl FnMut(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(test)
}

#[cfg(test)]
mod tests;
