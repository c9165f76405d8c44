//! A packet at the moment it is analysed.

use uroce_wire::Qpn;

use crate::Packet;
use crate::track::{Annotation, Tracker};

/// A packet at the moment it is analysed.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The packet.
    pub packet: &'a Packet,
    /// Its payload, as far as it was captured.
    pub payload: &'a [u8],
    /// What the tracker says about it.
    pub annotation: &'a Annotation,
    /// All that is known by now.
    pub tracker: &'a Tracker,
}

impl Seen<'_> {
    /// Queue pair of the sender, if it is known by now.
    pub fn source_qpn(&self) -> Option<Qpn> {
        let named = self.packet.deth.map(|deth| deth.src_qpn);
        named.or_else(|| self.tracker.flow(self.annotation.flow)?.source_qpn())
    }
}
