//! The newest requests of a flow whose ICRC is wrong.

use uroce_wire::Psn;

use crate::Packet;

/// Requests of a flow that are remembered at a time.
const MAX_DAMAGED: usize = 4;

/// The newest damaged requests of a flow. Nothing follows from them, but that a NAK with the same PSN most likely
/// asks for them.
#[derive(Debug, Default)]
pub(super) struct DamagedRequests {
    /// PSN and frame, the newest one first.
    newest: [Option<(Psn, u64)>; MAX_DAMAGED],
}

impl DamagedRequests {
    pub(super) fn note(&mut self, packet: &Packet) {
        self.newest.rotate_right(1);
        self.newest[0] = Some((packet.bth.psn, packet.frame));
    }

    /// The frame of the newest one with `psn`.
    pub(super) fn frame_of(&self, psn: Psn) -> Option<u64> {
        let mut known = self.newest.iter().flatten();
        known.find(|(other, _)| *other == psn).map(|(_, frame)| *frame)
    }
}
