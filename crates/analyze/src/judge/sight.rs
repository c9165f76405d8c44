//! One packet as the checks see it.

use std::time::Duration;

use uroce_wire::{OpcodeInfo, Operation, Qpn, Service};

use super::Rule;
use super::finding::{FlowIndex, Ledger};
use crate::Packet;
use crate::track::{Annotation, FlowId, RetransmissionCause as Cause};

/// No requester in use has a shorter local ACK timeout.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(4);

/// A packet and what the tracker knows about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight<'a> {
    /// The packet.
    pub(super) packet: &'a Packet,
    /// Its payload, as far as it was captured.
    pub(super) payload: &'a [u8],
    /// Its flow.
    pub(super) flow: usize,
    /// The flow of the other direction.
    pub(super) peer: Option<usize>,
    /// Its PSN without wrap, in the numbering of the requests that it belongs to.
    pub(super) psn: u64,
    /// The request was sent before.
    pub(super) is_retransmission: bool,
    /// No NAK explains why it is sent again.
    pub(super) is_unprovoked: bool,
    /// No NAK explains it, and no timeout can have passed.
    pub(super) is_early: bool,
    /// Time since it was sent first.
    pub(super) after: Option<Duration>,
    /// READs and atomics under way after it.
    pub(super) reads: u32,
    /// PSNs under way after it.
    pub(super) outstanding: u64,
    /// Messages that are complete with it.
    pub(super) completed: u32,
}

impl<'a> Sight<'a> {
    /// A packet and what the tracker says about it.
    pub(super) fn new(packet: &'a Packet, payload: &'a [u8], annotation: &Annotation) -> Self {
        let again = annotation.retransmission;
        let cause = again.map(|again| again.cause);
        Self {
            packet,
            payload,
            flow: index_of(annotation.flow),
            peer: annotation.peer.map(index_of),
            psn: annotation.psn.0,
            is_retransmission: again.is_some(),
            is_unprovoked: matches!(
                cause,
                Some(Cause::AckTimeout | Cause::TailProbe | Cause::Unexplained)
            ),
            is_early: is_early(cause, again.and_then(|again| again.after)),
            after: again.and_then(|again| again.after),
            reads: annotation.outstanding.reads,
            outstanding: annotation.outstanding.packets,
            completed: annotation.acknowledges.map_or(annotation.completed, |it| it.messages),
        }
    }

    /// Notes that this packet breaks `rule`.
    pub(super) fn breaks(
        &self,
        rule: &'static Rule,
        ledger: &mut Ledger,
        text: impl FnOnce() -> String,
    ) {
        let frame = self.packet.frame;
        ledger.record(rule, self.index(), frame, || format!("frame {frame}: {}", text()));
    }

    pub(super) const fn index(&self) -> FlowIndex {
        Some(self.flow)
    }

    /// What its opcode means, if it belongs to a connection.
    pub(super) fn connected(&self) -> Option<&'static OpcodeInfo> {
        let is_connected =
            |info: &&OpcodeInfo| matches!(info.service, Service::Rc | Service::Uc | Service::Xrc);
        self.packet.opcode_info.filter(is_connected)
    }

    /// What its opcode means, if it is a request of a connection.
    pub(super) fn request(&self) -> Option<&'static OpcodeInfo> {
        self.connected().filter(|info| info.is_request())
    }

    /// What its opcode means, if it is an answer.
    pub(super) fn answer(&self) -> Option<&'static OpcodeInfo> {
        self.connected().filter(|info| info.is_response())
    }

    /// Bytes of its payload; `None` if a snap length cut the packet: then it may be several that
    /// segmentation offload left together, and nothing tells where the first one ends.
    pub(super) fn length(&self) -> Option<u32> {
        (!self.packet.is_cut).then_some(self.packet.payload_len)
    }

    /// It is a management datagram.
    pub(super) fn is_management(&self) -> bool {
        let is_datagram = |info: &OpcodeInfo| info.service == Service::Ud;
        let is_general = self.packet.bth.dest_qpn == Qpn::GSI;
        is_general && self.packet.opcode_info.is_some_and(is_datagram)
    }

    /// It is a congestion notification.
    pub(super) fn is_cnp(&self) -> bool {
        self.packet.opcode_info.is_some_and(|info| info.operation == Operation::Cnp)
    }
}

/// Nothing asked to repeat it, and it is too soon for a timeout.
fn is_early(cause: Option<Cause>, after: Option<Duration>) -> bool {
    let is_unasked = matches!(cause, Some(Cause::TailProbe | Cause::Unexplained));
    is_unasked && after.is_some_and(|after| after < SHORTEST_TIMEOUT)
}

/// The place of a flow in the tables of the judge.
fn index_of(flow: FlowId) -> usize {
    usize::try_from(flow.0).unwrap_or(usize::MAX)
}
